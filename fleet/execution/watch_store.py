"""The cold path of a log line: chunk rows that grow to 64 KiB, written exactly once.

Every write compares the stream's position (epoch, offset, line) and the lease of the watch in one UPDATE:
whoever is behind changes nothing and learns it. Not in charge of when to write.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from django.db import transaction
from django.db.models import F, QuerySet
from django.db.models.functions import Coalesce, Now

from fleet.execution import log_format
from fleet.execution.log_format import CHUNK_BYTES, Line
from fleet.execution.models import LogChunk, LogStream
from fleet.execution.watch_lease import Fence

TAIL_LINES = 64  # read again by a resumed classifier, so that a traceback stays one


class Superseded(Exception):
    """The stream moved on without us: another watch stored these lines, or the row is gone."""


@dataclass
class OpenChunk:
    """The last chunk of a stream in memory: its rows, and the columns of its row."""

    epoch: int
    offset: int
    first_line: int
    started_ms: int
    end_offset: int = 0
    ended_ms: int = 0
    line_count: int = 0
    rows: bytearray = field(default_factory=bytearray)
    counts: dict[str, list[int]] = field(default_factory=dict)

    @property
    def is_full(self) -> bool:
        return len(self.rows) >= CHUNK_BYTES

    def add(self, line: Line) -> None:
        self.rows += log_format.pack_row(line, self.started_ms)
        self.end_offset = line.end_offset
        self.ended_ms = line.at_ms
        self.line_count += 1
        log_format.count_line(self.counts, line)

    def to_row(self, stream_id: int) -> LogChunk:
        return LogChunk(
            stream_id=stream_id,
            epoch=self.epoch,
            offset=self.offset,
            end_offset=self.end_offset,
            first_line=self.first_line,
            line_count=self.line_count,
            started_at=log_format.from_ms(self.started_ms),
            ended_at=log_format.from_ms(self.ended_ms),
            warn_count=sum(row[1] for row in self.counts.values()),
            error_count=sum(row[2] for row in self.counts.values()),
            ranks=sorted(int(rank) for rank in self.counts if rank != "-"),
            rank_counts=self.counts,
            body=log_format.compress(bytes(self.rows)),
        )


@dataclass(frozen=True)
class Position:
    """Up to where a stream is stored. `node_epoch` is the shim's number of the file being read."""

    epoch: int
    node_epoch: int
    end_offset: int
    line_count: int

    def next_epoch(self, node_epoch: int, offset: int = 0) -> Position:
        return Position(self.epoch + 1, node_epoch, offset, self.line_count)


class ChunkWriter:
    """Writes the lines of one stream. After an exception it is spent: make a new one from the rows."""

    def __init__(
        self, stream_id: int, position: Position, fence: Fence, open_chunk: OpenChunk | None
    ):
        self.stream_id = stream_id
        self.position = position
        self._fence = fence
        self._open = open_chunk

    def write(self, lines: Sequence[Line], target: Position | None = None) -> Position:
        """Store lines and move the stream to `target` (by default: to the end of the last line).

        Raises `Superseded` when somebody else moved it, or the database's own errors.
        """
        if target is None:
            last = lines[-1]
            target = Position(
                self.position.epoch, self.position.node_epoch, last.end_offset, last.number
            )
        if target.epoch != self.position.epoch:
            self._open = None
        touched = self._fill(lines, target.epoch)
        with transaction.atomic():
            self._move(lines, target)
            LogChunk.objects.bulk_create(
                [chunk.to_row(self.stream_id) for chunk in touched],
                update_conflicts=True,
                unique_fields=["stream", "first_line"],
                update_fields=_GROWING,
            )
        self.position = target
        return target

    def _fill(self, lines: Sequence[Line], epoch: int) -> list[OpenChunk]:
        touched: list[OpenChunk] = []
        # A new epoch starts where its file goes on; the mark that says so takes no bytes of it.
        begin = self.position.end_offset if epoch == self.position.epoch else lines[0].end_offset
        for line in lines:
            chunk = self._open
            if chunk is None or chunk.is_full:
                chunk = self._open = OpenChunk(epoch, begin, line.number, line.at_ms)
            if not touched or touched[-1] is not chunk:
                touched.append(chunk)
            chunk.add(line)
            begin = line.end_offset
        return touched

    def _move(self, lines: Sequence[Line], target: Position) -> None:
        levels = Counter(line.facts.level for line in lines)
        first_error = next((line.number for line in lines if line.facts.level == "E"), None)
        moved = self._ours().update(
            epoch=target.epoch,
            node_epoch=target.node_epoch,
            end_offset=target.end_offset,
            line_count=target.line_count,
            warn_count=F("warn_count") + levels["W"],
            error_count=F("error_count") + levels["E"],
            first_error_line=Coalesce(F("first_error_line"), first_error),
            last_line_at=log_format.from_ms(lines[-1].at_ms) if lines else F("last_line_at"),
            captured_at=Now(),
        )
        if not moved:
            raise Superseded(f"log stream {self.stream_id} is no longer at {self.position}")

    def _ours(self) -> QuerySet[LogStream]:
        """The row, if it still stands where we left it and we still hold the lease."""
        return self._fence.guard(
            LogStream.objects.filter(
                pk=self.stream_id,
                epoch=self.position.epoch,
                node_epoch=self.position.node_epoch,
                end_offset=self.position.end_offset,
                line_count=self.position.line_count,
            )
        )


_GROWING = [
    "end_offset",
    "line_count",
    "ended_at",
    "warn_count",
    "error_count",
    "ranks",
    "rank_counts",
    "body",
]


def open_writer(stream_id: int, fence: Fence) -> tuple[ChunkWriter, list[str]]:
    """Resume a stream from its rows; return its writer and the last stored texts, oldest first."""
    row = LogStream.objects.get(pk=stream_id)
    position = Position(row.epoch, row.node_epoch, row.end_offset, row.line_count)
    last = LogChunk.objects.filter(stream=row).order_by("-first_line").first()
    if last is None:
        return ChunkWriter(stream_id, position, fence, None), []
    rows = log_format.decompress(last.body)
    texts = [r.split(b"\t", 4)[4].decode() for r in rows.split(b"\n")[-TAIL_LINES - 1 : -1]]
    chunk = None
    if last.epoch == row.epoch and last.end_offset == row.end_offset and len(rows) < CHUNK_BYTES:
        chunk = _reopen(last, rows)
    return ChunkWriter(stream_id, position, fence, chunk), texts


def _reopen(row: LogChunk, rows: bytes) -> OpenChunk:
    return OpenChunk(
        epoch=row.epoch,
        offset=row.offset,
        first_line=row.first_line,
        started_ms=log_format.to_ms(row.started_at),
        end_offset=row.end_offset,
        ended_ms=log_format.to_ms(row.ended_at),
        line_count=row.line_count,
        rows=bytearray(rows),
        counts={rank: list(count) for rank, count in row.rank_counts.items()},
    )


def last_line_ms(at: dt.datetime | None) -> int:
    """Return the time of the last stored line in ms, 0 without one: times in a stream never go back."""
    return log_format.to_ms(at) if at else 0
