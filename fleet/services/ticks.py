"""One conductor at a time for each tick, and the row that says when it last ran."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection, transaction
from django.db.models.functions import Now

from fleet.models import Tick

# First key of all advisory locks of ticks; the second is the hash of the tick's name.
TICK_LOCK_CLASS = 7401


@contextmanager
def single_flight(name: str) -> Iterator[bool]:
    """Open a transaction and yield True when this process alone runs the tick, False when another does.

    The lock ends with the transaction, so a killed conductor frees it; a tick that raises is not recorded.
    """
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT pg_try_advisory_xact_lock(%s, hashtext(%s))", [TICK_LOCK_CLASS, name]
            )
            is_mine = bool(cursor.fetchone()[0])
        yield is_mine
        if is_mine:
            tick_record(name)


def tick_record(name: str) -> None:
    """Note that a tick ran to its end just now."""
    # One statement: each conductor does this several times a second.
    Tick.objects.bulk_create(
        [Tick(name=name, at=Now())],
        update_conflicts=True,
        unique_fields=["name"],
        update_fields=["at"],
    )
