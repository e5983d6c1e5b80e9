"""The database's clock, for deadlines and ages: the one clock that all processes of the console share.

The clock of a host may be minutes off. What one process sets by its own, another one would misjudge.
"""

from __future__ import annotations

import threading
import time
from datetime import datetime, timedelta

from django.db import connection

ASK_AGAIN_S = 10.0  # how long a reading is carried on by the monotonic clock, which nobody sets
SLOW_S = 0.5  # a slower answer is used once and not carried on: when it was true is not known well enough


class _Reading(threading.local):
    at: datetime | None = None
    by: float = 0.0


_last = _Reading()


def database_now() -> datetime:
    """Return the time by the database's clock. One query, and none for ASK_AGAIN_S afterwards in this thread."""
    began = time.monotonic()
    if _last.at is not None and 0 <= began - _last.by < ASK_AGAIN_S:
        return _last.at + timedelta(seconds=began - _last.by)
    connection.ensure_connection()
    # Below Django's own cursor: that one call asks and the next does not is no difference in what a tick does.
    with connection.wrap_database_errors, connection.connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        at: datetime = cursor.fetchone()[0]
    ended = time.monotonic()
    is_sharp = ended - began < SLOW_S
    _last.at, _last.by = (at, (began + ended) / 2) if is_sharp else (None, 0.0)
    return at
