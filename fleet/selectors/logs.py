"""Pages of a log that is merged from the streams of one unit: before, after and around a place.

Order is (time, node position, line). A cursor holds one line number a stream: everything up to it is decided.
Not in charge of which streams belong together (the launch knows) nor of how lines look.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from django.db.models import Q

from fleet.execution import log_format, streams
from fleet.execution.models import LogChunk, LogStream
from fleet.execution.streams import StoredLine
from fleet.rules.log_filter import LogFilter
from fleet.rules.log_text import show_text
from fleet.selectors.log_search import SlowPattern, match_lines

PAGE_LINES = 500
SEARCH_S = 1.0
_LONGEST_MATCH_S = 0.5

Cursor = dict[int, int]  # stream id -> line number


@dataclass(frozen=True)
class LogSource:
    """One stream of a unit: the output of its node at a position. `ranks` are global."""

    stream_id: int
    position: int
    node: str
    ranks: tuple[int, ...] = ()


class SeenLine(NamedTuple):
    """A stored line with the source that it came from."""

    source: LogSource
    line: StoredLine

    @property
    def key(self) -> str:
        """Return the permanent name of the line in its unit: node position and line number."""
        return f"{self.source.position}.{self.line.number}"

    @property
    def order(self) -> tuple[int, int, int]:
        return self.line.at_ms, self.source.position, self.line.number

    @property
    def at_ms(self) -> int:
        return self.line.at_ms

    @property
    def rank(self) -> int | None:
        return self.line.rank

    @property
    def level(self) -> str:
        return self.line.level

    @property
    def text(self) -> str:
        return self.line.text


SourceFinder = Callable[[str], "list[LogSource] | None"]
_FINDERS: dict[str, SourceFinder] = {}


def log_sources_add(kind: str, find: SourceFinder) -> None:
    """Register how the streams of an object of a kind are found by its name (an upper app's launch)."""
    _FINDERS[kind] = find


def log_sources(kind: str, name: str) -> list[LogSource] | None:
    """Return the streams of an object in the order of their positions; None when there is no such object."""
    find = _FINDERS.get(kind)
    return find(name) if find else None


@dataclass
class LogPage:
    """Lines in order, and where to go on. `is_cut`: the search ran out of time before the end."""

    lines: list[SeenLine]
    before: Cursor
    after: Cursor
    has_older: bool
    has_newer: bool
    is_cut: bool = False
    is_slow: bool = False


@dataclass
class _Scan:
    """Reading one source in one direction. `at` is decided: every line up to it was shown or passed over."""

    source: LogSource
    at: int
    wanted: LogFilter
    deadline: float
    end: int = 0
    is_cut: bool = False
    is_slow: bool = False
    _only: Q | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self._only = _chunk_filter(self.wanted)

    def backwards(self) -> Iterator[SeenLine]:
        chunks = streams.chunks_before(self.source.stream_id, self.at, self._only)
        for chunk in self._in_time(chunks):
            yield from reversed([one for one in self._matching(chunk) if one.line.number < self.at])
            self.at = min(self.at, chunk.first_line)
        if not self.is_cut:
            self.at = 1

    def forwards(self) -> Iterator[SeenLine]:
        chunks = streams.chunks_after(self.source.stream_id, self.at, self._only)
        for chunk in self._in_time(chunks):
            yield from [one for one in self._matching(chunk) if one.line.number > self.at]
            self.at = max(self.at, chunk.first_line + chunk.line_count - 1)
        if not self.is_cut:
            self.at = max(self.at, self.end)

    def _in_time(self, chunks: Iterator[LogChunk]) -> Iterator[LogChunk]:
        for chunk in chunks:
            if time.monotonic() > self.deadline:
                self.is_cut = True
                return
            yield chunk
            if self.is_cut:
                return

    def _matching(self, chunk: LogChunk) -> list[SeenLine]:
        rows = streams.chunk_rows(chunk)
        needle = self.wanted.needle
        # Most chunks do not hold a rare word at all; escapes may split a word, so those are read.
        if needle and b"\x1b" not in rows and needle not in rows.decode().lower():
            return []
        lines = streams.chunk_lines(chunk, rows)
        if not self.wanted.is_empty:
            lines = [x for x in lines if self.wanted.takes(x.rank, x.level, x.subsystem, x.text)]
        if self.wanted.pattern and lines:
            lines = self._expression(lines)
        return [SeenLine(self.source, line) for line in lines]

    def _expression(self, lines: list[StoredLine]) -> list[StoredLine]:
        left_s = min(_LONGEST_MATCH_S, self.deadline - time.monotonic())
        try:
            found = match_lines(self.wanted.pattern, [show_text(x.text) for x in lines], left_s)
        except SlowPattern:
            self.is_cut = self.is_slow = True
            return []
        return [lines[at] for at in found]


def _chunk_filter(wanted: LogFilter) -> Q | None:
    """Return what a chunk's own columns can tell about it."""
    only = Q()
    if wanted.level == "error":
        only &= Q(error_count__gt=0)
    elif wanted.level == "warn":
        only &= Q(error_count__gt=0) | Q(warn_count__gt=0)
    if wanted.ranks and None not in wanted.ranks:
        only &= Q(ranks__overlap=sorted(rank for rank in wanted.ranks if rank is not None))
    return only or None


def stream_ends(sources: Iterable[LogSource]) -> Cursor:
    """Return the number of the last stored line of each stream."""
    wanted = [source.stream_id for source in sources]
    return dict(LogStream.objects.filter(pk__in=wanted).values_list("pk", "line_count"))


def page_before(
    sources: Sequence[LogSource],
    before: Mapping[int, int],
    wanted: LogFilter,
    limit: int = PAGE_LINES,
) -> LogPage:
    """Return the last lines below a cursor; a stream without one is read from its end."""
    ends = stream_ends(sources)
    start = {pk: before.get(pk, end + 1) for pk, end in ends.items()}
    deadline = time.monotonic() + SEARCH_S
    scans = [
        _Scan(s, start[s.stream_id], wanted, deadline) for s in sources if s.stream_id in start
    ]
    lines = _merge(scans, [scan.backwards() for scan in scans], limit, reverse=True)
    lines.reverse()
    at = {scan.source.stream_id: scan.at for scan in scans}
    return LogPage(
        lines,
        before=at,
        after={pk: number - 1 for pk, number in start.items()},
        has_older=any(number > 1 for number in at.values()),
        has_newer=any(start[pk] <= end for pk, end in ends.items()),
        is_cut=any(scan.is_cut for scan in scans),
        is_slow=any(scan.is_slow for scan in scans),
    )


def page_after(
    sources: Sequence[LogSource],
    after: Mapping[int, int],
    wanted: LogFilter,
    limit: int = PAGE_LINES,
) -> LogPage:
    """Return the first lines above a cursor; a stream without one is read from its start."""
    ends = stream_ends(sources)
    start = {pk: after.get(pk, 0) for pk in ends}
    deadline = time.monotonic() + SEARCH_S
    scans = [
        _Scan(s, start[s.stream_id], wanted, deadline) for s in sources if s.stream_id in start
    ]
    for scan in scans:
        scan.end = ends[scan.source.stream_id]
    lines = _merge(scans, [scan.forwards() for scan in scans], limit, reverse=False)
    at = {scan.source.stream_id: scan.at for scan in scans}
    return LogPage(
        lines,
        before={pk: number + 1 for pk, number in start.items()},
        after=at,
        has_older=any(number > 0 for number in start.values()),
        has_newer=any(at[pk] < end for pk, end in ends.items()),
        is_cut=any(scan.is_cut for scan in scans),
        is_slow=any(scan.is_slow for scan in scans),
    )


def page_around(
    sources: Sequence[LogSource],
    position: int,
    number: int,
    wanted: LogFilter,
    limit: int = PAGE_LINES,
) -> LogPage | None:
    """Return the lines around one line, which is among them whatever the filter says; None without it."""
    centre = line_seen(sources, position, number)
    if centre is None:
        return None
    place = _cursor_at(sources, centre)
    older = page_before(sources, place, wanted, limit // 2)
    after = {pk: at - 1 for pk, at in place.items()} | {centre.source.stream_id: number}
    newer = page_after(sources, after, wanted, limit // 2)
    return _join(older, [centre], newer)


def line_seen(sources: Sequence[LogSource], position: int, number: int) -> SeenLine | None:
    """Return one line of the node at a position, or None."""
    source = next((s for s in sources if s.position == position), None)
    line = streams.line_at(source.stream_id, number) if source else None
    return SeenLine(source, line) if source and line else None


def first_error(sources: Sequence[LogSource], rows: Iterable[LogStream]) -> SeenLine | None:
    """Return the earliest error of all streams, from their rows."""
    of = {source.stream_id: source for source in sources}
    found = [
        SeenLine(of[row.pk], line)
        for row in rows
        if row.first_error_line and (line := streams.line_at(row.pk, row.first_error_line))
    ]
    return min(found, key=lambda seen: seen.order, default=None)


def page_at(
    sources: Sequence[LogSource], at_ms: int, wanted: LogFilter, limit: int = PAGE_LINES
) -> LogPage:
    """Return the lines around a moment (ms since 1970)."""
    order = (at_ms, -1, -1)
    place = {source.stream_id: _first_not_before(source, order) for source in sources}
    older = page_before(sources, place, wanted, limit // 4)
    newer = page_after(sources, {pk: at - 1 for pk, at in place.items()}, wanted, limit * 3 // 4)
    return _join(older, [], newer)


def _join(older: LogPage, centre: list[SeenLine], newer: LogPage) -> LogPage:
    return LogPage(
        [*older.lines, *centre, *newer.lines],
        before=older.before,
        after=newer.after,
        has_older=older.has_older,
        has_newer=newer.has_newer,
        is_cut=older.is_cut or newer.is_cut,
        is_slow=older.is_slow or newer.is_slow,
    )


def _merge(
    scans: list[_Scan], walks: list[Iterator[SeenLine]], limit: int, *, reverse: bool
) -> list[SeenLine]:
    by_stream = {scan.source.stream_id: scan for scan in scans}
    lines: list[SeenLine] = []
    for one in heapq.merge(*walks, key=lambda seen: seen.order, reverse=reverse):
        # A stream that was not searched to the end may still hold an earlier line.
        if any(scan.is_cut for scan in scans):
            break
        lines.append(one)
        by_stream[one.source.stream_id].at = one.line.number
        if len(lines) >= limit:
            break
    return lines


def _cursor_at(sources: Sequence[LogSource], centre: SeenLine) -> Cursor:
    """Return for each stream the first line that does not stand before the centre."""
    place = {
        source.stream_id: _first_not_before(source, centre.order)
        for source in sources
        if source != centre.source
    }
    return {**place, centre.source.stream_id: centre.line.number}


def _first_not_before(source: LogSource, order: tuple[int, int, int]) -> int:
    chunk = (
        LogChunk.objects.filter(
            stream_id=source.stream_id, ended_at__gte=log_format.from_ms(order[0])
        )
        .order_by("ended_at", "first_line")
        .first()
    )
    if chunk is None:
        return stream_ends([source]).get(source.stream_id, 0) + 1
    for line in streams.chunk_lines(chunk):
        if SeenLine(source, line).order > order:
            return line.number
    return chunk.first_line + chunk.line_count
