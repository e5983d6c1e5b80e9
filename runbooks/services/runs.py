"""What people do with a run: propose, start, confirm, try again, record what they saw, take over, abort.

What goes on by itself is decided tick by tick (run_tick.py); a click and the clock enter by the same doors.
"""

from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _

from fleet.models import Replica
from fleet.rules.message import say
from fleet.rules.refusals import Conflict, NeedsReason, Refused
from fleet.services.trail import Actor, trail_add
from runbooks.models import Incident, Run, RunStep
from runbooks.rules import incident as incident_rules
from runbooks.rules import run as rules
from runbooks.rules.book import Step, fill
from runbooks.selectors.run_page import nodes_to_name
from runbooks.services.incidents import incident_locked, incident_move
from runbooks.services.library import Shelved, book_frozen
from runbooks.services.run_moves import run_move, run_ring, step_move
from runbooks.services.run_work import missing_param, step_begin


@transaction.atomic
def run_propose(
    *, incident: Incident | None, shelved: Shelved, params: Mapping[str, str], actor: Actor
) -> Run:
    """Lay out a run of a book for a person to start; the one of the incident when it is there already.

    Raises Conflict for an incident that is resolved or closed.
    """
    if incident is None:
        return _propose(None, shelved, params, actor)
    # Under its lock it is neither resolved nor given the same book by another conductor meanwhile.
    incident = incident_locked(incident, None)
    if incident.state not in incident_rules.LIVE:
        raise Conflict(
            _("%(incident)s is over: open it again before a book is run for it.")
            % {"incident": incident}
        )
    live = Run.objects.filter(incident=incident, book_id=shelved.book.id, state__in=rules.LIVE)
    return live.first() or _propose(incident, shelved, params, actor)


def _propose(
    incident: Incident | None, shelved: Shelved, params: Mapping[str, str], actor: Actor
) -> Run:
    book = shelved.book
    unit = Replica.objects.filter(name=params.get("unit", "")).first()
    run = Run.objects.create(
        incident=incident,
        replica=unit,
        book_id=book.id,
        book_version=book.version,
        book_text=shelved.text,
        book_sha256=shelved.sha256,
        params=dict(params),
        explanation=say("Proposed; a person starts it."),
    )
    RunStep.objects.bulk_create(
        RunStep(run=run, position=position, step_id=step.id)
        for position, step in enumerate(book.steps)
    )
    trail_add(
        actor=actor,
        verb="run.propose",
        object_kind="run",
        object_id=run.public_id,
        after={"book": book.id, "version": book.version, "params": dict(params)},
    )
    run_ring(run)
    return run


@transaction.atomic
def run_start(*, run: Run, user: Any, actor: Actor, version: int | None = None) -> Run:
    """Start a proposed run; whoever starts it has it in hand. Starting it again changes nothing. Raises Conflict."""
    run = run_locked(run, version)
    if run.state in (rules.RUNNING, rules.WAITING):
        return run
    if run.state != rules.PROPOSED:
        raise Conflict(_("%(run)s is over.") % {"run": run})
    run_move(run=run, to=rules.RUNNING, explanation=say("Started."), actor=actor, holder=user)
    incident = run.incident
    if incident and incident_rules.MITIGATING in incident_rules.INCIDENT_MOVES[incident.state]:
        incident_move(
            incident=incident,
            to=incident_rules.MITIGATING,
            actor=actor,
            words=say("%(run)s started.", run=run.public_id),
        )
    return run


@transaction.atomic
def run_take(*, run: Run, user: Any, actor: Actor) -> Run:
    """Take a run into one's hands, from whoever had it."""
    run = run_locked(run, None)
    if run.state not in rules.LIVE:
        raise Conflict(_("%(run)s is over.") % {"run": run})
    before = run.holder.get_username() if run.holder else ""
    Run.objects.filter(pk=run.pk).update(holder=user)
    trail_add(
        actor=actor,
        verb="run.take",
        object_kind="run",
        object_id=run.public_id,
        before={"holder": before},
        after={"holder": user.get_username()},
    )
    run_ring(run)
    run.refresh_from_db()
    return run


@transaction.atomic
def run_abort(*, run: Run, reason: str, actor: Actor, version: int | None = None) -> Run:
    """End a run where it stands: what it did stays done, nothing more of it begins. Raises NeedsReason, Conflict."""
    if not reason.strip():
        raise NeedsReason(_("Aborting needs a reason. Write why, then send again."))
    run = run_locked(run, version)
    if run.state not in rules.LIVE:
        raise Conflict(_("%(run)s is over.") % {"run": run})
    words = say("Aborted: %(reason)s", reason=reason.strip())
    for step in run.steps.all():
        if rules.CANCELLED in rules.STEP_MOVES[step.state]:
            step_move(step=step, to=rules.CANCELLED, explanation=words, actor=actor)
    run_move(run=run_locked(run, None), to=rules.ABORTED, explanation=words, actor=actor)
    return run_locked(run, None)


@transaction.atomic
def step_confirm(
    *,
    run: Run,
    step_id: str,
    actor: Actor,
    typed: str = "",
    params: Mapping[str, str] | None = None,
    version: int | None = None,
) -> RunStep:
    """Let a step begin that waits for a person, or again when it may be repeated. Raises Conflict, Refused.

    `typed`: what a destructive step asks to be typed. `params`: parameters that were missing until now.
    """
    run = run_locked(run, version)
    step, planned = _step(run, step_id)
    if step.state == rules.AT_WORK:
        return step
    _demand_turn(run, step, planned)
    if params:
        _give_params(run, planned, params)
    if name := missing_param(run, planned):
        raise Refused(_("%(param)s is needed first.") % {"param": name})
    wanted = fill(planned.typed, run.params)
    if wanted and typed.strip() != wanted:
        raise Refused(
            _("Type %(wanted)s to confirm, found %(typed)s.")
            % {"wanted": wanted, "typed": typed[:60] or "-"}
        )
    step_begin(step, planned, actor)
    return step


@transaction.atomic
def step_record(
    *,
    run: Run,
    step_id: str,
    outcome: str,
    words: str,
    actor: Actor,
    version: int | None = None,
) -> RunStep:
    """Settle a step by what a person saw: an unknown one as passed or failed, one not begun or failed as skipped.

    Raises NeedsReason without words, Conflict for what the table has not.
    """
    if not words.strip():
        raise NeedsReason(_("Write what you saw, then send again."))
    run = run_locked(run, version)
    step, planned = _step(run, step_id)
    is_settled_by_person = step.state == rules.UNKNOWN or (
        planned.kind == "confirm" and step.state == rules.ASKED
    )
    allowed = {rules.PASSED, rules.STEP_FAILED} if is_settled_by_person else {rules.SKIPPED}
    if outcome not in allowed:
        raise Conflict(_("This step cannot be recorded so."))
    if outcome == rules.SKIPPED and not may_skip(step, planned):
        raise Conflict(_("A step before which others must not begin is not skipped."))
    if step.state == rules.ASKED and outcome != rules.SKIPPED:
        step_move(step=step, to=rules.AT_WORK, explanation="", actor=actor)
    step_move(
        step=step,
        to=outcome,
        explanation=say("Recorded by %(who)s: %(words)s", who=actor.name, words=words.strip()),
        actor=actor,
        reason=words.strip(),
        confirmed_by=actor.name,
    )
    return step


def may_skip(step: RunStep, planned: Step) -> bool:
    """Whether a person may pass over a step; never evidence: what comes after destroys what it would have sealed."""
    return (
        step.state in (rules.ASKED, rules.STEP_FAILED) and planned.meaning.name != "evidence_freeze"
    )


def run_locked(run: Run, version: int | None) -> Run:
    """Lock a run's row and return it as it is. Raises Conflict when it is not at that version any more."""
    rows = Run.objects.select_for_update(of=("self",)).select_related("incident", "holder")
    found = rows.get(pk=run.pk)
    if version is not None and found.version != version:
        raise Conflict(_("%(run)s moved on since you looked. Read it again.") % {"run": found})
    return found


def _step(run: Run, step_id: str) -> tuple[RunStep, Step]:
    planned = {one.id: one for one in book_frozen(run.book_id, run.book_text).steps}
    step = run.steps.filter(step_id=step_id).first()
    if step is None or step_id not in planned:
        raise Conflict(_("%(run)s has no step %(step)s.") % {"run": run, "step": step_id[:41]})
    step.run = run
    return step, planned[step_id]


def _demand_turn(run: Run, step: RunStep, planned: Step) -> None:
    if run.state not in (rules.RUNNING, rules.WAITING):
        raise Conflict(_("%(run)s is not running.") % {"run": run})
    again = step.state in (rules.STEP_FAILED, rules.UNKNOWN)
    if again and not planned.meaning.is_repeatable:
        raise Conflict(_("This step is not safe to repeat: record what you saw."))
    if not again and step.state != rules.ASKED:
        raise Conflict(_("It is not this step's turn."))
    if planned.kind == "confirm":
        raise Conflict(_("Record what you saw."))


def _give_params(run: Run, planned: Step, params: Mapping[str, str]) -> None:
    given = {key: value.strip() for key, value in params.items() if value.strip()}
    declared = set(book_frozen(run.book_id, run.book_text).params)
    if unknown := sorted(set(given) - declared):
        raise Refused(_("The book has no parameter %(name)s.") % {"name": unknown[0][:40]})
    for name, value in given.items():
        _demand_fitting(run, name, value)
    run.params = {**run.params, **given}
    Run.objects.filter(pk=run.pk).update(params=run.params)


def _demand_fitting(run: Run, name: str, value: str) -> None:
    """What a run is about is settled: its pool decided who may act in it, so no form points it elsewhere."""
    known = run.params.get(name)
    if known and known != value:
        raise Refused(
            _("%(param)s is %(known)s in this run; it cannot become %(given)s.")
            % {"param": name, "known": known, "given": value[:60]}
        )
    if name == "unit" and not Replica.objects.filter(name=value).exists():
        raise Refused(_("No unit is called %(name)s.") % {"name": value[:60]})
    if name == "node" and run.replica_id and value not in nodes_to_name(run):
        raise Refused(
            _("%(node)s is no node of this unit: choose one of %(nodes)s.")
            % {"node": value[:60], "nodes": ", ".join(nodes_to_name(run)) or "-"}
        )
