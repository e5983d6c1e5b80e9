"""Which lines of a pasted output are drawn: those that a finding names, those around them, and both ends.

Pure. The lines keep the numbers that the readings count by: line feeds only, from 1.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import NamedTuple

from fleet.readings.report import Finding, Report
from fleet.readings.signature import signature

WHOLE_LINES = 400  # as many lines are drawn as they are
HEAD_LINES, TAIL_LINES, AROUND_LINES = 60, 40, 2
NAMED_LINES = 20  # of one finding; the report keeps more of them
RUN_LINES = 12  # as many equal lines in a row become one fold
LINE_CHARS = 2000
_RANK: Mapping[str, int] = {"error": 3, "warn": 2, "info": 1, "unread": 0}


class Span(NamedTuple):
    """Lines `first` to `last`, both counted in, that are drawn or only counted."""

    first: int
    last: int
    is_drawn: bool


def line_count(raw: bytes) -> int:
    """Return how many lines a text has; a last one without its line feed counts."""
    return raw.count(b"\n") + (not raw.endswith(b"\n") if raw else 0)


def marks_of(report: Report) -> dict[int, str]:
    """Return the worst word of each line that is named: error, warn, info, or unread."""
    marks: dict[int, str] = dict.fromkeys(report.unread[:NAMED_LINES], "unread")
    for finding in report.findings:
        for line in named(finding):
            if line not in marks or _RANK[finding.severity] > _RANK[marks[line]]:
                marks[line] = finding.severity
    return marks


def named(finding: Finding) -> tuple[int, ...]:
    """Return the lines of a finding that are drawn and linked to."""
    return finding.lines[:NAMED_LINES]


def spans(total: int, marked: Iterable[int]) -> list[Span]:
    """Part `total` lines into what is drawn and what is only counted; every marked line is drawn."""
    if total <= WHOLE_LINES:
        return [Span(1, total, True)] if total else []
    wanted = sorted(
        [(1, HEAD_LINES), (total - TAIL_LINES + 1, total)]
        + [(n - AROUND_LINES, n + AROUND_LINES) for n in marked if 0 < n <= total]
    )
    found: list[Span] = []
    upto = 0
    for first, last in wanted:
        first, last = max(first, upto + 1), min(last, total)
        if last < first:
            continue
        if first > upto + 1:
            found.append(Span(upto + 1, first - 1, False))
        found.append(Span(first, last, True))
        upto = last
    return found


def lines_of(raw: bytes, drawn: Iterable[Span]) -> Iterator[tuple[int, bytes]]:
    """Yield the number and the bytes of each drawn line, cut to `LINE_CHARS` characters or less."""
    stream, upto = io.BytesIO(raw), 0
    for first, last, is_drawn in drawn:
        if not is_drawn:
            continue
        block = islice(stream, first - upto - 1, last - upto)
        yield from (
            (n, line.rstrip(b"\r\n")[: LINE_CHARS * 4]) for n, line in enumerate(block, first)
        )
        upto = last


def runs(lines: list[tuple[int, str]], marked: Iterable[int]) -> list[tuple[int, int]]:
    """Return (first, last) index of runs of lines that say the same, so that a page can fold their middle.

    A marked line ends a run. The first and the last line of a run stay outside of its fold.
    """
    kept = set(marked)
    found: list[tuple[int, int]] = []
    start, same = 0, None
    for at, (number, text) in enumerate([*lines, (0, "")]):
        own = None if number in kept or at == len(lines) or not text.strip() else signature(text)
        if own is not None and own == same and number == lines[at - 1][0] + 1:
            continue
        if same is not None and at - start >= RUN_LINES:
            found.append((start + 1, at - 2))
        start, same = at, own
    return found
