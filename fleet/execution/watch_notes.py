"""What the watch would say once a node, said once for all of them: a whole fleet may be started again at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

NAMED = 3


class Gathered:
    """Names that come one by one and are taken together, when none came for `quiet_s` or after `at_most_s`.

    Belongs to one thread.
    """

    def __init__(
        self,
        quiet_s: float = 5.0,
        at_most_s: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._quiet_s, self._at_most_s, self._clock = quiet_s, at_most_s, clock
        self._names: list[str] = []
        self._first_at = self._last_at = 0.0

    def add(self, name: str) -> None:
        self._last_at = self._clock()
        if not self._names:
            self._first_at = self._last_at
        if name not in self._names:
            self._names.append(name)

    def take(self, *, is_last_call: bool = False) -> list[str]:
        """Return the names in order, once; empty while more may come."""
        now = self._clock()
        is_due = now - self._last_at >= self._quiet_s or now - self._first_at >= self._at_most_s
        if not (is_due or is_last_call):
            return []
        names, self._names = sorted(self._names), []
        return names


def started_again(names: Sequence[str]) -> str:
    """Return the line about nodes that came back with another boot id."""
    if len(names) == 1:
        return f"{names[0]} was started again: another boot id"
    named, rest = ", ".join(names[:NAMED]), len(names) - NAMED
    who = f"{named} and {rest} more" if rest > 0 else named
    return f"{len(names)} nodes were started again, their boot ids are others: {who}"
