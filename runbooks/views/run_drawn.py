"""Words of a run's page: its phases and steps as the frozen book names them, and the steps that wait for a person."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.urls import reverse
from django.utils.translation import gettext as _

from fleet.marks import Mark, mark_of
from fleet.models import Evidence
from fleet.rules.message import said
from runbooks.models import Run, RunStep
from runbooks.rules import run as rules
from runbooks.rules.book import Book, Phase, Step, fill, params_of
from runbooks.selectors.run_page import evidence_named, nodes_to_name
from runbooks.services.library import BrokenBook, book_frozen
from runbooks.services.run_work import missing_param
from runbooks.services.runs import may_skip
from runbooks.views.words import Clock, in_words

_OVER = frozenset({rules.PASSED, rules.STEP_FAILED, rules.UNKNOWN, rules.SKIPPED, rules.CANCELLED})


@dataclass(frozen=True)
class StepSeen:
    """A step as the page shows it. `outcome` is the catalogue's text of how it ended, `found` what this one found."""

    number: str
    row: RunStep
    planned: Step
    title: str
    mark: Mark
    outcome: str
    found: str
    arguments: str
    who: str
    seconds: float | None
    evidence: list[Evidence]
    links: list[tuple[str, str]]

    @property
    def is_current(self) -> bool:
        return self.row.state == rules.AT_WORK

    @property
    def is_waiting(self) -> bool:
        """Whether the run goes no further without a person at this step."""
        return (
            self.row.state == rules.ASKED
            or (self.row.state == rules.STEP_FAILED and self.planned.on_fail == "stop")
            or (self.row.state == rules.UNKNOWN and self.planned.on_unknown == "block")
        )


@dataclass(frozen=True)
class PhaseSeen:
    number: int
    title: str
    why: str
    mark: Mark
    is_now: bool
    seconds: float | None
    steps: list[StepSeen]


def book_of(run: Run) -> Book | None:
    """Return the book that a run froze; None when today's catalogue cannot read it any more."""
    try:
        return book_frozen(run.book_id, run.book_text)
    except BrokenBook:
        return None


def run_title(run: Run) -> str:
    """Name a run by its book in the reader's language."""
    book = book_of(run)
    return in_words(book.title) if book else run.book_id


def phases_drawn(run: Run, book: Book) -> list[PhaseSeen]:
    """Return every phase with its steps in the order of the book."""
    rows = {row.step_id: row for row in run.steps.all()}
    pieces = evidence_named(key for row in rows.values() for key in row.evidence)
    return [
        _phase(run, number, phase, rows, pieces)
        for number, phase in enumerate(book.phases, start=1)
    ]


def _phase(
    run: Run, number: int, phase: Phase, rows: dict[str, RunStep], pieces: dict[int, Evidence]
) -> PhaseSeen:
    steps = [
        _step(run, f"{number}.{n}", planned, rows[planned.id], pieces)
        for n, planned in enumerate(phase.steps, start=1)
    ]
    began = [step.row.started_at for step in steps if step.row.started_at]
    ended = [step.row.ended_at for step in steps if step.row.ended_at]
    is_now = any(step.is_current or step.is_waiting for step in steps) and run.state in rules.LIVE
    spent = (max(ended) - min(began)).total_seconds() if began and ended and not is_now else None
    return PhaseSeen(
        number, in_words(phase.title), in_words(phase.why), _phase_mark(steps), is_now, spent, steps
    )


def _phase_mark(steps: list[StepSeen]) -> Mark:
    """The phase shows the step that needs the eye most; one of which a step is unknown is never shown as passed."""
    for is_it in (
        lambda step: step.is_waiting,
        lambda step: step.is_current,
        lambda step: step.row.state not in _OVER,
        lambda step: step.row.state == rules.UNKNOWN,
    ):
        if found := next((step for step in steps if is_it(step)), None):
            return found.mark
    return mark_of("step", rules.PASSED) if _is_done(steps) else steps[-1].mark


def _is_done(steps: list[StepSeen]) -> bool:
    return all(step.row.state not in (rules.SKIPPED, rules.CANCELLED) for step in steps)


def _step(
    run: Run, number: str, planned: Step, row: RunStep, pieces: dict[int, Evidence]
) -> StepSeen:
    row.run = run
    return StepSeen(
        number=number,
        row=row,
        planned=planned,
        title=in_words(planned.meaning.title),
        mark=mark_of("step", row.state),
        outcome=_outcome(planned, row.state),
        found=said(row.explanation, _),
        arguments=_arguments(run, planned),
        who=row.confirmed_by or _who(planned),
        seconds=_seconds(row),
        evidence=[pieces[key] for key in row.evidence if key in pieces],
        links=_links(run, row),
    )


def _links(run: Run, row: RunStep) -> list[tuple[str, str]]:
    """Lead to what the step made: a gate run, a launch."""
    links = []
    if gate := row.facts.get("gate"):
        links.append((gate, reverse("gate", args=[gate])))
    if (name := row.facts.get("launch")) and run.replica:
        links.append((name, reverse("launch", args=[run.replica.name, row.facts["generation"]])))
    return links


def _outcome(planned: Step, state: str) -> str:
    text = planned.meaning.outcomes.get(state)
    return in_words(text) if text else ""


def _arguments(run: Run, planned: Step) -> str:
    """Name what the step is about; a parameter that nobody gave yet stays away."""
    if missing_param(run, planned):
        return ""
    values = (fill(value, run.params) for value in planned.args.values())
    words = [
        ", ".join(map(str, value)) if isinstance(value, list) else str(value) for value in values
    ]
    return " · ".join(words)


def _who(planned: Step) -> str:
    return {"auto": _("by itself"), "approver": _("an approver")}.get(planned.who, _("a person"))


def _seconds(row: RunStep) -> float | None:
    if row.started_at is None or row.ended_at is None:
        return None
    return (row.ended_at - row.started_at).total_seconds()


# -- what waits for a person


def waiting_drawn(run: Run, phases: list[PhaseSeen]) -> list[dict[str, Any]]:
    """Return a card for each step at which the run waits for a person."""
    if run.state not in (rules.RUNNING, rules.WAITING):
        return []
    steps = [step for phase in phases for step in phase.steps if step.is_waiting]
    return [_card(run, step) for step in steps]


def _card(run: Run, step: StepSeen) -> dict[str, Any]:
    planned, state = step.planned, step.row.state
    is_settled = state in (rules.STEP_FAILED, rules.UNKNOWN)
    is_observation = planned.kind == "confirm"
    can_record = state == rules.UNKNOWN or (is_observation and state == rules.ASKED)
    missing = [name for name in params_of(planned) if not run.params.get(name)]
    return {
        "step": step,
        "id": planned.id,
        "missing": [(name, nodes_to_name(run) if name == "node" else []) for name in missing],
        "wanted": fill(planned.typed, {**{name: f"‹{name}›" for name in missing}, **run.params}),
        "is_destructive": planned.meaning.risk == "destructive",
        "proof": {
            word: in_words(planned.meaning.outcomes[word]) for word in planned.meaning.outcomes
        },
        "can_confirm": not is_observation and (not is_settled or planned.meaning.is_repeatable),
        "is_again": is_settled,
        "can_record": can_record,
        "can_skip": not can_record and may_skip(step.row, planned),
    }


def run_clock(run: Run, book: Book | None) -> Clock:
    """Return the time since the incident began against the book's target; it stops when users are served again."""
    incident = run.incident
    since = incident.began_at if incident else run.created_at
    until = (incident.mitigated_at if incident else None) or run.ended_at
    return Clock(since, until, book.rto_target_s if book else 0.0)
