"""What a page must say about the console itself: brake pulled, conductor or watch silent. One query."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db import connection

# A tick runs every 2 s and the watch beats every few seconds; both may be late under load.
CONDUCTOR_SILENT = timedelta(seconds=30)
WATCH_SILENT = timedelta(seconds=45)

_QUERY = """
SELECT (SELECT cause FROM fleet_brake WHERE cleared_at IS NULL LIMIT 1),
       (SELECT max(at) FROM fleet_tick),
       (SELECT beaten_at FROM execution_lease WHERE name = 'watch'),
       now()
"""


@dataclass(frozen=True)
class ControlState:
    """Times are the database's. A process that never ran has no time."""

    brake_cause: str
    ticked_at: datetime | None
    watched_at: datetime | None
    now: datetime

    @property
    def is_braked(self) -> bool:
        return bool(self.brake_cause)

    @property
    def is_conductor_silent(self) -> bool:
        return self.ticked_at is None or self.now - self.ticked_at > _scaled(CONDUCTOR_SILENT)

    @property
    def is_watch_silent(self) -> bool:
        return self.watched_at is None or self.now - self.watched_at > _scaled(WATCH_SILENT)


def _scaled(span: timedelta) -> timedelta:
    return max(span / settings.TIME_SCALE, timedelta(seconds=15))


def control_state() -> ControlState:
    """Read the brake, the newest tick and the watch's beat."""
    with connection.cursor() as cursor:
        cursor.execute(_QUERY)
        cause, ticked_at, watched_at, now = cursor.fetchone()
    return ControlState(cause or "", ticked_at, watched_at, now)
