"""Lines of a stream in batches, and whether the stream ended inside its last line.

A text without a line feed at its end may be whole, as many files are, or torn. Its last line counts
as whole when it ends as a last line of its kind does, or when the same message was told before. Of a
torn one, what may be half a number or half a value is left out, so that nothing is read from it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from fleet.readings.text import EndWatch, Readable, iter_line_batches

_EARLIER_LINES = 512
_COMPARED_BYTES = 4096
_VARYING = re.compile(rb"\b\w*\d\w*")
_DIGIT = re.compile(rb"\d")
_CLOSED = (b")", b"]", b"}", b">", b'"', b"'", b";")


class LineBatches:
    """Batches of whole lines; `torn_line` is known when all of them were taken.

    `ends` are the endings of lines that are whole wherever they stand.
    """

    def __init__(self, stream: Readable, ends: tuple[bytes, ...] = ()) -> None:
        self.torn_line: int | None = None
        self._stream = EndWatch(stream)
        self._ends = ends

    def __iter__(self) -> Iterator[list[bytes]]:
        lines = 0
        earlier: list[bytes] = []
        for batch in iter_line_batches(self._stream):
            lines += len(batch)
            # What comes once the stream is over had no line feed.
            if self._stream.is_over and not self._is_whole(batch[-1], earlier):
                self.torn_line = lines
                batch[-1] = without_half_word(batch[-1])
            earlier = [*earlier, *batch[-_EARLIER_LINES:]][-_EARLIER_LINES:]
            yield batch

    def _is_whole(self, line: bytes, earlier: list[bytes]) -> bool:
        if line.endswith(b"\r") or line.rstrip().endswith(self._ends):
            return True
        folded = _fold(line)
        # A number at the end may be half of one, however often the message was told.
        if folded.endswith(b"#") or len(line) > _COMPARED_BYTES:
            return False
        return any(folded == _fold(other) for other in earlier)


def without_half_word(line: bytes) -> bytes:
    """Cut what a torn line ends with: a word with a number in it, a value behind `=` or `via`."""
    if line.endswith(_CLOSED):
        return line
    head, via, _ = line.rpartition(b" via ")
    if via:
        return head + via
    head, blank, word = line.rpartition(b" ")
    name, sign, _ = word.rpartition(b"=")
    if sign:
        return head + blank + name + sign
    return head + blank if _DIGIT.search(word) else line


def _fold(line: bytes) -> bytes:
    return _VARYING.sub(b"#", line[:_COMPARED_BYTES])
