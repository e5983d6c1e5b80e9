"""Taking a unit out of traffic with proof, or cutting what still runs at its deadline and saying how much that was.

One open drain for each launch. Not in charge of stopping the unit (launches.py), nor of whether it should be.
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models.functions import Now

from fleet.doorbell import ring
from fleet.execution.clock import database_now
from fleet.execution.models import Scrape
from fleet.rules.message import say
from fleet.services.trail import Actor, rule_actor, trail_add
from releases.models import Drain, Endpoint, Launch
from releases.rules import gateway as rules
from releases.rules import launch as launch_rules
from releases.selectors.gateways import is_fresh
from releases.services.endpoints import (
    EndpointMissing,
    endpoint_close,
    endpoint_of,
    endpoint_set,
)
from releases.services.launch_effects import purpose_of

log = logging.getLogger(__name__)

ACTOR = "drain"
DEADLINE_S = 600.0  # how long a unit may finish what it runs; source: NUMBERS.md
# A session that asks again until the deadline has one answer under way when it is closed, and no engine was read since.
CLOSING_S = 10.0
_AT_WORK = ("vllm:num_requests_running", "vllm:num_requests_waiting")


@transaction.atomic
def drain_start(
    *, launch: Launch, purpose: str, deadline_s: float, actor: Actor, reason: str
) -> Drain:
    """Take a launch out of traffic: no new session at once, closed when it is empty or `deadline_s` are over.

    Returns the drain of this purpose, or the open one of the launch, when there is one. A launch behind no
    gateway gets nothing, so that it is drained at once.
    """
    launch = Launch.objects.select_for_update(of=("self",)).get(pk=launch.pk)
    found = (
        Drain.objects.filter(purpose=purpose).first() or launch.drains.filter(ended_at=None).first()
    )
    if found is not None:
        return found
    endpoint = endpoint_of(launch)
    drain = Drain.objects.create(
        launch=launch,
        purpose=purpose,
        reason=reason,
        deadline_at=database_now() + timedelta(seconds=deadline_s),
        **(_begun() if endpoint else _drained_at_once()),
    )
    trail_add(
        actor=actor,
        verb="drain.start",
        object_kind="launch",
        object_id=launch.public_id,
        reason=reason,
        after={"purpose": purpose, "deadline_s": round(deadline_s)},
    )
    if endpoint is not None and endpoint.mode == rules.READY:
        endpoint_set(launch=launch, actor=actor, mode=rules.DRAIN, reason=reason)
    _ring(launch)
    return drain


def _begun() -> dict[str, Any]:
    return {"explanation": say("Waiting for the proxy to take it out for new sessions.")}


def _drained_at_once() -> dict[str, Any]:
    now = database_now()
    return {
        "state": Drain.State.DRAINED,
        "explanation": say("It is behind no gateway: nothing was sent to it."),
        "ended_at": now,
        "proof": {"proxy": 0, "engine": None, "at": now.isoformat()},
    }


@transaction.atomic
def drain_ask(*, launch: Launch, actor: Actor, reason: str) -> Drain:
    """Take a launch out of traffic because a person wants it, with the usual deadline. Raises EndpointMissing.

    Asking again while it drains changes nothing.
    """
    launch = Launch.objects.select_for_update(of=("self",)).get(pk=launch.pk)
    if endpoint_of(launch) is None:
        raise EndpointMissing(f"{launch} is behind no gateway")
    return drain_start(
        launch=launch,
        purpose=f"person:{launch.public_id}#{launch.drains.count() + 1}",
        deadline_s=DEADLINE_S / settings.TIME_SCALE,
        actor=actor,
        reason=reason,
    )


def is_out_of_traffic(launch: Launch) -> bool:
    """Tell whether a launch may be stopped: behind no gateway, or its newest drain is over and it stayed closed."""
    endpoint = endpoint_of(launch)
    if endpoint is None:
        return True
    drain = launch.drains.order_by("-pk").first()
    over = {Drain.State.DRAINED, Drain.State.CUT}
    return endpoint.mode == rules.MAINT and drain is not None and drain.state in over


def drains_advance() -> int:
    """Advance every open drain by a step; return how many moved."""
    open_ones = Drain.objects.filter(ended_at=None).order_by("pk").values_list("pk", flat=True)
    return sum(map(_advance_or_log, list(open_ones)))


def _advance_or_log(pk: int) -> bool:
    try:
        return drain_advance(pk)
    except Exception:
        log.exception("drain %s could not be advanced", pk)
        return False


@transaction.atomic
def drain_advance(pk: int) -> bool:
    """Advance one drain by one move. False when it stays, or when somebody else holds its launch."""
    drain = _locked(pk)
    if drain is None:
        return False
    endpoint = endpoint_of(drain.launch)
    if drain.launch.state != launch_rules.READY or endpoint is None:
        why = say("The unit was taken down while it drained.")
        running = endpoint.seen_running if endpoint else None
        return _end(drain, rules.CUT, why, rule_actor(ACTOR), cut=running)
    if endpoint.mode == rules.READY:
        why = say("It was put back into traffic.")
        Launch.objects.filter(pk=drain.launch_id).update(stop_reason="")
        return _end(drain, rules.CANCELLED, why, rule_actor(ACTOR))
    seen = _seen(drain, endpoint)
    move = rules.decide_drain(seen)
    if move.to is None:
        return _stay(drain, move.explanation)
    return _move(drain, endpoint, seen, move)


def _locked(pk: int) -> Drain | None:
    """Lock the launch and then its drain, in the order of everybody who locks both."""
    launch_id = Drain.objects.filter(pk=pk, ended_at=None).values_list("launch_id", flat=True)
    launch = Launch.objects.select_for_update(of=("self",), skip_locked=True).filter(
        pk__in=launch_id
    )
    if not list(launch):
        return None
    return (
        Drain.objects.select_for_update(of=("self",))
        .select_related("launch__replica")
        .filter(pk=pk, ended_at=None)
        .first()
    )


def _seen(drain: Drain, endpoint: Endpoint) -> rules.DrainSeen:
    return rules.DrainSeen(
        state=drain.state,
        mode=endpoint.seen_mode or None,
        running_by_proxy=endpoint.seen_running,
        running_by_engine=_running_by_engine(drain),
        is_fresh=is_fresh(endpoint.seen_at),
        is_over_deadline=database_now() >= _deadline(drain),
    )


def _deadline(drain: Drain) -> datetime:
    """Return when what still runs is cut: not at the moment in which a drain closes."""
    if drain.state != rules.CLOSING:
        return drain.deadline_at
    return max(
        drain.deadline_at, drain.state_at + timedelta(seconds=CLOSING_S / settings.TIME_SCALE)
    )


def _running_by_engine(drain: Drain) -> float | None:
    """Return what the engine itself has at work or waiting, read in this state of the drain; None: not read."""
    scrape = Scrape.objects.filter(key=purpose_of(drain.launch, "metrics")).first()
    if scrape is None or scrape.ok_at is None or scrape.ok_at < drain.state_at or scrape.misses:
        return None
    found = [scrape.values[name] for name in _AT_WORK if name in scrape.values]
    return sum(found) if found else None


def _stay(drain: Drain, explanation: str) -> bool:
    if explanation != drain.explanation:
        Drain.objects.filter(pk=drain.pk).update(explanation=explanation)
        _ring(drain.launch)
    return False


def _move(drain: Drain, endpoint: Endpoint, seen: rules.DrainSeen, move: rules.DrainMove) -> bool:
    actor = rule_actor(ACTOR)
    if move.to == rules.CLOSING:
        endpoint_set(launch=drain.launch, actor=actor, mode=rules.MAINT)
        return _change(drain, rules.CLOSING, move.explanation, actor)
    if move.to == rules.CUT:
        return _end(drain, rules.CUT, move.explanation, actor, cut=seen.running_by_proxy)
    proof = {
        "proxy": seen.running_by_proxy,
        "engine": seen.running_by_engine,
        "at": endpoint.seen_at.isoformat() if endpoint.seen_at else None,
    }
    return _end(drain, rules.DRAINED, move.explanation, actor, proof=proof)


@transaction.atomic
def drain_cut(*, launch: Launch, actor: Actor, reason: str) -> Drain | None:
    """End the open drain of a launch now, whatever still runs; None when there is none.

    The caller holds the launch's row. `cut` stays empty when the count is not known.
    """
    drain = launch.drains.select_for_update(of=("self",)).filter(ended_at=None).first()
    if drain is None:
        return None
    endpoint = endpoint_of(launch)
    known = endpoint is not None and is_fresh(endpoint.seen_at)
    endpoint_close(launch=launch, actor=actor)
    count = endpoint.seen_running if endpoint is not None and known else None
    if count is None:
        why = say("Cut by a person; how many requests still ran is not known.")
    else:
        why = say("Cut by a person; requests that still ran: %(count)s.", count=count)
    _end(drain, rules.CUT, why, actor, cut=count, reason=reason)
    return drain


def _end(drain: Drain, to: str, explanation: str, actor: Actor, **changes: Any) -> bool:
    reason = changes.pop("reason", "")
    return _change(drain, to, explanation, actor, reason, ended_at=Now(), **changes)


def _change(
    drain: Drain, to: str, explanation: str, actor: Actor, reason: str = "", **changes: Any
) -> bool:
    before = drain.state
    if to not in rules.DRAIN_MOVES[before]:
        raise ValueError(f"drain {drain.pk}: {before} > {to} is not in the table")
    rows = Drain.objects.filter(pk=drain.pk, state=before)
    if not rows.update(state=to, state_at=Now(), explanation=explanation, **changes):
        return False
    trail_add(
        actor=actor,
        verb=f"drain.{to}",
        object_kind="launch",
        object_id=drain.launch.public_id,
        reason=reason,
        before={"state": before},
        after={"state": to, "cut": changes.get("cut")},
    )
    drain.refresh_from_db()
    _ring(drain.launch)
    return True


def _ring(launch: Launch) -> None:
    endpoint = endpoint_of(launch)
    ring(launch.topic, f"replica-{launch.replica.name}", endpoint.gateway.topic if endpoint else "")
