"""What a page must say about the console itself: brake pulled, conductor or watch silent.

The parts come as expressions, so that a page that has a query anyway asks them along.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import DateTimeField, Min, Subquery, TextField, Value
from django.db.models.functions import Now

from fleet.execution.models import Lease
from fleet.models import Brake, Tick

# A tick runs every 2 s and the watch beats every few seconds; both may be late under load.
CONDUCTOR_SILENT = timedelta(seconds=30)
WATCH_SILENT = timedelta(seconds=45)


@dataclass(frozen=True)
class ControlState:
    """Times are the database's. A process that never ran has no time."""

    brake: int | None
    brake_cause: str
    ticked_at: datetime | None
    watched_at: datetime | None
    now: datetime

    @property
    def is_braked(self) -> bool:
        return self.brake is not None

    @property
    def is_conductor_silent(self) -> bool:
        return self.ticked_at is None or self.now - self.ticked_at > _scaled(CONDUCTOR_SILENT)

    @property
    def is_watch_silent(self) -> bool:
        return self.watched_at is None or self.now - self.watched_at > _scaled(WATCH_SILENT)


def _scaled(span: timedelta) -> timedelta:
    return max(span / settings.TIME_SCALE, timedelta(seconds=15))


def control_parts() -> list[Any]:
    """Return the expressions of the parts, in the order in which ControlState takes them."""
    brake = Brake.objects.filter(cleared_at=None)
    often = Tick.objects.filter(name__in=Tick.OFTEN).order_by()
    behind = often.values(all=Value(1)).annotate(at_=Min("at")).values("at_")
    beat = Lease.objects.filter(name="watch").values("beaten_at")[:1]
    return [
        Subquery(brake.values("pk")[:1]),
        Subquery(brake.values("cause")[:1], output_field=TextField()),
        Subquery(behind, output_field=DateTimeField()),
        Subquery(beat, output_field=DateTimeField()),
        Now(),
    ]


def control_of(parts: Sequence[Any]) -> ControlState:
    """Build the state from a row of the parts."""
    brake, cause, ticked_at, watched_at, now = parts
    return ControlState(brake, cause or "", ticked_at, watched_at, now)
