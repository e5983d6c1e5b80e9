"""Golden profiles, and where nodes differ from them. The number of queries does not grow with the nodes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from django.db.models import Prefetch, QuerySet
from django.utils import timezone

from fleet.models import Fact, GoldenKey, GoldenProfile, Node
from fleet.rules.golden import Difference, Found, compare

Line = tuple[str, str]  # node class, origin


def profile_for(node: Node) -> GoldenProfile | None:
    """Return the current profile that judges a node: of its class, and of the lab only for nodes of the lab."""
    return _current().filter(node_class=node.node_class, origin=node.origin).first()


def differences_of(node: Node) -> list[Difference]:
    """Return where a node differs from its profile; nothing without one, so ask profile_for() first."""
    return drift_of([node]).get(node.pk, [])


def drift_of(nodes: Iterable[Node]) -> dict[int, list[Difference]]:
    """Return the differences of each node by its key, empty for one that agrees. Three queries.

    A node without a profile is left out: nothing is known of it.
    """
    profiles: dict[Line, GoldenProfile] = {
        (profile.node_class, profile.origin): profile
        for profile in _current().prefetch_related(
            Prefetch("keys", GoldenKey.objects.order_by("key"))
        )
    }
    judged = [node for node in nodes if (node.node_class, node.origin) in profiles]
    found = found_of([node.pk for node in judged])
    return {
        node.pk: compare(
            [key.wanted() for key in profiles[node.node_class, node.origin].keys.all()],
            found.get(node.pk, {}),
        )
        for node in judged
    }


def found_of(node_ids: Iterable[int]) -> dict[int, dict[str, Found]]:
    """Return what was read of each node, by node key and fact key. One query."""
    now = timezone.now()
    found: dict[int, dict[str, Found]] = defaultdict(dict)
    rows = Fact.objects.filter(node__in=list(node_ids)).order_by()
    for node_id, key, value, expires_at in rows.values_list("node", "key", "value", "expires_at"):
        found[node_id][key] = Found(value, expires_at <= now)
    return found


def _current() -> QuerySet[GoldenProfile]:
    return GoldenProfile.objects.filter(is_current=True, kind=GoldenProfile.Kind.NODE)
