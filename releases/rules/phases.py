"""The rows of the launch grid: which phases of an engine log belong to one row, and how long rows usually take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

PREFLIGHT, GOLDEN = "preflight", "golden"
# Row by row, in the order of a start. Pre-flight has no phase: it is over before a node runs anything.
ROWS: dict[str, tuple[str, ...]] = {
    PREFLIGHT: (),
    "start": ("start", "config", "init"),
    "rendezvous": ("rendezvous",),
    "load": ("load",),
    "compile": ("compile", "profile", "kv"),
    "capture": ("capture", "warmup", "api"),
    GOLDEN: ("golden",),
}
ROW_OF = {phase: row for row, phases in ROWS.items() for phase in phases}


@dataclass(frozen=True)
class Span:
    """When something began, and ended if it did."""

    started_at: datetime
    ended_at: datetime | None = None

    def seconds(self, now: datetime) -> float:
        return max(0.0, ((self.ended_at or now) - self.started_at).total_seconds())


def join_spans(spans: Iterable[Span]) -> Span | None:
    """Return the span from the first begin to the last end; open when one of them is open."""
    found = list(spans)
    if not found:
        return None
    ends = [span.ended_at for span in found]
    last = None if any(end is None for end in ends) else max(end for end in ends if end)
    return Span(min(span.started_at for span in found), last)


def clip_to_golden(
    rows: Mapping[str, Sequence[Span]], begin: datetime | None = None
) -> dict[str, list[Span]]:
    """End every engine row where the golden warm-up begins: a follower's log never says that it is done.

    `begin` is that moment when the rows are of a node that asks no golden prompts.
    """
    begin = min((span.started_at for span in rows.get(GOLDEN, ())), default=begin)
    if begin is None:
        return {row: list(spans) for row, spans in rows.items()}
    return {
        row: list(spans) if row == GOLDEN else [_ended_by(span, begin) for span in spans]
        for row, spans in rows.items()
    }


def _ended_by(span: Span, at: datetime) -> Span:
    end = min(span.ended_at or at, at)
    return Span(min(span.started_at, end), end)


def quantile(values: Sequence[float], share: float) -> float | None:
    """Return the value below which `share` of the values lie, by the nearest rank; None without values."""
    ordered = sorted(values)
    if not ordered:
        return None
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


@dataclass(frozen=True)
class Estimate:
    """Seconds until ready, from p50 to p90 of earlier launches, and how many those were."""

    low_s: float
    high_s: float
    launches: int


def estimate_left(
    history: Mapping[str, Sequence[float]], spent: Mapping[str, float], done: Iterable[str]
) -> Estimate | None:
    """Estimate what is left of a launch row by row; None without any earlier launch.

    `history`: seconds of each row in earlier launches; `spent`: of this one so far; `done`: its finished rows.
    A row without history counts as nothing, which the page says.
    """
    finished = set(done)
    counts = [len(seconds) for seconds in history.values() if seconds]
    if not counts:
        return None
    low = high = 0.0
    for row in ROWS:
        if row in finished:
            continue
        used = spent.get(row, 0.0)
        low += max(0.0, (quantile(history.get(row, ()), 0.5) or 0.0) - used)
        high += max(0.0, (quantile(history.get(row, ()), 0.9) or 0.0) - used)
    return Estimate(low, max(low, high), max(counts))
