"""Turns stored lines into what the log page draws: times, signs, words, folds. No queries here.

The script draws live lines the same way from the same facts; node text is only ever text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.utils import timezone
from django.utils.formats import date_format
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from fleet.readings.signature import signature
from fleet.rules.collectives import Collective, ranks_behind
from fleet.rules.log_folds import Row, fold_lines
from fleet.rules.log_lanes import BINS, Lane, runs
from fleet.rules.log_text import show_pieces
from fleet.selectors.log_lanes import LaneChart
from fleet.selectors.logs import Cursor, LogSource, SeenLine
from releases.views.log_line import DrawnLine
from releases.views.log_words import LEVEL_WORDS

LANE_WIDTH = 600
_NAMED_RANKS = 16
_AXIS_MARKS = 5
_TENTHS_BELOW_MS = 10_000  # of a span whose marks would else repeat a second
_NUMBER = re.compile(r"\d{1,4}$")
# level -> class of the row, sign (quiet lines have none), tone
_LOOKS = {
    "D": ("dbg", "", "idle"),
    "I": ("info", "", "idle"),
    "W": ("warn", "warn", "warn"),
    "E": ("err", "crit", "crit"),
}


@dataclass(slots=True)
class DrawnRow:
    """A line with what folds into it, or a day that begins."""

    line: DrawnLine | None
    folded: list[DrawnLine]
    fold_words: str = ""
    day: str = ""

    @property
    def is_open(self) -> bool:
        return any(line.is_marked for line in self.folded)

    @property
    def folded_html(self) -> SafeString:
        return SafeString("".join(line.html for line in self.folded))


def draw_rows(
    lines: Iterable[SeenLine], *, is_folding: bool, marked: frozenset[str], now: datetime
) -> list[DrawnRow]:
    """Draw lines in their order; a day is named where it begins, unless it is today."""
    rows: list[Row[SeenLine]]
    rows = fold_lines(lines, signature) if is_folding else [Row(line) for line in lines]
    drawn: list[DrawnRow] = []
    day = timezone.localtime(now).date()
    for row in rows:
        local = timezone.localtime(row.line.line.at)
        if local.date() != day:
            day = local.date()
            drawn.append(DrawnRow(None, [], day=date_format(local, "DATE_FORMAT")))
        drawn.append(_draw_row(row, marked))
    return drawn


def _draw_row(row: Row[SeenLine], marked: frozenset[str]) -> DrawnRow:
    folded = [draw_line(one, marked) for one in row.folded]
    # A marked line must be seen: it is never inside a fold.
    words = fold_words(row.ranks, row.within_s) if folded else ""
    return DrawnRow(draw_line(row.line, marked), folded, words)


def draw_line(seen: SeenLine, marked: frozenset[str] = frozenset()) -> DrawnLine:
    """Draw one line in the person's zone."""
    line, key = seen.line, seen.key
    local = timezone.localtime(line.at)
    look, sign, tone = _LOOKS.get(line.level, _LOOKS["I"])
    return DrawnLine(
        key=key,
        number=str(line.number),
        stream=str(seen.source.stream_id),
        iso=line.at.isoformat(timespec="milliseconds"),
        hour=f"{local.hour:02d}:",
        rest=f"{local.minute:02d}:{local.second:02d}.{local.microsecond // 1000:03d}",
        rank=rank_word(line.rank, seen.source),
        node=seen.source.node,
        level=line.level,
        look=f"{look} at" if key in marked else look,
        sign=sign,
        tone=tone,
        word=str(LEVEL_WORDS.get(line.level, LEVEL_WORDS["I"])),
        subsystem=line.subsystem,
        pieces=show_pieces(line.text),
        is_marked=key in marked,
    )


def rank_word(rank: int | None, source: LogSource) -> str:
    """Name who speaks: r08 for a rank, n0 for a node when the line names no rank."""
    return f"n{source.position}" if rank is None else f"r{rank:02d}"


def short_name(node: str) -> str:
    """Return what tells nodes of one unit apart in a narrow column: the number at the end, or the last letters."""
    number = _NUMBER.search(node)
    return number[0] if number else node[-4:]


def fold_words(ranks: list[int], within_s: int) -> str:
    """Say how many other ranks say the same, and which."""
    names = " ".join(f"r{rank:02d}" for rank in ranks[:_NAMED_RANKS])
    if len(ranks) > _NAMED_RANKS:
        names += " …"
    pattern = ngettext(
        "%(n)d more rank says the same within %(s)d s: %(ranks)s",
        "%(n)d more ranks say the same within %(s)d s: %(ranks)s",
        len(ranks),
    )
    return pattern % {"n": len(ranks), "s": within_s, "ranks": names}


def cursor_word(cursor: Cursor) -> str:
    """Write a cursor for an address: stream:line,stream:line."""
    return ",".join(f"{stream}:{line}" for stream, line in sorted(cursor.items()))


def parse_cursor(text: str) -> Cursor:
    """Read a cursor from an address; parts that cannot be read are left out."""
    cursor: Cursor = {}
    for part in text.split(",")[:256]:
        stream, _colon, line = part.partition(":")
        if all(word.isascii() and word.isdigit() and len(word) < 19 for word in (stream, line)):
            cursor[int(stream)] = int(line)
    return cursor


def draw_lanes(
    chart: LaneChart,
    sources: list[LogSource],
    last: dict[int, Collective],
    links: dict[int, str],
    wanted_ranks: frozenset[int | None],
) -> dict[str, Any]:
    """Draw the lanes: one a rank, grouped by node, with the last collective at the right."""
    node_of = {rank: source for source in sources for rank in source.ranks}
    behind = _behind(sources, last)
    first_of = {source.ranks[0] for source in sources[1:] if source.ranks}
    busiest = chart.busiest
    lanes = [
        {
            "rank": lane.rank,
            "label": f"r{lane.rank:02d} {short_name(node_of[lane.rank].node)}",
            "url": links[lane.rank],
            "is_on": lane.rank in wanted_ranks,
            "is_gap": lane.rank in first_of,
            "is_behind": lane.rank in behind,
            "paths": _lane_paths(lane, busiest),
            "last": last[lane.rank].number if lane.rank in last else None,
            "title": _lane_title(
                lane.rank, lane.lines, node_of[lane.rank].node, lane.rank in behind
            ),
        }
        for lane in chart.lanes
    ]
    op = next(iter(last.values())).op.lower() if last else ""
    return {"lanes": lanes, "op": op, "behind": sorted(behind), "marks": _axis(chart)}


def _lane_paths(lane: Lane, busiest: float) -> list[tuple[str, str]]:
    """Return (class, outline) of what a lane shows: one path a step of density, then warnings, then errors.

    A rectangle for each run would be hundreds of elements on a long log.
    """
    scale = LANE_WIDTH / BINS
    boxes: dict[str, list[str]] = {}
    for at, count, step in runs(lane.steps(busiest)):
        width = count * scale - 0.6
        boxes.setdefault(f"d{step}", []).append(f"M{at * scale:.1f} 2h{width:.1f}v5h-{width:.1f}z")
    for at in sorted(lane.warned - lane.failed):
        boxes.setdefault("warned", []).append(f"M{at * scale:.1f} 1h4v7h-4z")
    for at in sorted(lane.failed):
        boxes.setdefault("failed", []).append(f"M{at * scale:.1f} 0h4v9h-4z")
    return [(name, "".join(some)) for name, some in boxes.items()]


def _behind(sources: list[LogSource], last: dict[int, Collective]) -> set[int]:
    found: set[int] = set()
    for source in sources:
        found |= ranks_behind({rank: last[rank] for rank in source.ranks if rank in last})
    return found


def _lane_title(rank: int, lines: float, node: str, is_behind: bool) -> str:
    words = ngettext(
        "Rank %(rank)d on %(node)s: %(n)d line",
        "Rank %(rank)d on %(node)s: %(n)d lines",
        int(lines),
    )
    said = words % {"rank": rank, "node": node, "n": lines}
    return f"{said}. {_('It is behind the others.')}" if is_behind else said


def _axis(chart: LaneChart) -> list[dict[str, Any]]:
    """Marks of time over the lanes; each is a place to jump to."""
    span = chart.end_ms - chart.start_ms
    if not chart.lanes or span <= 0:
        return []
    marks = []
    for n in range(_AXIS_MARKS):
        at_ms = chart.start_ms + span * n // (_AXIS_MARKS - 1)
        local = timezone.localtime(
            datetime.fromtimestamp(at_ms / 1000, timezone.get_default_timezone())
        )
        marks.append({"at_ms": at_ms, "word": _axis_word(local, span)})
    return marks


def _axis_word(local: datetime, span_ms: int) -> str:
    """Write a moment as finely as the span needs, and no wider than the axis has room for."""
    if span_ms < _TENTHS_BELOW_MS:
        return f"{local:%M:%S}.{local.microsecond // 100_000}"
    if span_ms < 10 * 60 * 1000:
        return f"{local:%H:%M:%S}"
    return f"{local:%H:%M}" if span_ms < 86_400_000 else f"{local:%m-%d %H:%M}"


def with_query(base: str, query: str, **more: str) -> str:
    """Return an address with a filter's query and more parts."""
    parts = [part for part in (query, urlencode({k: v for k, v in more.items() if v})) if part]
    return f"{base}?{'&'.join(parts)}" if parts else base
