"""Brings launches that no rollout brings into traffic: a gate of their own first, then the pool's custom weight.

Not in charge of waves, which gate and weigh their units themselves. Safe to run twice or never.
"""

import logging

from django.db import transaction
from django.db.models import QuerySet

from fleet.doorbell import ring
from fleet.services.trail import rule_actor
from releases.models import Endpoint, GateRun, Launch
from releases.rules import entry as rules
from releases.selectors.gate_proof import gate_counting
from releases.services.endpoints import custom_weight, endpoint_set
from releases.services.gates import LIVE, GateRefused, gate_start

log = logging.getLogger(__name__)

_RULE = rule_actor("entry")


def entries_advance() -> int:
    """Carry every launch that waits for its first traffic one step on; return how many things changed."""
    ids = _waiting().order_by("ready_at", "pk").values_list("pk", flat=True)
    return sum(_advance_or_log(pk) for pk in list(ids))


def _waiting() -> QuerySet[Launch]:
    """Ready launches without a first weight that nobody keeps away from traffic, and of which nothing is in doubt."""
    return Launch.objects.filter(
        endpoint__mode=Endpoint.Mode.READY,
        state=Launch.State.READY,
        first_weight=None,
        stop_reason="",
        replica__doubt="",
    )


def _advance_or_log(pk: int) -> bool:
    try:
        return entry_advance(pk)
    except Exception:
        # One that cannot be advanced must not hold up the others; its own transaction is gone.
        log.exception("launch %s could not be brought into traffic", pk)
        return False


@transaction.atomic
def entry_advance(pk: int) -> bool:
    """Begin the gate of one launch, or give it its weight. False when nothing changed or another conductor holds it."""
    # Asked anew: somebody may have wanted it away from traffic since it was found.
    launch = (
        _waiting()
        .select_for_update(of=("self",), skip_locked=True)
        .select_related("replica__pool", "release")
        .filter(pk=pk)
        .first()
    )
    if launch is None:
        return False
    move = rules.decide_entry(_seen(launch))
    if move.weight is not None:
        endpoint_set(launch=launch, weight=move.weight, actor=_RULE, reason=move.explanation)
        if not move.weight:
            _explain(launch, move.explanation)
        return True
    if move.begins_gate and (why := _gate_begin(launch)):
        return _explain(launch, why)
    return _explain(launch, move.explanation) or move.begins_gate


def _gate_begin(launch: Launch) -> str:
    """Begin the gate of a launch; return a sentence when a run over a part of the checks is still open."""
    try:
        gate_start(
            launch=launch, purpose=f"{_purpose_head(launch)}{_tries(launch) + 1}", actor=_RULE
        )
    except GateRefused as refusal:
        return refusal.sentence
    return ""


def _seen(launch: Launch) -> rules.EntrySeen:
    run = gate_counting(launch)
    others = GateRun.objects.filter(
        state__in=LIVE, launch__state=Launch.State.READY, launch__first_weight=None
    )
    return rules.EntrySeen(
        custom_weight=custom_weight(launch),
        gate=run.state if run else "",
        gate_explanation=run.explanation if run else "",
        tries=_tries(launch),
        others_open=others.exclude(launch=launch).count(),
    )


def _purpose_head(launch: Launch) -> str:
    return f"launch:{launch.public_id}/entry#"


def _tries(launch: Launch) -> int:
    return launch.gate_runs.filter(purpose__startswith=_purpose_head(launch)).count()


def _explain(launch: Launch, explanation: str) -> bool:
    rows = Endpoint.objects.filter(launch=launch).exclude(explanation=explanation)
    if not rows.update(explanation=explanation):
        return False
    ring(launch.topic, f"replica-{launch.replica.name}", "fleet")
    return True
