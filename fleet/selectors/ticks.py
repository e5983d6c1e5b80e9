"""How long ago the conductors last ticked, by the database's clock."""

from __future__ import annotations

from django.db import connection

from fleet.models import Tick


def conductor_tick_age_s() -> float | None:
    """Return the age in seconds of the tick that is most behind; None when none ever ran."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT extract(epoch FROM clock_timestamp() - min(at)) FROM fleet_tick"
            " WHERE name = ANY(%s)",
            [list(Tick.OFTEN)],
        )
        age = cursor.fetchone()[0]
    return None if age is None else max(0.0, float(age))
