"""The list of incidents and the page of one: the chain from symptom to action, the timeline, and who has it in hand."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_safe

from fleet.marks import mark_of
from fleet.rules.message import said
from fleet.rules.policy import may
from fleet.views.parts import render_page
from runbooks.models import Incident, Run
from runbooks.rules import incident as rules
from runbooks.rules import run as run_rules
from runbooks.selectors.incident_page import LISTED, NOTES_SHOWN, incidents_listed, runs_of
from runbooks.selectors.names import incident_named
from runbooks.services.detectors import HANG, LOST
from runbooks.services.incidents import closing_missing, evidence_of
from runbooks.services.library import book_for, books
from runbooks.services.suspicion import CONTROL_PLANE
from runbooks.views.run_drawn import StepSeen, book_of, phases_drawn, run_title
from runbooks.views.words import Clock, in_words


@require_safe
def incident_list(request: HttpRequest) -> HttpResponse:
    """Incidents, newest first: those that are open, or all."""
    is_all = request.GET.get("show") == "all"
    rows = incidents_listed(is_live=not is_all)
    context = {
        "section": "incidents",
        "topics": ["incidents"],
        "is_all": is_all,
        "most": LISTED,
        "incidents": [(row, mark_of("incident", row.state), said(row.title, _)) for row in rows],
    }
    return render_page(
        request,
        "runbooks/incident_list.html",
        context,
        parts={"incidents-live": "runbooks/_incident_rows.html"},
    )


# What the detectors call what they saw.
SIGNATURE_WORDS = {
    HANG: gettext_lazy("a unit that hangs"),
    LOST: gettext_lazy("a lost rank"),
    CONTROL_PLANE: gettext_lazy("control plane suspect"),
}


@require_safe
def incident(request: HttpRequest, name: str) -> HttpResponse:
    """One incident."""
    row = incident_or_404(name)
    runs = runs_of(row)
    live = next((run for run in runs if run.state in run_rules.LIVE), None)
    context = {
        "section": "incidents",
        "topics": [row.topic],
        "incident": row,
        "title": said(row.title, _),
        "signature": SIGNATURE_WORDS.get(row.signature, row.signature),
        "mark": mark_of("incident", row.state),
        "symptoms": [_symptom(one) for one in row.symptoms],
        "evidence": evidence_of(row),
        "runs": [_run(run) for run in runs],
        "live_run": live,
        "notes": [(note, said(note.text, _)) for note in row.notes.all()[:NOTES_SHOWN]],
        "most": NOTES_SHOWN,
        "clock": _clock(row, runs),
        "books": _books(row),
        **_acts(request, row),
    }
    return render_page(
        request,
        "runbooks/incident.html",
        context,
        parts={"incident-live": "runbooks/_incident_live.html"},
    )


def _symptom(one: dict[str, str]) -> dict[str, Any]:
    return {
        "text": said(one["text"], _),
        "source": said(one["source"], _),
        "at": datetime.fromisoformat(one["at"]),
    }


def _run(run: Run) -> dict[str, Any]:
    """A run with what it did so far; of one that is over its page tells."""
    book = book_of(run)
    steps = [step for phase in (phases_drawn(run, book) if book else []) for step in phase.steps]
    return {
        "run": run,
        "title": run_title(run),
        "mark": mark_of("run", run.state),
        "explanation": said(run.explanation, _),
        "steps": [step for step in steps if run.state in run_rules.LIVE and _is_told(step)],
        "done": sum(step.row.state in (run_rules.PASSED, run_rules.SKIPPED) for step in steps),
        "count": len(steps),
    }


def _is_told(step: StepSeen) -> bool:
    """Readings are evidence; of actions those are told that began or wait."""
    has_begun = step.row.state not in (run_rules.PENDING, run_rules.CANCELLED)
    return has_begun and (step.planned.kind == "action" or step.is_waiting)


def _clock(row: Incident, runs: list[Run]) -> Clock:
    """Count to the mitigation against the target of the newest run's book, else of the book for its signature."""
    book = book_of(runs[0]) if runs else None
    shelved = book_for(row.signature)
    target = book or (shelved.book if shelved else None)
    return Clock(
        row.began_at, row.mitigated_at or row.closed_at, target.rto_target_s if target else 0.0
    )


def _books(row: Incident) -> list[tuple[str, str]]:
    """Return the books that can be run, the one for the signature first."""
    return [
        (book_id, in_words(shelved.book.title))
        for book_id, shelved in sorted(
            books().items(), key=lambda pair: row.signature not in pair[1].book.signatures
        )
    ]


def _acts(request: HttpRequest, row: Incident) -> dict[str, Any]:
    onward = rules.INCIDENT_MOVES[row.state]
    return {
        "may_act": may(request.user, "incident-act", row.pool),
        "is_mine": row.owner_id == request.user.pk,
        "is_closed": row.state == rules.CLOSED,
        "can_mitigate": rules.MITIGATED in onward,
        "can_resolve": rules.RESOLVED in onward,
        "can_close": rules.CLOSED in onward,
        "can_reopen": rules.OPEN in onward,
        "missing": [said(one, _) for one in closing_missing(row)],
    }


def incident_or_404(name: str) -> Incident:
    """Return the incident of this public id."""
    found = incident_named(name)
    if found is None:
        raise Http404(_("There is no incident %(name)s.") % {"name": name})
    return found
