"""Node acceptances: asked for over many nodes, carried on tick by tick from their rows, cancelled.

What a tick finds is decided from the rows alone, so it may run twice or never, and a killed worker or conductor loses
nothing. What a verdict does to a node is acceptance_settle.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.db.models.functions import Now
from django.utils.translation import gettext as _

from fleet.doorbell import ring
from fleet.execution import states
from fleet.execution.clock import database_now
from fleet.execution.faults import fault_point
from fleet.models import AcceptanceRun, Node, NodeAcceptance
from fleet.rules.acceptance import not_measured
from fleet.rules.acceptance_steps import RUN_S
from fleet.rules.message import say
from fleet.rules.nodeset import fold_nodeset
from fleet.rules.refusals import Conflict, NeedsReason, Refused
from fleet.selectors.scope import pools_of_nodes
from fleet.services.acceptance_settle import judged, verdicts_settle
from fleet.services.acceptance_steps import steps_cancel, steps_dispatch
from fleet.services.node_moves import rows_update
from fleet.services.permits import permit_demand
from fleet.services.probes import nodes_scope, probe_start, probes_cancel, probes_open
from fleet.services.trail import Actor, rule_actor, trail_add

BATCH = 64
TOPIC = "acceptances"  # of the list of runs
_FAILED = sorted(states.TERMINAL - {states.SUCCEEDED})


@transaction.atomic
def acceptance_start(*, nodes: Sequence[Node], actor: Actor, user: Any = None) -> AcceptanceRun:
    """Accept these nodes: a fresh probe, then the tests. Raises Refused, NotAllowed, Conflict for one at work."""
    if not nodes:
        raise Refused(_("No node was selected. Choose at least one."))
    pools = pools_of_nodes(list(nodes))
    for pool in set(pools.values()):
        permit_demand(user, "acceptance-start", pool)
    _demand_free(nodes)
    began = probe_start(nodes=nodes, actor=actor, user=user)  # locks the nodes
    _demand_free(nodes)
    probes = probes_open(nodes)  # also those that were being asked already
    run = AcceptanceRun.objects.create(
        requested_by=user,
        scope=nodes_scope(nodes)[:200],
        deadline_at=database_now() + timedelta(seconds=RUN_S / settings.TIME_SCALE),
    )
    NodeAcceptance.objects.bulk_create(
        NodeAcceptance(run=run, node_id=node_id, probe=probe) for node_id, probe in probes.items()
    )
    trail_add(
        actor=actor,
        verb="acceptance.start",
        object_kind="acceptance",
        object_id=run.public_id,
        after={"nodes": len(pools), "scope": run.scope, "probe": began.pk},
    )
    ring("fleet", TOPIC, run.topic, *(f"node-{node.name}" for node in nodes))
    return run


@transaction.atomic
def acceptance_cancel(
    *, run: AcceptanceRun, reason: str, actor: Actor, user: Any = None
) -> AcceptanceRun:
    """End a run: what is not settled stays unmeasured, tests that run are stopped. Raises NeedsReason, NotAllowed.

    A run that is over stays as it is.
    """
    if not reason.strip():
        raise NeedsReason(_("Cancelling needs a reason. Write why, then send again."))
    mine = NodeAcceptance.objects.select_for_update(of=("self",)).filter(run=run)
    rows = list(_rows(mine).order_by("id"))
    for pool in set(pools_of_nodes([row.node for row in rows]).values()):
        permit_demand(user, "acceptance-cancel", pool)
    left = [row for row in rows if row.settled_at is None]
    if not left:
        return run
    _take_back(left, actor)
    AcceptanceRun.objects.filter(pk=run.pk).update(
        cancelled_by=actor.name[:80], cancel_reason=reason.strip()
    )
    why = say("Cancelled: %(reason)s", reason=reason.strip())
    verdicts_settle(left, {row.pk: not_measured(why) for row in left}, actor=actor)
    trail_add(
        actor=actor,
        verb="acceptance.cancel",
        object_kind="acceptance",
        object_id=run.public_id,
        reason=reason,
        after={"nodes": len(left)},
    )
    _end_runs({run.pk})
    _ring(left)
    run.refresh_from_db()
    return run


@transaction.atomic
def acceptances_advance(limit: int = BATCH) -> int:
    """Carry acceptances one step on; return how many moved. The number of queries does not grow with the nodes."""
    rows = list(
        _rows(
            NodeAcceptance.objects.select_for_update(of=("self",), skip_locked=True).filter(
                _may_move(), settled_at=None
            )
        ).order_by("id")[:limit]
    )
    if not rows:
        return 0
    now = database_now()
    late = [row for row in rows if row.run.deadline_at <= now]
    silent = {row.pk: why for row in rows if (why := _silence(row, now))}
    asked = [row for row in rows if row.look_id is None and row.pk not in silent]
    asked = [row for row in asked if row not in late]
    if asked:
        steps_dispatch(asked)
        fault_point("acceptance-asked")
        rows_update(NodeAcceptance, asked, "look", "allreduce", "disk_read", "pins", "skipped")
    if late:
        _take_back(late, rule_actor("acceptance"))
    over = [row for row in rows if row not in asked]
    loud = [row for row in over if row.pk not in silent]
    verdicts = judged(loud) | {pk: not_measured(why) for pk, why in silent.items()}
    verdicts_settle(over, verdicts, actor=rule_actor("acceptance"))
    _end_runs({row.run_id for row in over})
    _ring(rows)
    return len(rows)


def _rows(rows: QuerySet[NodeAcceptance]) -> QuerySet[NodeAcceptance]:
    return rows.select_related(
        "run",
        "node__host",
        "probe__command",
        "probe__node__host",
        "look__output",
        "allreduce__subject",
        "disk_read__subject",
    )


def _may_move() -> Q:
    """Rows of which something is to be done now: the probe was read, every step is over, or time is up."""
    is_read = Q(probe__settled_at__isnull=False)
    is_over = (
        Q(look__state__in=sorted(states.TERMINAL)) & _is_over("allreduce") & _is_over("disk_read")
    )
    return (is_read & (Q(look=None) | is_over)) | Q(run__deadline_at__lte=Now())


def _is_over(step: str) -> Q:
    """A test was not wanted, could not be started, or ended with its whole output stored."""
    ended = {f"{step}__state": states.SUCCEEDED, f"{step}__subject__stream__is_complete": True}
    lost = {
        f"{step}__state": states.SUCCEEDED,
        f"{step}__subject__state__in": [states.SUBJECT_LOST, states.SUBJECT_GONE],
    }
    return Q(**{step: None}) | Q(**{f"{step}__state__in": _FAILED}) | Q(**ended) | Q(**lost)


def _silence(row: NodeAcceptance, now: datetime) -> str:
    """Say why the probe of a row told nothing; empty when it did, or is not over."""
    probe = row.probe
    if probe is None or probe.settled_at is None:
        is_late = row.run.deadline_at <= now
        return say("The node was not probed before the deadline.") if is_late else ""
    if any(isinstance(one, dict) and one.get("check") == "connection" for one in probe.findings):
        return probe.summary
    return ""


def _take_back(rows: Sequence[NodeAcceptance], actor: Actor) -> None:
    probes = [row.probe for row in rows if row.probe is not None and row.probe.settled_at is None]
    if probes:
        probes_cancel(probes, actor=actor)
    steps_cancel(rows)


def _demand_free(nodes: Sequence[Node]) -> None:
    taken = NodeAcceptance.objects.filter(node__in=list(nodes), settled_at=None)
    found = list(taken.select_related("node__host", "run").order_by("node__host__name"))
    if found:
        raise Conflict(
            _("%(nodes)s: acceptance %(run)s is at work there. Wait for it, or cancel it.")
            % {
                "nodes": fold_nodeset(row.node.name for row in found),
                "run": found[0].run.public_id,
            }
        )


def _end_runs(run_ids: set[int]) -> None:
    left = NodeAcceptance.objects.filter(run=OuterRef("pk"), settled_at=None)
    AcceptanceRun.objects.filter(~Exists(left), pk__in=run_ids, ended_at=None).update(
        ended_at=Now()
    )


def _ring(rows: Sequence[NodeAcceptance]) -> None:
    ring(
        "fleet",
        TOPIC,
        *dict.fromkeys(row.run.topic for row in rows),
        *(f"node-{row.node.name}" for row in rows),
    )
