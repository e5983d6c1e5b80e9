"""What the lanes of a log page show: density by rank over the whole log, and each rank's last collective.

Reads chunk rows without their bodies, so a log of a million lines costs one small query.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from django.db.models import Count, QuerySet

from fleet.execution import log_format, streams
from fleet.execution.models import LogChunk
from fleet.rules.collectives import Collective, last_collectives
from fleet.rules.log_lanes import Lane, Span, lay_out
from fleet.selectors.logs import LogSource

# A short log is drawn line by line; in a long one a chunk is narrower than a bin.
_EXACT_CHUNKS = 4
_COLLECTIVE_CHUNKS = 2


@dataclass(frozen=True)
class LaneChart:
    """Lanes of all ranks over one span of time (ms since 1970)."""

    start_ms: int
    end_ms: int
    lanes: list[Lane]

    @property
    def busiest(self) -> float:
        return max((max(lane.bins) for lane in self.lanes), default=0.0)


def lane_chart(sources: Sequence[LogSource]) -> LaneChart:
    """Return the lanes of all ranks of a unit, over the whole of its log."""
    wanted = [source.stream_id for source in sources]
    rows = LogChunk.objects.filter(stream_id__in=wanted)
    count = rows.aggregate(n=Count("pk"))["n"]
    spans = list(_line_spans(rows) if count <= _EXACT_CHUNKS else _chunk_spans(rows))
    start = min((span.start_ms for span in spans), default=0)
    end = max((span.end_ms for span in spans), default=0)
    ranks = [rank for source in sources for rank in source.ranks]
    return LaneChart(start, end, lay_out(spans, ranks, start, end))


def collectives_of(source: LogSource) -> dict[int, Collective]:
    """Return the last collective of each rank of a node, from the newest of its lines."""
    newest = list(islice(streams.chunks_before(source.stream_id, 1 << 62), _COLLECTIVE_CHUNKS))
    found: list[tuple[int | None, int, str]] = []
    for chunk in reversed(newest):
        rows = streams.chunk_rows(chunk)
        if b"opCount " in rows or b"SeqNum=" in rows:
            found += (
                (line.rank, line.at_ms, line.text) for line in streams.chunk_lines(chunk, rows)
            )
    return last_collectives(found)


def _chunk_spans(rows: QuerySet[LogChunk]) -> Iterator[Span]:
    columns = ("started_at", "ended_at", "rank_counts")
    for started_at, ended_at, counts in rows.values_list(*columns):
        start, end = log_format.to_ms(started_at), log_format.to_ms(ended_at)
        for rank, (lines, warnings, errors) in counts.items():
            yield Span(None if rank == "-" else int(rank), start, end, lines, warnings, errors)


def _line_spans(rows: QuerySet[LogChunk]) -> Iterator[Span]:
    for chunk in rows.order_by("first_line"):
        for line in streams.chunk_lines(chunk):
            at = line.at_ms
            yield Span(line.rank, at, at, 1, line.level == "W", line.level == "E")
