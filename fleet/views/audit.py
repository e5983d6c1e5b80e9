"""The audit log: who did what, when and why; filtered by the address, opened in place, exported as CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

from asgiref.sync import sync_to_async
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from fleet.marks import CRIT, HOLD, OK, Mark
from fleet.models import TrailEntry
from fleet.rules.message import said
from fleet.selectors.trail_page import (
    KINDS,
    SealState,
    TrailFilter,
    fields_changed,
    seal_state,
    trail_block,
    trail_choices,
    trail_page,
)
from fleet.services.trail_chain import Verified, trail_verify
from fleet.views.parts import render_page

COLUMNS = (
    "entry", "at", "actor", "verb", "object_kind", "object_id", "reason", "before", "after",
    "source", "address", "request_id", "outcome",
)  # fmt: skip
# A spreadsheet takes a cell that begins so for a formula and runs it.
_WITH_ID = frozenset({"launch", "release", "gate", "rollout", "incident", "run"})
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")


@require_safe
def audit(request: HttpRequest) -> HttpResponse:
    """Show the trail, filtered by the address; `format=csv` sends it as a file, `check=1` proves its chain."""
    wanted = _wanted(request)
    if request.GET.get("format") == "csv":
        return _csv(wanted)
    before = request.GET.get("before", "")
    entries, has_older = trail_page(wanted, int(before) if _is_number(before) else None)
    seal = seal_state()
    verified = trail_verify() if request.GET.get("check") else None
    context = {
        "section": "audit",
        "topics": ["audit"],
        "wanted": wanted,
        "since_text": request.GET.get("since", ""),
        "kinds": _kinds(),
        "rows": [_row(entry) for entry in entries],
        "older": entries[-1].pk if has_older else None,
        "is_first_page": not before,
        "seal": seal,
        "seal_mark": _verified_mark(verified) if verified else _seal_mark(seal),
        "verified": verified,
        "link": _link(request),
        **trail_choices(),
    }
    return render_page(
        request, "fleet/audit.html", context, parts={"audit-live": "fleet/_audit_rows.html"}
    )


def _wanted(request: HttpRequest) -> TrailFilter:
    kind = request.GET.get("kind", "all")
    return TrailFilter(
        kind=kind if kind in KINDS else "all",
        actor=request.GET.get("actor", "")[:120],
        verb=request.GET.get("verb", "")[:60],
        words=request.GET.get("q", "")[:120],
        since=_moment(request.GET.get("since", "")),
    )


def _moment(text: str) -> datetime | None:
    try:
        found = parse_datetime(text) if text else None
    except ValueError:
        return None
    return timezone.make_aware(found) if found and timezone.is_naive(found) else found


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 19  # fits a bigint


def _kinds() -> list[tuple[str, str]]:
    words = (_("All"), _("People"), _("Auto"), _("Refused"))
    return list(zip(KINDS, words, strict=True))


def _link(request: HttpRequest) -> str:
    """The filter as a query without the page, to build links on."""
    query = request.GET.copy()
    for name in ("before", "format", "kind", "check"):
        query.pop(name, None)
    return query.urlencode()


def _seal_mark(seal: SealState) -> Mark:
    if not seal.position:
        return Mark(HOLD, "hold", _("Not sealed yet"))
    return Mark(OK, "ok", _("Sealed to entry %(entry)s") % {"entry": f"{seal.entry:,}"})


def _verified_mark(verified: Verified) -> Mark:
    if not verified.is_whole:
        return Mark(CRIT, "crit", _("The chain is broken"))
    return Mark(
        OK, "ok", _("Chain whole to entry %(entry)s") % {"entry": f"{verified.entry_id or 0:,}"}
    )


def _row(entry: TrailEntry) -> dict[str, Any]:
    is_auto = entry.source in {"rule", "command"}
    seal = getattr(entry, "seal", None)
    return {
        "entry": entry,
        "is_auto": is_auto,
        "actor": entry.actor.partition(":")[2] if is_auto else entry.actor,
        "initials": "··" if is_auto else entry.actor[:2].upper(),
        "url": page_of_object(entry),
        "reason": said(entry.reason, _),
        "fields": fields_changed(entry.before, entry.after),
        "mac": seal.mac if seal else "",
    }


def page_of_object(entry: TrailEntry) -> str:
    """Return the page of what an entry is about, without a query; the jump finds those that have an id."""
    if entry.object_kind in {"node", "replica"}:
        return reverse(entry.object_kind, args=[entry.object_id])
    if entry.object_kind in _WITH_ID:
        return f"{reverse('jump')}?q={entry.object_id}"
    return ""


def _csv(wanted: TrailFilter) -> StreamingHttpResponse:
    # an asynchronous stream, because the server would first gather a synchronous one whole
    answer = StreamingHttpResponse(_csv_blocks(wanted), content_type="text/csv; charset=utf-8")
    answer["Content-Disposition"] = 'attachment; filename="audit.csv"'
    return answer


async def _csv_blocks(wanted: TrailFilter) -> AsyncIterator[str]:
    yield "\ufeff" + csv_text([list(COLUMNS)])
    before: int | None = None
    while entries := await sync_to_async(trail_block)(wanted, before):
        yield csv_text([_cells(entry) for entry in entries])
        before = entries[-1].pk


def csv_text(rows: list[list[str]]) -> str:
    """Write rows as CSV that no spreadsheet runs."""
    text = io.StringIO()
    csv.writer(text).writerows([neutral_cell(cell) for cell in row] for row in rows)
    return text.getvalue()


def _cells(entry: TrailEntry) -> list[str]:
    return [
        str(entry.pk), entry.at.isoformat(), entry.actor, entry.verb, entry.object_kind, entry.object_id,
        said(entry.reason), _json(entry.before), _json(entry.after), entry.source, entry.address,
        entry.request_id, entry.outcome,
    ]  # fmt: skip


def _json(value: Any) -> str:
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def neutral_cell(text: str) -> str:
    """Put a quote before a cell that a spreadsheet would run as a formula."""
    return f"'{text}" if text.startswith(FORMULA_STARTS) else text
