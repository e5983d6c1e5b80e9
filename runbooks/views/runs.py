"""The page of one run of a book: phases, steps, the step that waits for a person, time and people."""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from fleet.marks import mark_of
from fleet.models import Pool
from fleet.rules.message import said
from fleet.rules.policy import may
from fleet.views.parts import render_page
from fleet.views.proof import FOR_DESTRUCTION, password_label
from runbooks.models import Run
from runbooks.rules import run as rules
from runbooks.selectors.names import run_named
from runbooks.selectors.run_page import run_history
from runbooks.views.run_drawn import book_of, phases_drawn, run_clock, waiting_drawn
from runbooks.views.words import in_words


@require_safe
def run(request: HttpRequest, name: str) -> HttpResponse:
    """One run."""
    return run_answer(request, run_or_404(name))


def run_answer(
    request: HttpRequest,
    row: Run,
    *,
    status: int = 200,
    step: str = "",
    refusal: str = "",
    typed: str = "",
) -> HttpResponse:
    """Render the page of a run; `refusal` and `typed` come back at the step whose confirmation was not taken."""
    book = book_of(row)
    phases = phases_drawn(row, book) if book else []
    pool = row.replica.pool if row.replica else None
    context = {
        "section": "incidents",
        "topics": [row.topic, *([row.incident.topic] if row.incident else [])],
        "run": row,
        "pool": pool,
        "mark": mark_of("run", row.state),
        "title": in_words(book.title) if book else row.book_id,
        "summary": in_words(book.summary) if book else "",
        "sources": book.sources if book else (),
        "is_readable": book is not None,
        "explanation": said(row.explanation, _),
        "phases": phases,
        "cards": [
            card
            | {"refused": _refused(request, pool, card["step"].planned.who)}
            | ({"refusal": refusal, "typed": typed} if card["id"] == step else {})
            for card in waiting_drawn(row, phases)
        ],
        "clock": run_clock(row, book),
        "history": run_history(row),
        "evidence": [piece for phase in phases for step in phase.steps for piece in step.evidence],
        "password_label": password_label(request, FOR_DESTRUCTION),
        **_acts(request, row),
    }
    return render_page(
        request,
        "runbooks/run.html",
        context,
        parts={"run-live": "runbooks/_run_live.html"},
        status=status,
    )


def _refused(request: HttpRequest, pool: Pool | None, who: str) -> str:
    """Say which role a person lacks for a step, or nothing."""
    if not may(request.user, "run-start", pool):
        return _("Needs role operator")
    if who == "approver" and not may(request.user, "approval.sign", pool, is_write=True):
        return _("Needs role approver")
    return ""


def _acts(request: HttpRequest, row: Run) -> dict[str, Any]:
    pool = row.replica.pool if row.replica else None
    return {
        "may_act": may(request.user, "run-start", pool),
        "can_start": row.state == rules.PROPOSED,
        "is_live": row.state in rules.LIVE,
        "is_mine": row.holder_id == request.user.pk,
    }


def run_or_404(name: str) -> Run:
    """Return the run of this public id."""
    found = run_named(name)
    if found is None:
        raise Http404(_("There is no run %(name)s.") % {"name": name})
    return found
