"""From the bytes of a node's file to lines: cut, decoded, capped and redacted, in constant memory.

What comes out depends on the bytes alone, never on how they were framed or when they came: a watch that
resumes at a stored offset gives the same lines the same numbers. Not in charge of what a line means.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

LINE_CAP_BYTES = 16 * 1024
# Kept beyond the cap until secrets are masked, so that the cut cannot leave half of one.
_LOOKAHEAD_BYTES = 512
_KEEP_BYTES = LINE_CAP_BYTES + _LOOKAHEAD_BYTES
_NUL_SIGN = "\u2400"
_NOT_VERBATIM = (_NUL_SIGN, "\ufffd", "***")
_CUT_MARK = " bytes of this line cut]"
_PROOF_BYTES = 128

# A line ends at a line feed; a bare carriage return ends a step of a progress bar.
_END = re.compile(rb"\r*\n|\r+")


class RawLine(NamedTuple):
    """A line as bytes: at most the kept head of it, and where the line ended in the node's file."""

    end_offset: int
    head: bytes
    size_bytes: int


class LineSplitter:
    """Cuts frames into lines. Feed it every byte once, in order, starting at `offset`."""

    def __init__(self, offset: int = 0):
        self.offset = offset  # of the next byte to be fed
        self._head = bytearray()
        self._size = 0
        self._after_cr = False  # is that a progress step, or half of CR LF? The next byte tells

    def feed(self, block: bytes) -> list[RawLine]:
        """Return the lines that this frame finished."""
        if b"\r" not in block and not self._after_cr:
            return self._feed_plain(block)
        lines: list[RawLine] = []
        at = self._settle_return(block, lines) if self._after_cr else 0
        for end in _END.finditer(block, at):
            self._hold(block, at, end.start())
            at = end.end()
            is_feed = block[at - 1] == 0x0A
            if not is_feed and at == len(block):
                self._after_cr = True
                break
            if is_feed or self._size:
                self._emit(lines, self.offset + at)
        self._hold(block, at, len(block))
        self.offset += len(block)
        return lines

    def _feed_plain(self, block: bytes) -> list[RawLine]:
        """Most frames hold no carriage return; cutting those costs a tenth."""
        first, *rest = block.split(b"\n")
        self._hold(first, 0, len(first))
        lines: list[RawLine] = []
        at = self.offset + len(first)
        self.offset += len(block)
        if not rest:
            return lines
        at += 1
        self._emit(lines, at)
        last = rest.pop()
        for part in rest:
            at += len(part) + 1
            lines.append(RawLine(at, part[:_KEEP_BYTES], len(part)))
        self._hold(last, 0, len(last))
        return lines

    def finish(self) -> list[RawLine]:
        """Return the last line when the file ended without a line feed."""
        lines: list[RawLine] = []
        self._after_cr = False
        if self._size:
            self._emit(lines, self.offset)
        return lines

    def _settle_return(self, block: bytes, lines: list[RawLine]) -> int:
        """Decide what a carriage return at the end of the last frame was; return where to go on."""
        at = len(block) - len(block.lstrip(b"\r"))
        if at == len(block):
            return at
        self._after_cr = False
        if block[at] == 0x0A:
            self._emit(lines, self.offset + at + 1)
            return at + 1
        if self._size:
            self._emit(lines, self.offset + at)
        return at

    def _hold(self, block: bytes, start: int, end: int) -> None:
        room = _KEEP_BYTES - len(self._head)
        if room > 0:
            self._head += block[start : min(end, start + room)]
        self._size += end - start

    def _emit(self, lines: list[RawLine], end_offset: int) -> None:
        lines.append(RawLine(end_offset, bytes(self._head), self._size))
        self._head.clear()
        self._size = 0


def line_text(raw: RawLine, redact: Callable[[str], str]) -> str:
    """Return the text to store: NUL and broken UTF-8 visible, secrets masked, a long line cut and marked.

    The mark says how many bytes of the node's line are not stored.
    """
    text = redact(raw.head.decode("utf-8", "replace").replace("\0", _NUL_SIGN))
    if raw.size_bytes <= LINE_CAP_BYTES and len(text) <= LINE_CAP_BYTES // 4:
        return text
    stored = text.encode()
    if raw.size_bytes <= LINE_CAP_BYTES and len(stored) <= LINE_CAP_BYTES:
        return text
    kept = min(len(stored), LINE_CAP_BYTES)
    cut = max(raw.size_bytes, len(stored)) - kept
    return f"{stored[:kept].decode('utf-8', 'ignore')} [{cut}{_CUT_MARK}"


def splice_proof(last_text: str) -> bytes:
    """Return the bytes that must stand before the end of the last stored line in the node's file.

    Empty when the text is not what the node wrote, letter by letter: masked, cut or made visible.
    """
    if any(sign in last_text for sign in _NOT_VERBATIM) or last_text.endswith(_CUT_MARK):
        return b""
    return last_text.encode()[-_PROOF_BYTES:]


def splice_fits(before: bytes, proof: bytes) -> bool:
    """Tell whether these bytes, read right before the stored offset, are those that were stored."""
    return before[-1:] in (b"\n", b"\r") and before.rstrip(b"\r\n").endswith(proof)
