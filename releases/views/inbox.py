"""What waits for this person, what they wait for, and what is going on. The oldest that waits is open, in reach."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from fleet.marks import Mark, mark_of
from fleet.rules.message import said
from fleet.views.parts import render_page
from fleet.views.proof import FOR_SIGNATURE, password_label
from releases.models import Approval
from releases.selectors.incidents import OpenIncident, open_incidents
from releases.selectors.rollout_page import requests_open, rollouts_live
from releases.views.rollout_drawn import (
    GUARD_TOPICS,
    card_drawn,
    card_title,
    row_mark,
    sign_refusal,
)


@require_safe
def inbox(request: HttpRequest) -> HttpResponse:
    """Requests, open incidents and rollouts at work."""
    waiting = list(requests_open())
    mine = signable(request.user, waiting)
    others = [one for one in waiting if one not in mine]
    first = next((one for one in mine if one.rollout_id), None)
    context = {
        "section": "inbox",
        # what the card tells moves with more than its request
        "topics": ["inbox", first.rollout.topic, *GUARD_TOPICS] if first else ["inbox"],
        "count": len(mine),
        "card": card_drawn(request.user, first) if first else None,
        "password_label": password_label(request, FOR_SIGNATURE),
        "rest": [_row(request, one) for one in mine if one is not first],
        "others": [_row(request, one) for one in others],
        "incidents": incidents_drawn(),
        "rollouts": [(row, row_mark(row), said(row.explanation, _)) for row in rollouts_live()],
    }
    return render_page(
        request, "releases/inbox.html", context, parts={"inbox-live": "releases/_inbox_live.html"}
    )


def signable(user: Any, waiting: Iterable[Approval]) -> list[Approval]:
    """Return the requests that this person may sign."""
    return [one for one in waiting if not sign_refusal(user, one)]


def incidents_drawn() -> list[tuple[OpenIncident, str, Mark]]:
    """Return every open incident with its title in words and the mark of its state; those that harm users first."""
    # Sorting keeps the order of its equals: the newest first.
    urgent_first = sorted(open_incidents(), key=lambda incident: incident.state == "mitigated")
    return [
        (incident, said(incident.title, _), mark_of("incident", incident.state))
        for incident in urgent_first
    ]


def _row(request: HttpRequest, approval: Approval) -> dict[str, Any]:
    subject = approval.rollout or approval.release
    return {
        "approval": approval,
        "title": card_title(approval),
        "subject": subject,
        "page": "rollout" if approval.rollout_id else "release",
        "refusal": sign_refusal(request.user, approval),
        "signed": len(approval.signatures.all()),
    }
