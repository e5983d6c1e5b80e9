"""One tick over the live runs: lock a row, ask the step at work, decide, begin or ask for the next, commit.

Safe to run twice or never; two conductors skip each other's rows.
"""

import logging

from django.db import DatabaseError, transaction

from fleet.rules.message import say
from fleet.selectors.brake import is_braked
from fleet.services.trail import rule_actor
from runbooks.models import Run, RunStep
from runbooks.rules import run as rules
from runbooks.rules.book import Step
from runbooks.services.library import book_frozen
from runbooks.services.run_moves import run_move, run_ring, step_move
from runbooks.services.run_work import missing_param, step_begin, step_poll

log = logging.getLogger(__name__)


def runs_advance() -> int:
    """Advance every started run as far as it goes by itself; return how many steps moved."""
    live = Run.objects.filter(state__in=[rules.RUNNING, rules.WAITING]).order_by("pk")
    return sum(_advance_or_log(pk) for pk in live.values_list("pk", flat=True))


def _advance_or_log(pk: int) -> int:
    try:
        return run_advance(pk)
    except Exception as error:
        # A run that cannot be advanced must not hold up the others; its own transaction is gone.
        log.exception("run %s could not be advanced", pk)
        _say_fault(pk, error)
        return 0


def _say_fault(pk: int, error: Exception) -> None:
    """Let the page say that it stands still: nobody reads the log at night."""
    why = say("The console could not judge it: %(error)s", error=type(error).__name__)
    try:
        run = Run.objects.select_related("incident").get(pk=pk)
        if run.explanation != why:
            Run.objects.filter(pk=pk, state=run.state).update(explanation=why)
            run_ring(run)
    except DatabaseError:
        log.exception("run %s cannot say so either", pk)  # the others must be looked at


@transaction.atomic
def run_advance(pk: int) -> int:
    """Advance one run by at most one step's end and one step's beginning; return how many steps moved."""
    run = (
        Run.objects.select_for_update(of=("self",), skip_locked=True)
        .select_related("incident", "replica")
        .filter(pk=pk, state__in=[rules.RUNNING, rules.WAITING])
        .first()
    )
    if run is None:
        return 0
    book = book_frozen(run.book_id, run.book_text)
    planned = {step.id: step for step in book.steps}
    numbers = book.numbers
    steps = list(run.steps.all())
    for step in steps:
        step.run = run
    moved = sum(
        step_poll(step, planned[step.step_id]) for step in steps if step.state == rules.AT_WORK
    )
    _derive_params(run, steps, set(book.params))
    move = rules.decide_run(
        run.state,
        tuple(_seen(run, step, planned[step.step_id], numbers[step.step_id]) for step in steps),
        is_braked=is_braked(),
    )
    by_id = {step.step_id: step for step in steps}
    moved += _carry_out(run, move, by_id, planned)
    return moved


def _carry_out(
    run: Run, move: rules.RunMove, steps: dict[str, RunStep], planned: dict[str, Step]
) -> int:
    actor = rule_actor(f"book-{run.book_id}")
    if move.to is not None:
        run_move(run=run, to=move.to, explanation=move.explanation, actor=actor)
    elif move.explanation != run.explanation:
        Run.objects.filter(pk=run.pk).update(explanation=move.explanation)
        run_ring(run)
    if move.ask:
        step_move(step=steps[move.ask], to=rules.ASKED, explanation=move.explanation, actor=actor)
        return 1
    if move.begin:
        step_begin(steps[move.begin], planned[move.begin], actor)
        return 1
    return 0


def _derive_params(run: Run, steps: list[RunStep], declared: set[str]) -> None:
    """Parameters that a step found are given to the later ones: the node of the first lagging rank."""
    found = {
        name: str(step.facts[name])
        for step in steps
        for name in declared & set(step.facts)
        if not run.params.get(name) and step.state in (rules.PASSED, rules.STEP_FAILED)
    }
    if found:
        run.params = {**run.params, **found}
        Run.objects.filter(pk=run.pk).update(params=run.params)


def _seen(run: Run, step: RunStep, planned: Step, number: str) -> rules.StepSeen:
    return rules.StepSeen(
        id=step.step_id,
        state=step.state,
        risk=planned.meaning.risk,
        who=planned.who,
        action=planned.meaning.name if planned.kind == "action" else "",
        on_fail=planned.on_fail,
        on_unknown=planned.on_unknown,
        args=tuple((key, _plain(value)) for key, value in planned.args.items()),
        is_missing_param=missing_param(run, planned),
        number=number,
    )


def _plain(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value
