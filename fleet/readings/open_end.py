"""Whether a text may be torn at its end: the one place for all readings, of whole texts and of streams.

A text without a line feed at its end may be whole, as many files are, or torn. Its last line counts
as whole when it ends as a last line of its kind does, or, in a log, when the same message was told before.
Of a torn one, what may be half a number or half a value is left out, so that nothing is read from it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from fleet.readings.text import Readable, clean_line, iter_line_batches

_EARLIER_LINES = 512
_COMPARED_BYTES = 4096
_VARYING = re.compile(rb"\b\w*\d\w*")
_DIGIT = re.compile(rb"\d")
_CLOSED = (b")", b"]", b"}", b">", b'"', b"'", b";")


@dataclass(frozen=True)
class End:
    """A text without a last line that may be torn.

    `torn`: the number of the line left out. `cut`: the line behind which more may be missing: the torn one, or a
    whole last line that no line feed ends, as of a list. Both None: the text is whole as far as its end tells.
    """

    text: str
    torn: int | None = None
    cut: int | None = None


def has_open_end(text: str) -> bool:
    """Tell a text whose last line no line feed ends; blanks there are the begin of a line that was cut."""
    bare = text.rstrip("\r\0")
    return bool(bare) and not bare.endswith("\n")


def end_of(
    text: str, is_whole: Callable[[str], bool] = lambda line: False, *, pads_end: bool = False
) -> End:
    """Part a text from a last line that no line feed ends, unless `is_whole` says that nothing can miss in it.

    A number at such an end may be a part of one. Blanks behind the last line feed are no line of their own, but the
    begin of one that was cut, unless the tool `pads_end`.
    """
    if not has_open_end(text):
        return End(text)
    stop = len(text.rstrip(" \t\r\0"))
    start = text.rfind("\n", 0, stop) + 1
    number = text.count("\n", 0, start) + 1
    if start == stop and pads_end:
        return End(text)
    if start == stop or is_whole(clean_line(text[start:stop])):
        return End(text, None, text.count("\n") + 1)
    return End(text[:start], number, number)


class EndWatch:
    """Passes a stream on and remembers whether it is over, and whether it ended inside a line."""

    def __init__(self, stream: Readable) -> None:
        self._stream = stream
        self.is_open = False
        self.is_over = False

    def read(self, size: int = -1, /) -> bytes:
        """Return at most `size` bytes; empty at the end."""
        part = self._stream.read(size)
        if part:
            self.is_open = not part.endswith(b"\n")
        else:
            self.is_over = True
        return part


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
