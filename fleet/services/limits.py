"""How often a person may start things (design: security, rate limits).

Starts are counted in Postgres, over all web processes; socket connects in this process only.
"""

from __future__ import annotations

import time
import uuid
from collections import OrderedDict, deque
from datetime import timedelta
from typing import Any

from django.db.models.functions import Now
from django.urls import Resolver404, resolve
from django.utils.translation import gettext as _

from fleet.models import Answered
from fleet.rules import policy
from fleet.rules.refusals import TooMany

STARTS_A_MINUTE = 30
SOCKETS_A_MINUTE = 60
_PEOPLE_KEPT = 1000


def starts_demand(user: Any, key: uuid.UUID) -> None:
    """Raise TooMany when the person asked for 30 starts within the last minute; `key` again is no new one."""
    minute = Answered.objects.filter(user=user, at__gt=Now() - timedelta(minutes=1))
    recent = minute.exclude(key=key)
    starts = sum(map(_is_start, recent.values_list("path", flat=True)))
    if starts >= STARTS_A_MINUTE:
        raise TooMany(
            _("You started %(n)s things within a minute; the limit is %(limit)s. Wait a moment.")
            % {"n": starts, "limit": STARTS_A_MINUTE}
        )


def _is_start(path: str) -> bool:
    try:
        return policy.entry_of(resolve(path).view_name).is_start
    except Resolver404:
        return False


class Meter:
    """Counts events of each key within a minute, for the keys seen last; this process only."""

    def __init__(self, limit: int, window_s: float = 60.0) -> None:
        self._limit, self._window_s = limit, window_s
        self._seen: OrderedDict[object, deque[float]] = OrderedDict()

    def allows(self, key: object, now: float | None = None) -> bool:
        """Count one event of a key; False when the limit was reached."""
        now = time.monotonic() if now is None else now
        events = self._seen.setdefault(key, deque())
        self._seen.move_to_end(key)
        while len(self._seen) > _PEOPLE_KEPT:
            self._seen.popitem(last=False)
        while events and events[0] <= now - self._window_s:
            events.popleft()
        if len(events) >= self._limit:
            return False
        events.append(now)
        return True


socket_meter = Meter(SOCKETS_A_MINUTE)
