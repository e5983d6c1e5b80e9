"""What the overview reads beyond what other pages read: which releases a pool runs, and what happened lately."""

from __future__ import annotations

from collections import Counter

from django.db.models import QuerySet

from fleet.models import TrailEntry
from releases.models import Launch

LATELY = 12


def releases_running() -> dict[str, list[tuple[str, int]]]:
    """Return by pool slug the releases of its ready units and the number of units, the most first."""
    ready = Launch.objects.filter(state=Launch.State.READY).select_related(
        "release", "replica__pool"
    )
    counts = Counter((row.replica.pool.slug, row.release.public_id) for row in ready)
    found: dict[str, list[tuple[str, int]]] = {}
    for (slug, release), units in counts.most_common():
        found.setdefault(slug, []).append((release, units))
    return found


def happened_lately() -> QuerySet[TrailEntry]:
    """Return the newest entries of the record."""
    return TrailEntry.objects.order_by("-id")[:LATELY]
