"""Density of a log over time, rank by rank: which rank speaks, warns, fails, or has fallen silent.

Spans come from chunks (a rank's lines are taken as even inside one) or, for a short log, from single lines.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

BINS = 120
_LEVELS = 5  # steps of density, 0 is empty


class Span(NamedTuple):
    """Lines of one rank between two times (ms since 1970)."""

    rank: int | None
    start_ms: int
    end_ms: int
    lines: int
    warnings: int = 0
    errors: int = 0


@dataclass
class Lane:
    """One rank's row: lines in each bin, and the bins that hold a warning or an error."""

    rank: int
    bins: list[float] = field(default_factory=lambda: [0.0] * BINS)
    warned: set[int] = field(default_factory=set)
    failed: set[int] = field(default_factory=set)
    lines: int = 0

    def steps(self, busiest: float) -> list[int]:
        """Return the density of each bin as 0 (nothing) to 5, against the busiest bin of all lanes."""
        if busiest <= 0:
            return [0] * BINS
        return [
            0 if count <= 0 else max(1, min(_LEVELS, round(_LEVELS * (count / busiest) ** 0.5)))
            for count in self.bins
        ]


def lay_out(spans: Iterable[Span], ranks: Iterable[int], start_ms: int, end_ms: int) -> list[Lane]:
    """Return a lane for each rank over the given time; lines without a rank have none."""
    lanes = {rank: Lane(rank) for rank in ranks}
    width = max(1, end_ms - start_ms)
    for span in spans:
        lane = lanes.get(span.rank) if span.rank is not None else None
        if lane is None:
            continue
        first = _bin_of(span.start_ms, start_ms, width)
        last = max(first, _bin_of(span.end_ms, start_ms, width))
        for one in range(first, last + 1):
            lane.bins[one] += span.lines / (last - first + 1)
        lane.lines += span.lines
        # A chunk does not say when in it the warning came: the mark stands at its end.
        if span.warnings:
            lane.warned.add(last)
        if span.errors:
            lane.failed.add(last)
    return list(lanes.values())


def runs(steps: list[int]) -> list[tuple[int, int, int]]:
    """Return (first bin, number of bins, step) of equal neighbours; empty bins are left out."""
    found: list[tuple[int, int, int]] = []
    for at, step in enumerate(steps):
        if found and found[-1][2] == step and found[-1][0] + found[-1][1] == at:
            found[-1] = (found[-1][0], found[-1][1] + 1, step)
        elif step:
            found.append((at, 1, step))
    return found


def _bin_of(at_ms: int, start_ms: int, width: int) -> int:
    return min(BINS - 1, max(0, (at_ms - start_ms) * BINS // width))
