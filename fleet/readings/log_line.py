"""The attributes of one engine log line as it is followed live: level, rank, subsystem, time.

A line without a level of its own is judged by its words, or by the lines of its speaker before it.
The time is the process's own word, without zone and mostly without year: never use it as UTC.
"""

from __future__ import annotations

from typing import NamedTuple

from fleet.readings.log_forms import INFO, is_progress, raw_level, read_marks
from fleet.readings.log_prefix import Layout

_SPEAKERS_CAP = 256
_TRACE_LINES_CAP = 400
_TRACE_STARTS = ("Traceback (most recent", "terminate called", "Exception raised from")


class LogLine(NamedTuple):
    """What a line says about itself. `message_at` is as printed, in the process's own clock."""

    level: str
    rank: int | None
    subsystem: str
    message_at: str | None
    text: str


class LineClassifier:
    """Reads the lines of one stream in order, so that a traceback keeps level, rank and time.

    Processes write into one stream in turn: what a line continues is the last line of its own
    speaker, not the line above.
    """

    def __init__(self, *, position: int, gpus_per_node: int, tp: int, pp: int, dp: int) -> None:
        self._layout = Layout(position, gpus_per_node, tp, pp, dp)
        self._last: dict[str, tuple[LogLine, int]] = {}

    def read(self, text: str) -> LogLine:
        """Read the next line of the stream."""
        own = read_marks(text, self._layout)
        if own.level is not None:
            line = LogLine(own.level, own.rank, own.subsystem, own.message_at, text)
            if own.message_at is not None or not is_progress(own.text):
                self._remember(own.speaker, line, 0)
            return line
        last, left = self._last.get(own.speaker, (None, 0))
        level = raw_level(own.text)
        opens = any(start in own.text for start in _TRACE_STARTS)
        if last is not None and not opens and (left > 0 or _is_indented(own.text)):
            line = LogLine(
                last.level if last.level != INFO else level,
                own.rank if own.rank is not None else last.rank,
                last.subsystem,
                own.message_at or last.message_at,
                text,
            )
            self._remember(own.speaker, line, left - 1)
            return line
        line = LogLine(level, own.rank, own.subsystem, own.message_at, text)
        self._remember(own.speaker, line, _TRACE_LINES_CAP if opens else 0)
        return line

    def _remember(self, speaker: str, line: LogLine, left: int) -> None:
        if len(self._last) >= _SPEAKERS_CAP and speaker not in self._last:
            self._last.clear()
        # The text of a huge line must not be kept for a later one.
        self._last[speaker] = (line._replace(text=""), left)


def _is_indented(text: str) -> bool:
    return text[:1] in (" ", "\t", "") or text.startswith("frame #")
