"""The lease of the watch: one process follows the nodes; a second takes over when it stops renewing.

Times are the database's. Losing the lease is learned from a write that changed no row.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from typing import TypeVar

from django.db import connection
from django.db.models import Exists, Model, QuerySet

from fleet.execution.faults import scaled
from fleet.execution.models import Lease

NAME = "watch"
LEASE_S = 30.0
RENEW_EVERY_S = 5.0

Row = TypeVar("Row", bound=Model)

_CLAIM = """
INSERT INTO execution_lease AS held (name, owner, until, fence, beaten_at)
VALUES (%(name)s, %(owner)s, now() + %(span)s * interval '1 second', nextval('execution_fence'), now())
ON CONFLICT (name) DO UPDATE
SET owner = excluded.owner, until = excluded.until, fence = excluded.fence, beaten_at = now()
WHERE held.until < now()
RETURNING fence
"""


class LeaseLost(Exception):
    """Another process holds the lease now; nothing of ours may be written any more."""


@dataclass(frozen=True)
class Fence:
    """The lease as it was claimed. `guard` makes a write conditional on still holding it."""

    name: str
    owner: str
    number: int

    def guard(self, rows: QuerySet[Row]) -> QuerySet[Row]:
        """Narrow rows to none when the lease is somebody else's."""
        return rows.filter(Exists(self._row()))

    def renew(self) -> None:
        """Prolong the lease. Raises `LeaseLost` when it was taken over."""
        with connection.cursor() as cursor:
            cursor.execute(
                "UPDATE execution_lease SET until = now() + %s * interval '1 second', beaten_at = now()"
                " WHERE name = %s AND owner = %s AND fence = %s",
                [scaled(LEASE_S), self.name, self.owner, self.number],
            )
            if not cursor.rowcount:
                raise LeaseLost(f"the lease {self.name!r} of {self.owner} was taken over")

    def check(self) -> None:
        """Raise `LeaseLost` unless the lease is ours."""
        if not self._row().exists():
            raise LeaseLost(f"the lease {self.name!r} of {self.owner} was taken over")

    def release(self) -> None:
        """Let the next process take over at once."""
        with connection.cursor() as cursor:
            cursor.execute(
                "UPDATE execution_lease SET until = now() - interval '1 second'"
                " WHERE name = %s AND owner = %s AND fence = %s",
                [self.name, self.owner, self.number],
            )

    def _row(self) -> QuerySet[Lease]:
        return Lease.objects.filter(name=self.name, owner=self.owner, fence=self.number)


def process_name() -> str:
    """Return a name that no other process has now."""
    return f"{socket.gethostname()}:{os.getpid()}:{os.urandom(4).hex()}"


def lease_claim(owner: str, name: str = NAME) -> Fence | None:
    """Take the lease when nobody holds it; every claim gets a higher fence."""
    with connection.cursor() as cursor:
        cursor.execute(_CLAIM, {"name": name, "owner": owner, "span": scaled(LEASE_S)})
        row = cursor.fetchone()
    return Fence(name, owner, row[0]) if row else None
