"""Reading stored lines: by number, forwards and backwards, a chunk at a time.

The only line number there is counts from 1 in its stream and never changes. Reads only; the watch writes.
"""

from __future__ import annotations

from collections.abc import Iterator

from django.db.models import Q, QuerySet, Subquery
from django.db.models.functions import Coalesce

from fleet.execution import log_format
from fleet.execution.log_format import StoredLine
from fleet.execution.models import LogChunk, LogStream

__all__ = [
    "StoredLine",
    "chunk_lines",
    "chunk_rows",
    "chunks_after",
    "chunks_before",
    "line_at",
    "lines_after",
    "lines_before",
]

_BATCH = 8  # chunks fetched at once: half a megabyte of lines


def chunk_rows(chunk: LogChunk) -> bytes:
    """Return the rows of a chunk as they were packed."""
    return log_format.decompress(chunk.body)


def chunk_lines(chunk: LogChunk, rows: bytes | None = None) -> list[StoredLine]:
    """Return all lines of a chunk."""
    packed = chunk_rows(chunk) if rows is None else rows
    return list(
        log_format.unpack_rows(packed, chunk.first_line, log_format.to_ms(chunk.started_at))
    )


def chunks_after(stream: LogStream | int, line: int, only: Q | None = None) -> Iterator[LogChunk]:
    """Yield the chunks that hold lines above `line`, oldest first."""
    rows = _chunks(stream, only).order_by("first_line")
    holder = _chunks(stream, None).filter(first_line__lte=line + 1).order_by("-first_line")
    batch = list(
        rows.filter(first_line__gte=Coalesce(Subquery(holder.values("first_line")[:1]), 0))[:_BATCH]
    )
    while batch:
        yield from (c for c in batch if c.first_line + c.line_count > line + 1)
        if len(batch) < _BATCH:
            return
        batch = list(rows.filter(first_line__gt=batch[-1].first_line)[:_BATCH])


def chunks_before(stream: LogStream | int, line: int, only: Q | None = None) -> Iterator[LogChunk]:
    """Yield the chunks that hold lines below `line`, newest first."""
    rows = _chunks(stream, only).order_by("-first_line")
    at = line
    while batch := list(rows.filter(first_line__lt=at)[:_BATCH]):
        yield from batch
        if len(batch) < _BATCH:
            return
        at = batch[-1].first_line


def lines_after(stream: LogStream | int, line: int, limit: int) -> list[StoredLine]:
    """Return up to `limit` lines numbered above `line`, in order."""
    found: list[StoredLine] = []
    for chunk in chunks_after(stream, line):
        found += (one for one in chunk_lines(chunk) if one.number > line)
        if len(found) >= limit:
            break
    return found[:limit]


def lines_before(stream: LogStream | int, line: int, limit: int) -> list[StoredLine]:
    """Return the last `limit` lines numbered below `line`, in order."""
    found: list[StoredLine] = []
    for chunk in chunks_before(stream, line):
        found = [one for one in chunk_lines(chunk) if one.number < line] + found
        if len(found) >= limit:
            break
    return found[-limit:] if limit else []


def line_at(stream: LogStream | int, number: int) -> StoredLine | None:
    """Return one line, or None when the stream has no such line."""
    found = lines_after(stream, number - 1, 1)
    return found[0] if found and found[0].number == number else None


def _id(stream: LogStream | int) -> int:
    return stream if isinstance(stream, int) else stream.pk


def _chunks(stream: LogStream | int, only: Q | None) -> QuerySet[LogChunk]:
    rows = LogChunk.objects.filter(stream_id=_id(stream))
    return rows.filter(only) if only else rows
