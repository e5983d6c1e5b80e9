"""How long ago the conductors last ticked, by the database's clock."""

from __future__ import annotations

from django.db import connection


def conductor_tick_age_s() -> float | None:
    """Return the age in seconds of the newest tick of any name; None when none ever ran."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT extract(epoch FROM clock_timestamp() - max(at)) FROM fleet_tick")
        age = cursor.fetchone()[0]
    return None if age is None else max(0.0, float(age))
