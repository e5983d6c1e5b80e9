"""The log of a launch: the page, its lines for the script, and what can be taken away.

The page is whole without script: older and newer lines, filters, marks and folds are links and elements.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from fleet.rules.log_filter import LogFilter, parse_filter
from fleet.rules.log_text import show_pieces
from fleet.selectors import logs
from fleet.selectors.log_search import BadPattern
from fleet.selectors.logs import LogPage, LogSource, SeenLine
from fleet.views.parts import render_page
from releases.models import Launch
from releases.selectors.launch_page import launch_of
from releases.selectors.logs import launch_sources
from releases.views import log_drawn, log_page, log_side

LINES_MOST = 2000


@dataclass(frozen=True)
class Asked:
    """What an address asks of a log: where, and which lines."""

    launch: Launch
    sources: list[LogSource]
    wanted: LogFilter
    at: tuple[int, int] | None
    last: tuple[int, int] | None
    at_ms: int | None
    before: str
    after: str

    @property
    def is_newest(self) -> bool:
        return not (self.at or self.at_ms is not None or self.before or self.after)

    @property
    def marked(self) -> frozenset[str]:
        """The keys of the marked lines: one, or a range on one node."""
        if self.at is None:
            return frozenset()
        position, first = self.at
        last = self.last[1] if self.last and self.last[0] == position else first
        low, high = sorted((first, last))
        return frozenset(f"{position}.{n}" for n in range(low, min(high, low + LINES_MOST) + 1))


@require_safe
def log(request: HttpRequest, name: str, generation: int) -> HttpResponse:
    """The log viewer: lanes, filters, lines, and the facts of the marked line."""
    asked = _read(request, name, generation)
    if request.htmx.target == "log-head":
        context = log_page.head_context(asked.launch, asked.sources)
        return render(request, "releases/_log_head.html", context)
    page, problem = _page(asked)
    if page is None:
        raise Http404(_("This log has no such line."))
    context = log_page.page_context(asked, page, problem, is_folding=_folds(request))
    return render_page(request, "releases/log.html", context)


@require_safe
def log_lines(request: HttpRequest, name: str, generation: int) -> HttpResponse:
    """Lines for the script as JSON; as elements with `format=html`; facts of one line with `side=`."""
    asked = _read(request, name, generation)
    if "side" in request.GET:
        return _side(request, asked)
    page, problem = _page(asked, _limit(request))
    if problem:
        return JsonResponse({"problem": problem}, status=400)
    if page is None:
        raise Http404(_("This log has no such line."))
    if request.GET.get("format") == "html":
        rows = log_drawn.draw_rows(
            page.lines, is_folding=_folds(request), marked=asked.marked, now=timezone.now()
        )
        return render(request, "components/_log_rows.html", {"rows": rows})
    return HttpResponse(_json(page), content_type="application/json")


def _json(page: LogPage) -> str:
    body = {
        "before": log_drawn.cursor_word(page.before),
        "after": log_drawn.cursor_word(page.after),
        "has_older": page.has_older,
        "has_newer": page.has_newer,
        "is_cut": page.is_cut,
        "lines": [_line(seen) for seen in page.lines],
    }
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"))


def _line(seen: SeenLine) -> list[Any]:
    pieces = show_pieces(seen.text)
    is_plain = len(pieces) == 1 and not pieces[0].is_bold
    text = pieces[0].text if is_plain else pieces
    line = seen.line
    return [
        seen.source.stream_id, line.number, seen.at_ms, line.rank, line.level, line.subsystem, text
    ]  # fmt: skip


def _side(request: HttpRequest, asked: Asked) -> HttpResponse:
    place = _place(request.GET.get("side", ""))
    seen = logs.line_seen(asked.sources, *place) if place else None
    if seen is None:
        raise Http404(_("This log has no such line."))
    context = {"side": log_side.side_of(seen, _log_url(asked.launch))}
    return render(request, "components/_log_side.html", context)


def _read(request: HttpRequest, name: str, generation: int) -> Asked:
    found = launch_of(name, generation)
    if found is None:
        raise Http404(_("%(name)s has no generation %(n)d.") % {"name": name, "n": generation})
    query = request.GET
    first, _dash, last = query.get("at", "").partition("-")
    moment = query.get("t", "")
    return Asked(
        launch=found,
        sources=launch_sources(found),
        wanted=parse_filter(query.dict()),
        at=_place(first),
        last=_place(last),
        at_ms=int(moment) if moment.isascii() and moment.isdigit() and len(moment) < 15 else None,
        before=query.get("before", ""),
        after=query.get("after", ""),
    )


def _place(text: str) -> tuple[int, int] | None:
    """Read a line's name: node position, dot, number."""
    position, _dot, number = text.removeprefix("L").partition(".")
    if not all(word.isascii() and word.isdigit() and len(word) < 16 for word in (position, number)):
        return None
    return int(position), int(number)


def _page(asked: Asked, limit: int = logs.PAGE_LINES) -> tuple[LogPage | None, str]:
    """Return the lines that were asked for, and why an expression could not be used."""
    try:
        return _lines(asked, asked.wanted, limit), ""
    except BadPattern as error:
        problem = _("This expression cannot be read: %(why)s") % {"why": error}
        return _lines(asked, asked.wanted.without("text"), limit), problem


def _lines(asked: Asked, wanted: LogFilter, limit: int) -> LogPage | None:
    if asked.at is not None:
        return logs.page_around(asked.sources, *asked.at, wanted, limit)
    if asked.at_ms is not None:
        return logs.page_at(asked.sources, asked.at_ms, wanted, limit)
    if asked.after:
        cursor = log_drawn.parse_cursor(asked.after)
        return logs.page_after(asked.sources, cursor, wanted, limit)
    return logs.page_before(asked.sources, log_drawn.parse_cursor(asked.before), wanted, limit)


def _limit(request: HttpRequest) -> int:
    word = request.GET.get("limit", "")
    is_number = word.isascii() and word.isdigit() and len(word) < 6
    return max(1, min(LINES_MOST, int(word))) if is_number else logs.PAGE_LINES


def _folds(request: HttpRequest) -> bool:
    return request.GET.get("fold") != "0"


def _log_url(launch: Launch) -> str:
    return reverse("log", args=[launch.replica.name, launch.generation])
