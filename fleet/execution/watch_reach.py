"""Whether a node is reachable, judged by how long it was silent while we were listening.

Silence is counted on a clock that stands still while this process was stopped: a watch that slept for a
minute must not take its own sleep for sixty nodes that went away. Pure but for the monotonic clock.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

PERIOD_S = 5.0  # a node is asked this often; a period without an answer is a miss
SUSPECT_MISSES = 3  # 15 s (design: numbers)
UNREACHABLE_S = 60.0

OK, SUSPECT, UNREACHABLE = "ok", "suspect", "unreachable"


def count_misses(silent_s: float, period_s: float = PERIOD_S) -> int:
    """Return how many periods in a row passed without an answer. The first is the ordinary wait for it."""
    return max(0, int(silent_s / period_s))


def judge_reach(silent_s: float, period_s: float = PERIOD_S) -> str:
    """Return ok, suspect or unreachable for a node that was silent for so long.

    `period_s` scales all limits: the limits of the design are multiples of its 5 s.
    """
    if silent_s >= UNREACHABLE_S / PERIOD_S * period_s:
        return UNREACHABLE
    return SUSPECT if count_misses(silent_s, period_s) >= SUSPECT_MISSES else OK


class AwakeClock:
    """Seconds during which this process ran. Only `tick` moves it; a gap above `stall_s` counts nothing.

    Nobody reads the real clock between two ticks, so a thread that wakes first after a stop cannot see
    the gap as waiting time.
    """

    def __init__(self, stall_s: float, clock: Callable[[], float] = time.monotonic):
        self._clock = clock
        self.stall_s = stall_s
        self._lock = threading.Lock()
        self._last = clock()
        self._awake_s = 0.0
        self.stalls = 0

    def tick(self) -> float:
        """Count the time since the last tick; return the length of a stall in seconds, 0 without one."""
        with self._lock:
            now = self._clock()
            gap = now - self._last
            self._last = now
            if gap > self.stall_s:
                self.stalls += 1
                return gap
            self._awake_s += gap
            return 0.0

    def now(self) -> float:
        """Return the seconds counted so far."""
        with self._lock:
            return self._awake_s
