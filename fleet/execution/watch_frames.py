"""The hot path of a log line: frames in a bounded Redis stream, before Postgres has them.

An entry's id is the number of its last line, so a reader asks for "after line N" and a watch that resumes
cannot append a line twice. Redis may lose everything at any moment: sending never blocks and never fails.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator

import redis

from fleet.execution import log_format
from fleet.execution.log_format import Line
from fleet.execution.watch_capture import Capture

logger = logging.getLogger(__name__)

FRAME_BYTES = 64 * 1024
_PACE_BUSY_S, _PACE_QUIET_S = 0.050, 0.010
_QUIET_LINES_PER_S = 8000
_KEPT_FRAMES = 128
_KEPT_S = 3600
_RETRY_S = 1.0
_TIMEOUT_S = 2.0


def stream_key(stream_id: int) -> str:
    """Return the Redis key of a log stream's frames."""
    return f"log:{stream_id}"


def cut_frames(lines: Iterable[Line]) -> Iterator[tuple[int, int, bytes]]:
    """Yield (first line, last line, rows) of at most 64 KiB each, unless one line is longer."""
    rows = bytearray()
    first = last = 0
    for line in lines:
        row = log_format.pack_row(line)
        if rows and len(rows) + len(row) > FRAME_BYTES:
            yield first, last, bytes(rows)
            rows.clear()
        if not rows:
            first = line.number
        rows += row
        last = line.number
    if rows:
        yield first, last, bytes(rows)


class FrameSender(threading.Thread):
    """Sends what captures hand out: every 50 ms, every 10 ms while little is said."""

    def __init__(self, url: str, captures: Callable[[], list[Capture]]):
        super().__init__(name="frames", daemon=True)
        self._redis = redis.Redis.from_url(
            url, socket_timeout=_TIMEOUT_S, socket_connect_timeout=_TIMEOUT_S
        )
        self._captures = captures
        self._waiting = threading.Event()
        self._stopping = threading.Event()
        self._mute_until = 0.0
        self._pace_s = _PACE_QUIET_S

    def wake(self) -> None:
        """Tell that some capture has lines."""
        self._waiting.set()

    def stop(self) -> None:
        self._stopping.set()
        self._waiting.set()

    def run(self) -> None:
        while not self._stopping.is_set():
            self._waiting.wait(1.0)
            self._waiting.clear()
            time.sleep(self._pace_s)
            self.send_once()
        self._redis.close()

    def send_once(self) -> int:
        """Send all waiting lines; return how many. They are dropped while Redis is away."""
        captures = self._captures()
        batches = [(capture, lines) for capture in captures if (lines := capture.take_unsent())]
        count = sum(len(lines) for _, lines in batches)
        is_busy = count > _QUIET_LINES_PER_S * self._pace_s
        self._pace_s = _PACE_BUSY_S if is_busy else _PACE_QUIET_S
        if batches and time.monotonic() >= self._mute_until:
            self._push(batches)
        return count

    def _push(self, batches: list[tuple[Capture, list[Line]]]) -> None:
        pipe = self._redis.pipeline(transaction=False)
        for capture, lines in batches:
            self._append(pipe, capture, lines)
        try:
            # An entry that is there already is refused: a resumed watch says the same lines again.
            pipe.execute(raise_on_error=False)
        except (redis.RedisError, OSError) as error:
            logger.warning("no hot frames for %s s, lines are only stored: %s", _RETRY_S, error)
            self._mute_until = time.monotonic() + _RETRY_S

    def _append(self, pipe: redis.client.Pipeline, capture: Capture, lines: list[Line]) -> None:
        key = stream_key(capture.stream_id)
        if capture.is_new and lines[0].number == 1:
            pipe.delete(key)  # left by an older database with the same numbers
        for first, last, rows in cut_frames(lines):
            pipe.xadd(
                key,
                {"n": str(first), "d": rows},
                id=f"{last}-0",
                maxlen=_KEPT_FRAMES,
                approximate=True,
            )
        pipe.expire(key, _KEPT_S)
