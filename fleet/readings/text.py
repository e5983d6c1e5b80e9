"""What every reading does first with hostile node output: decode, cut, drop colours, number lines.

Line numbers count line feeds only, so they agree with `sed -n Np` on the raw file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple, Protocol

LINE_CAP_BYTES = 16 * 1024
TEXT_CAP_BYTES = 4 * 1024 * 1024
TEXT_CAP_LINES = 50_000
_CHUNK_BYTES = 1024 * 1024

# CSI (colours, cursor), OSC (titles, links) and two-byte escapes. The OSC body is bounded so that
# an unterminated one cannot swallow a whole log.
_ANSI = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]{0,2048}(?:\x07|\x1b\\)?|\x1b[@-Z\\-_]"
)


class Readable(Protocol):
    """A source of bytes: a file, a pipe, a buffer."""

    def read(self, size: int = -1, /) -> bytes:
        """Return at most `size` bytes; empty at the end."""


class Line(NamedTuple):
    """One line of a capture: its number from 1, and its text without colours."""

    number: int
    text: str


def strip_ansi(text: str) -> str:
    """Return the text without escape sequences."""
    return _ANSI.sub("", text) if "\x1b" in text else text


def number_lines(text: str) -> list[Line]:
    """Split a capture into numbered, cleaned lines; a last line feed opens no further line."""
    rows = text.split("\n")
    if rows and rows[-1] == "":
        rows.pop()
    return [Line(n, clean_line(row)) for n, row in enumerate(rows, 1)]


def clean_line(row: str) -> str:
    """Cut a line to the cap, drop colours, the carriage return at its end and NUL bytes."""
    row = strip_ansi(row[:LINE_CAP_BYTES]).rstrip("\r")
    return row.replace("\0", "") if "\0" in row else row


def progress_steps(row: str) -> list[str]:
    """Split a line that a progress bar redraws with carriage returns into its steps."""
    if "\r" not in row:
        return [row]
    return [step for step in row.split("\r") if step.strip()]


def decode(raw: bytes) -> str:
    """Decode node output; bytes that are not UTF-8 become U+FFFD, a UTF-8 mark at the head goes."""
    return raw.decode("utf-8", "replace").removeprefix("\ufeff")


def read_capped(stream: Readable, cap_bytes: int = TEXT_CAP_BYTES) -> tuple[str, bool]:
    """Read at most `cap_bytes` and 50,000 lines; return the text and whether something was left."""
    parts: list[bytes] = []
    left = cap_bytes + 1
    while left > 0 and (part := stream.read(left)):
        parts.append(part)
        left -= len(part)
    raw = b"".join(parts)
    lines = raw[:cap_bytes].split(b"\n", TEXT_CAP_LINES)
    is_cut = len(raw) > cap_bytes or len(lines) > TEXT_CAP_LINES
    return decode(b"\n".join(lines[:TEXT_CAP_LINES])), is_cut


class Rewound:
    """A stream whose first bytes were already looked at; they come first again."""

    def __init__(self, head: bytes, rest: Readable) -> None:
        self._head = head
        self._rest = rest

    def read(self, size: int = -1, /) -> bytes:
        """Return at most `size` bytes, all that is left when it is negative."""
        if not self._head:
            return self._rest.read(size)
        if size < 0:
            head, self._head = self._head, b""
            return head + self._rest.read()
        head, self._head = self._head[:size], self._head[size:]
        return head


def iter_line_batches(stream: Readable) -> Iterator[list[bytes]]:
    """Yield batches of whole lines; a longer line than the cap keeps its head only.

    Memory stays near one chunk whatever the length of the file or of a line.
    """
    held = b""
    while chunk := stream.read(_CHUNK_BYTES):
        head, feed, tail = chunk.rpartition(b"\n")
        if not feed:
            held = _append_capped(held, chunk)
            continue
        lines = head.split(b"\n")
        lines[0] = _append_capped(held, lines[0])
        yield lines
        held = tail
    if held:
        yield [held]


def _append_capped(held: bytes, more: bytes) -> bytes:
    if len(held) >= _CHUNK_BYTES:
        return held
    return held + more
