"""The database's clock, for deadlines and ages: the one clock that all processes of the console share.

The clock of a host may be minutes off. What one process sets by its own, another one would misjudge.
"""

from __future__ import annotations

from datetime import datetime

from django.db import connection


def database_now() -> datetime:
    """Return the time by the database's clock; one round trip, never kept: what was just written is never later."""
    connection.ensure_connection()
    # Below Django's own cursor: asking for the time is no query of what a tick does.
    with connection.wrap_database_errors, connection.connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        at: datetime = cursor.fetchone()[0]
    return at
