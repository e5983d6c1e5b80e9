"""The one door through which a rollout or one of its waves changes its state, with the trail and the doorbell."""

from typing import Any

from django.db.models import F

from fleet.doorbell import ring
from fleet.execution.clock import database_now
from fleet.services.trail import Actor, trail_add
from releases.models import Rollout, Wave
from releases.rules import rollout as rules
from releases.rules.waves import OBSERVING, WAVE_MOVES
from releases.services.rollout_entries import state_enter

_OVER = frozenset(state for state, onward in rules.ROLLOUT_MOVES.items() if not onward)


class IllegalMove(Exception):
    """A move that the state table does not have: a fault of ours, never of the operator."""


def rollout_move(
    *,
    rollout: Rollout,
    to: str,
    explanation: str,
    actor: Actor,
    reason: str = "",
    proof: dict[str, Any] | None = None,
    **changes: Any,
) -> None:
    """Move a rollout whose row the caller holds locked. `changes`: other columns that go with it."""
    before, now = rollout.state, database_now()
    if to not in rules.ROLLOUT_MOVES[before]:
        raise IllegalMove(f"{rollout}: {before} > {to} is not in the table")
    if to == rules.RUNNING and rollout.started_at is None:
        changes["started_at"] = now
    if to in _OVER:
        changes["ended_at"] = now
    Rollout.objects.filter(pk=rollout.pk).update(
        state=to, explanation=explanation, state_at=now, version=F("version") + 1, **changes
    )
    rollout.refresh_from_db()
    trail_add(
        actor=actor,
        verb=f"rollout.{to}",
        object_kind="rollout",
        object_id=rollout.public_id,
        reason=reason or explanation,
        before={"state": before},
        after={"state": to} | ({"proof": proof} if proof else {}),
    )
    state_enter(rollout, actor)
    ring_rollout(rollout)


def rollout_fire(*, rollout: Rollout, fired: str, actor: Actor) -> None:
    """Note a trigger that fires while a locked rollout stands already: going on takes two signatures from now on."""
    Rollout.objects.filter(pk=rollout.pk).update(
        fired=fired, explanation=fired, version=F("version") + 1
    )
    rollout.refresh_from_db()
    trail_add(
        actor=actor,
        verb="rollout.fire",
        object_kind="rollout",
        object_id=rollout.public_id,
        reason=fired,
        after={"state": rollout.state, "fired": fired},
    )
    ring_rollout(rollout)


def wave_move(
    *, rollout: Rollout, wave: Wave, to: str, explanation: str, actor: Actor, requests: int = 0
) -> None:
    """Move a wave of a locked rollout. `requests`: of the unit's endpoint, from where observing counts."""
    before, now = wave.state, database_now()
    if to not in WAVE_MOVES[before]:
        raise IllegalMove(f"{rollout} wave {wave.number}: {before} > {to} is not in the table")
    wave.state, wave.explanation, wave.state_at = to, explanation, now
    wave.observing_since = now if to == OBSERVING else None
    wave.requests_at_since = requests if to == OBSERVING else 0
    wave.save(
        update_fields=[
            "state", "explanation", "state_at", "observing_since", "requests_at_since",
        ]
    )  # fmt: skip
    trail_add(
        actor=actor,
        verb=f"wave.{to}",
        object_kind="rollout",
        object_id=rollout.public_id,
        reason=explanation,
        before={"wave": wave.number, "state": before},
        after={"wave": wave.number, "state": to},
    )
    ring_rollout(rollout)


def ring_rollout(rollout: Rollout) -> None:
    """Tell the open pages of a rollout, the list and the inbox."""
    ring(rollout.topic, "rollouts", "inbox", f"pool-{rollout.pool.slug}")
