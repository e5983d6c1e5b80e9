"""One fact over the whole fleet, and the keys that probes have told of."""

from __future__ import annotations

from django.utils import timezone

from fleet.models import Fact, Node
from fleet.rules.fact_folds import Told


def fact_keys() -> list[str]:
    """Return the keys of all stored facts, in order. One query."""
    return list(Fact.objects.order_by("key").values_list("key", flat=True).distinct())


def fact_told(key: str, names: set[str] | None = None) -> tuple[list[Told], str]:
    """Return what each node in the fleet (or each of `names`) says of a fact, and the section it comes from.

    A node that was never asked is there too. Two queries.
    """
    now = timezone.now()
    facts = {
        fact.node_id: fact
        for fact in Fact.objects.filter(key=key).only(
            "node_id", "value", "unit", "problem", "observed_at", "expires_at", "section"
        )
    }
    nodes = Node.objects.exclude(state=Node.State.RETIRED).values_list("pk", "host__name")
    rows = []
    for pk, name in nodes:
        fact = facts.get(pk)
        if names is not None and name not in names:
            continue
        if fact is None:
            rows.append(Told(name))
        else:
            rows.append(
                Told(
                    name,
                    fact.value,
                    fact.unit,
                    fact.problem,
                    fact.observed_at,
                    fact.expires_at <= now,
                )
            )
    return rows, next((fact.section for fact in facts.values() if fact.section), "")
