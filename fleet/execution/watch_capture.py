"""One stream on its way: bytes of the node in, numbered lines out to the hot and the cold path.

The follower's thread feeds, the frame sender's takes, the ledger's stores. What is not stored yet is
bounded: a full buffer stops the reading, and with it the node's own sending.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace

from fleet.execution.log_format import CHUNK_BYTES, Line, LineFacts
from fleet.execution.watch_lines import LineSplitter, RawLine, line_text
from fleet.execution.watch_store import ChunkWriter, Position

logger = logging.getLogger(__name__)

Classify = Callable[[str], LineFacts]
Redact = Callable[[str], str]

_UNSTORED_CAP_BYTES = 2 * 1024 * 1024
_UNSENT_CAP_LINES = 50_000
WATCH_SUBSYSTEM = "WATCH"


class CaptureEnded(Exception):
    """The stream is not captured here any more; the cause says why."""


class Capture:
    """The lines of one stream between its node and the two stores."""

    def __init__(
        self, writer: ChunkWriter, *, classify: Classify, redact: Redact, last_ms: int = 0
    ):
        self.stream_id = writer.stream_id
        self.is_new = writer.position.line_count == 0
        self._writer = writer
        self._classify = classify
        self._redact = redact
        self._target = writer.position
        self._splitter = LineSplitter(writer.position.end_offset)
        self._last_ms = last_ms
        self._room = threading.Condition()
        self._unsent: list[Line] = []
        self._unstored: list[Line] = []
        self._unstored_bytes = 0
        self._ended: Exception | None = None
        self.on_lines: Callable[[], None] = lambda: None
        self.on_much: Callable[[], None] = lambda: None

    # the follower's side

    @property
    def read_offset(self) -> int:
        """Return the offset of the next byte to read from the node's file."""
        return self._splitter.offset

    @property
    def node_epoch(self) -> int:
        """Return the shim's epoch of the file that is being read."""
        return self._target.node_epoch

    def start_epoch(self, node_epoch: int, note: str, *, level: str = "I", offset: int = 0) -> None:
        """Go on at `offset` of this or another file of the subject, with a line that says why."""
        self._target = self._target.next_epoch(node_epoch, offset)
        self._splitter = LineSplitter(offset)
        facts = LineFacts(None, level, WATCH_SUBSYSTEM)
        self._add([self._number(note, facts, offset)], len(note))

    def adopt_epoch(self, node_epoch: int) -> None:
        """Take the shim's epoch of a stream of which nothing is stored yet."""
        self._target = replace(self._target, node_epoch=node_epoch)

    def feed(self, block: bytes) -> None:
        """Take the next bytes of the file; wait while too much is not stored yet."""
        raws = self._splitter.feed(block)
        if raws:
            self._add([self._read(raw) for raw in raws], len(block))

    def finish(self) -> None:
        """The file ended: its last line may lack a line feed."""
        raws = self._splitter.finish()
        if raws:
            self._add([self._read(raw) for raw in raws], raws[0].size_bytes)

    def end(self, why: Exception) -> None:
        """Stop taking lines; a feeder that waits is woken."""
        with self._room:
            self._ended = self._ended or why
            self._room.notify_all()

    def _read(self, raw: RawLine) -> Line:
        text = line_text(raw, self._redact)
        try:
            facts = self._classify(text)
        except Exception:  # a line of a node must never stop its stream
            logger.exception("the classifier failed on a line of log stream %s", self.stream_id)
            facts = LineFacts()
        return self._number(text, facts, raw.end_offset)

    def _number(self, text: str, facts: LineFacts, end_offset: int) -> Line:
        # Times of a stream never go back, whatever the console's clock does.
        self._last_ms = max(self._last_ms, time.time_ns() // 1_000_000)
        self._target = replace(
            self._target, end_offset=end_offset, line_count=self._target.line_count + 1
        )
        return Line(self._target.line_count, end_offset, self._last_ms, facts, text)

    def _add(self, lines: list[Line], size_bytes: int) -> None:
        with self._room:
            while self._unstored_bytes > _UNSTORED_CAP_BYTES and self._ended is None:
                self._room.wait(1.0)
            if self._ended is not None:
                raise CaptureEnded(str(self._ended)) from self._ended
            self._unsent += lines
            del self._unsent[:-_UNSENT_CAP_LINES]  # the hot path may lose lines, the cold never
            self._unstored += lines
            self._unstored_bytes += size_bytes
            is_much = self._unstored_bytes >= CHUNK_BYTES
        self.on_lines()
        if is_much:
            self.on_much()

    # the sender's side

    def take_unsent(self) -> list[Line]:
        """Return the lines that no frame has carried yet."""
        with self._room:
            lines, self._unsent = self._unsent, []
        return lines

    # the ledger's side

    def store(self) -> int:
        """Store what came since the last call; return the number of lines.

        After an exception this capture is spent and every later call of its feeder fails.
        """
        with self._room:
            if self._ended is not None:
                return 0
            lines, self._unstored = self._unstored, []
            self._unstored_bytes = 0
            self._room.notify_all()
        target = self._position_after(lines)
        if not lines and target == self._writer.position:
            return 0
        try:
            self._writer.write(lines, target)
        except Exception as error:
            self.end(error)
            raise
        return len(lines)

    def _position_after(self, lines: list[Line]) -> Position:
        stored = self._writer.position
        end_offset, number = (
            (lines[-1].end_offset, lines[-1].number)
            if lines
            else (stored.end_offset, stored.line_count)
        )
        return Position(self._target.epoch, self._target.node_epoch, end_offset, number)
