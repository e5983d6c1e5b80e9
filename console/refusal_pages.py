"""Draws why a request was refused: in the shell, with the words the person typed, and a way to send them again."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _

from fleet.models import TrailEntry
from fleet.rules import policy
from fleet.rules.refusals import Refused, Stale, TooLarge

RETRY_S = {409: 2, 429: 20}
_OURS = frozenset({"csrfmiddlewaretoken", "idempotency_key", "base_version", "password"})
_CHANGES_SHOWN = 5


def refusal_page(request: HttpRequest, refusal: Refused) -> HttpResponse:
    """Answer a refusal with its status; a stale form comes back with both versions and its words."""
    context: dict[str, Any] = {
        "title": _title(refusal),
        "message": str(refusal),
        "status": refusal.status,
        "typed": _typed(request, refusal),
        "request_id": getattr(request, "request_id", ""),
    }
    if isinstance(refusal, Stale):
        context |= {
            "subject": refusal.subject,
            "posted": refusal.posted,
            "found": refusal.found,
            # a field of one line would lose the breaks of what was typed in one of many, and send that again
            "many_lines": [name for name, value in context["typed"] if "\n" in value],
            "changes": _changes(request, refusal, dict(context["typed"])),
        }
    template = "conflict.html" if isinstance(refusal, Stale) else "refusal.html"
    response = render(request, template, context, status=refusal.status)
    if refusal.status in RETRY_S:
        response["Retry-After"] = str(RETRY_S[refusal.status])
    return response


def _title(refusal: Refused) -> str:
    titles = {
        400: _("The form is not complete"),
        403: _("Not allowed"),
        405: _("Not a page"),
        409: _("Somebody was faster"),
        413: _("Too much at once"),
        429: _("Too many at once"),
    }
    return titles.get(refusal.status, _("Not done"))


def _typed(request: HttpRequest, refusal: Refused) -> list[tuple[str, str]]:
    if (
        isinstance(refusal, TooLarge)
        or policy.entry_of(request.resolver_match.view_name).is_reading
    ):
        return []  # was not even parsed, or is a text of any length that the person still has
    return [
        (name, value)
        for name, values in request.POST.lists()
        if name not in _OURS
        for value in values
    ]


def _changes(request: HttpRequest, stale: Stale, typed: dict[str, str]) -> list[dict[str, Any]]:
    """What others did to the object lately, newest first, with the posted value beside each of theirs."""
    kind = policy.entry_of(request.resolver_match.view_name).scope
    rows = TrailEntry.objects.filter(object_kind=kind, object_id=str(stale.subject))
    return [
        {
            "entry": entry,
            "fields": [
                {"name": name, "theirs": value, "yours": typed.get(name)}
                for name, value in (entry.after or {}).items()
            ],
        }
        for entry in rows[:_CHANGES_SHOWN]
    ]
