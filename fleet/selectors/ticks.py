"""How long ago the conductors last ticked, by the database's clock."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db import connection

from fleet.models import Tick


@dataclass(frozen=True)
class ConductorTick:
    """The tick that is most behind, and how many seconds ago it was."""

    at: datetime
    age_s: float


def conductor_tick() -> ConductorTick | None:
    """Return the tick that is most behind; None when none ever ran."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT min(at), extract(epoch FROM clock_timestamp() - min(at)) FROM fleet_tick"
            " WHERE name = ANY(%s)",
            [list(Tick.OFTEN)],
        )
        at, age = cursor.fetchone()
    return None if at is None else ConductorTick(at, max(0.0, float(age)))


def conductor_tick_age_s() -> float | None:
    """Return the age in seconds of the tick that is most behind; None when none ever ran."""
    tick = conductor_tick()
    return tick.age_s if tick else None
