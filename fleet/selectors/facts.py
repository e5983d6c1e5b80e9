"""One fact over the whole fleet, and the keys that probes have told of."""

from __future__ import annotations

from datetime import datetime

from django.utils import timezone

from fleet.models import Fact, Node
from fleet.rules.fact_folds import Told


def fact_keys() -> list[str]:
    """Return the keys of all stored facts, in order. One query."""
    return list(Fact.objects.order_by("key").values_list("key", flat=True).distinct())


def fact_told(key: str, names: set[str] | None = None) -> list[Told]:
    """Return what each node in the fleet (or each of `names`) says of a fact.

    A node that was never asked is there too. Two queries.
    """
    now = timezone.now()
    facts = {fact.node_id: fact for fact in Fact.objects.filter(key=key)}
    nodes = Node.objects.exclude(state=Node.State.RETIRED).values_list("pk", "host__name")
    return [_told(name, facts.get(pk), now) for pk, name in nodes if names is None or name in names]


def _told(name: str, fact: Fact | None, now: datetime) -> Told:
    if fact is None:
        return Told(name)
    return Told(
        name,
        fact.value,
        fact.unit,
        fact.problem,
        fact.observed_at,
        fact.expires_at <= now,
        fact.source_id,
        fact.section,
    )
