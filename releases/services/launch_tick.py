"""One tick over the live launches: lock a row, build its snapshot, decide, carry the move out, commit.

Safe to run twice or never; two conductors skip each other's rows.
"""

import logging
import time
from dataclasses import replace
from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Max

from fleet.doorbell import ring
from fleet.execution.clock import database_now
from fleet.execution.faults import fault_point
from fleet.services.brake import brake_judge
from fleet.services.replicas import replica_doubt
from fleet.services.trail import rule_actor
from releases.models import Launch
from releases.rules import launch as rules
from releases.rules.gateway import MAINT
from releases.rules.identity import UNASKED
from releases.services import launch_effects as effects
from releases.services.endpoints import endpoint_set
from releases.services.launch_log import positions_read
from releases.services.launch_moves import launch_move, troubled_tell
from releases.services.launch_seen import golden_attempt, launch_seen

log = logging.getLogger(__name__)

STOP_RETRY_S = 30.0
TICK_BUDGET_S = 5.0  # beats come every 2 s; the other ticks wait for this one

_looked_at = 0  # the launch this process looked at last


def launches_advance() -> int:
    """Advance live launches by a move each until the time is spent; return how many launches moved.

    The next tick goes on behind the last one looked at, so that none waits for ever behind slow ones.
    """
    global _looked_at
    ids = Launch.objects.filter(state__in=Launch.LIVE).order_by("pk").values_list("pk", flat=True)
    started, moved = time.monotonic(), 0
    for pk in next_in_turn(list(ids), _looked_at):
        moved += _advance_or_log(pk)
        _looked_at = pk
        if time.monotonic() - started > TICK_BUDGET_S:
            break
    return moved


def next_in_turn(ids: list[int], last: int) -> list[int]:
    """Return the rising ids so that those behind `last` come first."""
    later = [pk for pk in ids if pk > last]
    return later + ids[: len(ids) - len(later)]


def _advance_or_log(pk: int) -> bool:
    try:
        return launch_advance(pk)
    except Exception:
        # A launch that cannot be advanced must not hold up the others; its own transaction is gone.
        log.exception("launch %s could not be advanced", pk)
        return False


@transaction.atomic
def launch_advance(pk: int) -> bool:
    """Advance one launch by one move. False when it stays, or when another conductor holds it."""
    launch = (
        Launch.objects.select_for_update(of=("self",), skip_locked=True)
        .select_related("replica__pool", "release")
        .filter(pk=pk, state__in=Launch.LIVE)
        .first()
    )
    if launch is None:
        return False
    if launch.state in rules.READ_STATES:
        positions_read(launch)
    seen = launch_seen(launch)
    move = _decide(launch, seen)
    fault_point("launch-decided")
    if move.to is None:
        _stay(launch, move, seen)
        return False
    moved = launch_move(
        launch=launch,
        to=move.to,
        explanation=move.explanation,
        cause=move.cause,
        is_reboot=move.is_reboot,
        actor=rule_actor(f"launch-{launch.state}"),
    )
    fault_point(f"launch-{launch.state}")
    return moved


def _decide(launch: Launch, seen: rules.Snapshot) -> rules.Move:
    """Decide the next move; a ready unit that a rule would act on is counted by the brake before."""
    move = rules.decide(seen)
    if launch.state == rules.READY and move.is_judged and brake_judge(turning=launch.replica):
        return rules.decide(replace(seen, is_braked=True))
    return move


def _stay(launch: Launch, move: rules.Move, seen: rules.Snapshot) -> None:
    if seen.warm_up == "failed":
        # A golden round that got no answer is asked anew; a wrong answer is not.
        effects.dispatch_golden(launch, attempt=golden_attempt(launch) + 1)
    elif unasked := {p.position for p in seen.positions if p.identity == UNASKED}:
        effects.dispatch_identity(launch, unasked)
    elif launch.state == rules.STOPPING:
        _stop_again(launch)
    if (move.explanation, move.doubt) != (launch.explanation, launch.replica.doubt):
        Launch.objects.filter(pk=launch.pk).update(explanation=move.explanation)
        if launch.state == rules.READY:
            replica_doubt(
                replica=launch.replica,
                doubt=move.doubt,
                explanation=move.explanation,
                actor=rule_actor("launch-ready"),
            )
            _take_traffic_away(launch, move)
            if move.doubt:
                troubled_tell(launch)
        ring(launch.topic, f"replica-{launch.replica.name}", "fleet")


def _take_traffic_away(launch: Launch, move: rules.Move) -> None:
    """Give a unit that is newly judged to hang nothing more, also not of the sessions it has: they wait in vain."""
    if move.doubt == rules.HUNG and move.is_judged:
        endpoint_set(
            launch=launch,
            actor=rule_actor("launch-hung"),
            weight=0,
            mode=MAINT,
            reason=move.explanation,
        )


def _stop_again(launch: Launch) -> None:
    """Repeat stops that ended without proof, at most one round each `STOP_RETRY_S`."""
    unproved = [
        place.stop
        for place in launch.positions.select_related("stop")
        if place.stop and place.stop.is_settled and place.stop.state != "succeeded"
    ]
    if not unproved:
        return
    newest = launch.positions.aggregate(at=Max("stop__created_at"))["at"]
    if database_now() - newest < timedelta(seconds=STOP_RETRY_S / settings.TIME_SCALE):
        return
    attempt = max(int(stop.purpose.rpartition("#")[2]) for stop in unproved)
    effects.dispatch_stops(launch, attempt=attempt + 1)
