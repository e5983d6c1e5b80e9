"""The one door through which a run or one of its steps changes its state, with the trail and the doorbell."""

from typing import Any

from django.db.models import F

from fleet.doorbell import ring
from fleet.execution.clock import database_now
from fleet.services.trail import Actor, trail_add
from runbooks.models import Run, RunStep
from runbooks.rules import run as rules

_RUN_ENDED = frozenset(state for state, onward in rules.RUN_MOVES.items() if not onward)
_STEP_ENDED = frozenset(
    {rules.PASSED, rules.STEP_FAILED, rules.UNKNOWN, rules.SKIPPED, rules.CANCELLED}
)


class IllegalMove(Exception):
    """A move that the state table does not have: a fault of ours, never of the operator."""


def run_move(*, run: Run, to: str, explanation: str, actor: Actor, **changes: Any) -> None:
    """Move a run whose row the caller holds locked. `changes`: other columns that go with it."""
    before, now = run.state, database_now()
    if to not in rules.RUN_MOVES[before]:
        raise IllegalMove(f"{run}: {before} > {to} is not in the table")
    if run.started_at is None and to != rules.ABORTED:
        changes["started_at"] = now
    if to in _RUN_ENDED:
        changes["ended_at"] = now
    Run.objects.filter(pk=run.pk).update(
        state=to, explanation=explanation, state_at=now, version=F("version") + 1, **changes
    )
    run.refresh_from_db()
    trail_add(
        actor=actor,
        verb=f"run.{to}",
        object_kind="run",
        object_id=run.public_id,
        reason=explanation,
        before={"state": before},
        after={"state": to},
    )
    run_ring(run)


def step_move(
    *, step: RunStep, to: str, explanation: str, actor: Actor, reason: str = "", **changes: Any
) -> None:
    """Move a step of a run whose row the caller holds locked."""
    before, now = step.state, database_now()
    if to not in rules.STEP_MOVES[before]:
        raise IllegalMove(f"{step.run} {step.step_id}: {before} > {to} is not in the table")
    if to in _STEP_ENDED:
        changes["ended_at"] = now
    # A form about a step carries the step's version: it is not stale because the run goes on elsewhere.
    RunStep.objects.filter(pk=step.pk).update(
        state=to, explanation=explanation, version=F("version") + 1, **changes
    )
    step.refresh_from_db()
    trail_add(
        actor=actor,
        verb=f"step.{to}",
        object_kind="run",
        object_id=step.run.public_id,
        reason=reason or explanation,
        before={"step": step.step_id, "state": before},
        after={"step": step.step_id, "state": to},
    )
    run_ring(step.run)


def run_ring(run: Run) -> None:
    """Tell the open pages that show the run."""
    ring(run.topic, "runs", "inbox", run.incident.topic if run.incident else "")
