"""What people post about incidents: take, note, cause, move on, and propose a run. Each is one service call."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from fleet.rules.refusals import Refused
from fleet.services.trail import actor_of
from runbooks.models import Incident
from runbooks.rules import incident as rules
from runbooks.services.incidents import (
    incident_cause,
    incident_move,
    incident_note,
    incident_take,
)
from runbooks.services.library import books
from runbooks.services.runs import run_propose
from runbooks.views.incidents import incident_or_404

_MOVES = {
    "mitigate": rules.MITIGATED,
    "resolve": rules.RESOLVED,
    "close": rules.CLOSED,
    "reopen": rules.OPEN,
}


@require_POST
def act(request: HttpRequest, name: str) -> HttpResponse:
    """Do one thing to an incident."""
    row, what = incident_or_404(name), request.POST.get("act", "")
    if what in _MOVES:
        incident_move(
            incident=row,
            to=_MOVES[what],
            actor=actor_of(request),
            words=request.POST.get("reason", "").strip(),
        )
    elif what in _WRITES:
        _WRITES[what](request, row)
    else:
        raise Refused(_("Nothing is called %(act)s here.") % {"act": what[:20]})
    return redirect("incident", name)


def _take(request: HttpRequest, row: Incident) -> None:
    incident_take(incident=row, user=request.user, actor=actor_of(request))


def _note(request: HttpRequest, row: Incident) -> None:
    incident_note(incident=row, text=request.POST.get("note", ""), actor=actor_of(request))


def _cause(request: HttpRequest, row: Incident) -> None:
    incident_cause(
        incident=row,
        cause=request.POST.get("cause", ""),
        actor=actor_of(request),
        version=row.version,
    )


_WRITES: dict[str, Callable[[HttpRequest, Incident], None]] = {
    "take": _take,
    "note": _note,
    "cause": _cause,
}


@require_POST
def propose(request: HttpRequest, name: str) -> HttpResponse:
    """Lay out a run of a book for the incident; starting it is another click."""
    row, shelved = incident_or_404(name), books().get(request.POST.get("book", ""))
    if shelved is None:
        raise Refused(_("Choose one of the books."))
    unit = {"unit": row.replica.name} if row.replica else {}
    made = run_propose(
        incident=row,
        shelved=shelved,
        params={**unit, "incident": row.public_id},
        actor=actor_of(request),
    )
    return redirect("run", made.public_id)
