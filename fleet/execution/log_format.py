"""How a line is written down in chunk rows and in hot frames: one text form for both.

A row is `<ms> TAB <rank or -> TAB <D|I|W|E> TAB <subsystem> TAB <text> LF`. In a chunk the milliseconds
count from its `started_at`, in a frame from 1970. Text never holds a line feed; it may hold tabs.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import NamedTuple

import zstandard

CHUNK_BYTES = 64 * 1024  # before compression
LEVELS = "DIWE"
_ZSTD_LEVEL = 3
# A chunk is at most one full chunk and one capped line longer than CHUNK_BYTES; more is not ours.
_BODY_CAP_BYTES = 4 * CHUNK_BYTES
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


class LineFacts(NamedTuple):
    """What the text of a line says about it; `rank` is the global rank in its unit."""

    rank: int | None = None
    level: str = "I"
    subsystem: str = ""


class Line(NamedTuple):
    """A numbered line on its way to storage. `end_offset` is where it ended in the node's file."""

    number: int
    end_offset: int
    at_ms: int
    facts: LineFacts
    text: str


class StoredLine(NamedTuple):
    """A line as it is kept. `at` is when the watch read it; `number` is permanent in its stream."""

    number: int
    at: dt.datetime
    rank: int | None
    level: str
    subsystem: str
    text: str

    @property
    def at_ms(self) -> int:
        return to_ms(self.at)


def to_ms(at: dt.datetime) -> int:
    """Return whole milliseconds since 1970."""
    return (at - _EPOCH) // dt.timedelta(milliseconds=1)


def from_ms(ms: int) -> dt.datetime:
    """Return the UTC time of milliseconds since 1970."""
    return _EPOCH + dt.timedelta(milliseconds=ms)


def pack_row(line: Line, base_ms: int = 0) -> bytes:
    """Return the row of a line, its time counted from `base_ms`."""
    rank, level, subsystem = line.facts
    return (
        f"{line.at_ms - base_ms}\t{'-' if rank is None else rank}\t{level}\t{subsystem}\t{line.text}\n"
    ).encode()


def unpack_rows(rows: bytes, first_line: int, base_ms: int = 0) -> Iterator[StoredLine]:
    """Yield the lines of rows, numbered from `first_line`."""
    for number, row in enumerate(rows.split(b"\n")[:-1], first_line):
        ms, rank, level, subsystem, text = row.decode().split("\t", 4)
        yield StoredLine(
            number,
            from_ms(base_ms + int(ms)),
            None if rank == "-" else int(rank),
            level,
            subsystem,
            text,
        )


def compress(rows: bytes) -> bytes:
    """Return a chunk's body."""
    return zstandard.ZstdCompressor(level=_ZSTD_LEVEL).compress(rows)


def decompress(body: bytes) -> bytes:
    """Return the rows of a chunk's body."""
    return zstandard.ZstdDecompressor().decompress(bytes(body), max_output_size=_BODY_CAP_BYTES)


def count_line(counts: dict[str, list[int]], line: Line) -> None:
    """Add a line to [lines, warnings, errors] by rank ("-" for lines without one)."""
    rank, level, _ = line.facts
    row = counts.setdefault("-" if rank is None else str(rank), [0, 0, 0])
    row[0] += 1
    row[1] += level == "W"
    row[2] += level == "E"
