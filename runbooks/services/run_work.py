"""One step at work: what it needs, its beginning, and what it says when asked. Called under the lock of its run."""

from datetime import timedelta

from django.conf import settings
from django.db import transaction

from fleet.execution.clock import database_now
from fleet.execution.message import sentence_in
from fleet.rules.message import say
from fleet.services.trail import Actor, rule_actor
from runbooks.models import Run, RunStep
from runbooks.rules import run as rules
from runbooks.rules.book import Step, fill, params_of
from runbooks.services.effects import EFFECTS, Effect
from runbooks.services.outcome import Outcome, Work, failed, unknown
from runbooks.services.readings import READINGS
from runbooks.services.run_moves import step_move


def missing_param(run: Run, planned: Step) -> str:
    """Return the first parameter that the step names and nobody gave yet, or nothing."""
    return next((name for name in params_of(planned) if not run.params.get(name)), "")


def step_begin(step: RunStep, planned: Step, actor: Actor) -> None:
    """Begin an attempt: the row first, then what it orders, in one transaction."""
    now = database_now()
    step_move(
        step=step,
        to=rules.AT_WORK,
        explanation="",
        actor=actor,
        attempt=step.attempt + 1,
        started_at=now,
        ended_at=None,
        deadline_at=now + timedelta(seconds=planned.timeout_s / settings.TIME_SCALE),
        confirmed_by="" if actor.name.startswith("rule:") else actor.name,
        facts={},
    )
    try:
        with transaction.atomic():  # of what is refused half-way nothing stays
            _effect(planned).begin(_work(step, planned))
    except Exception as error:
        _settle(step, _refused(step, error))


def step_poll(step: RunStep, planned: Step) -> bool:
    """Ask a step at work how it stands; True when it ended. At its deadline it is unknown."""
    try:
        with transaction.atomic():
            outcome = _effect(planned).poll(_work(step, planned))
    except Exception as error:
        outcome = _refused(step, error)
    if outcome is None:
        if step.deadline_at is None or database_now() < step.deadline_at:
            return False
        seconds = round(planned.timeout_s)
        outcome = unknown(say("No proof within %(seconds)s s.", seconds=seconds))
    _settle(step, outcome)
    return True


def _settle(step: RunStep, outcome: Outcome) -> None:
    step_move(
        step=step,
        to=outcome.state,
        explanation=outcome.explanation,
        actor=rule_actor(f"run-{step.step_id}"),
        facts={**step.facts, **outcome.facts},
        evidence=outcome.evidence,
    )


def _effect(planned: Step) -> Effect:
    table = EFFECTS if planned.kind == "action" else READINGS
    return table[planned.meaning.name]


def _work(step: RunStep, planned: Step) -> Work:
    args = {key: fill(value, step.run.params) for key, value in planned.args.items()}
    return Work(step, args)


def _refused(step: RunStep, error: Exception) -> Outcome:
    """Services refuse in words: they are the step's end, not the run's. Anything else is raised again."""
    if not hasattr(error, "reasons") and not hasattr(error, "status"):
        raise error
    step.refresh_from_db()  # what it noted before it was refused is undone
    return failed(sentence_in(error))
