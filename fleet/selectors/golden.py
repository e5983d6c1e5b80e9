"""Golden profiles, and where nodes differ from them. The number of queries does not grow with the nodes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import QuerySet
from django.utils import timezone

from fleet.models import Fact, GoldenProfile, Node
from fleet.rules.golden import IGNORE, Difference, Found, Wanted, compare

ClassOf = tuple[str, str]  # node class, origin


@dataclass(frozen=True)
class GoldenLine:
    """A profile among the versions of its class; `version` is that of the newest, which a write is based on."""

    profile: GoldenProfile
    newest: GoldenProfile

    def __str__(self) -> str:
        return self.newest.public_id

    @property
    def version(self) -> int:
        return self.newest.version


def line_named(name: str) -> GoldenLine | None:
    """Return the profile of a public id (GP-0007) with the newest of its line, or None."""
    digits = name.upper().removeprefix("GP-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 10):
        return None
    profile = (
        GoldenProfile.objects.select_related("taken_from", "created_by")
        .filter(pk=int(digits))
        .first()
    )
    if profile is None:
        return None
    return GoldenLine(profile, versions_of(profile)[0])


def versions_of(profile: GoldenProfile) -> list[GoldenProfile]:
    """Return every version of a profile's line, newest first."""
    rows = GoldenProfile.objects.select_related("taken_from", "created_by").filter(
        node_class=profile.node_class, kind=profile.kind, origin=profile.origin
    )
    return list(rows.order_by("-version"))


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
    wanted: dict[ClassOf, list[Wanted]] = {
        (profile.node_class, profile.origin): _wanted(profile)
        for profile in _current().prefetch_related("keys")
    }
    judged = [node for node in nodes if (node.node_class, node.origin) in wanted]
    found = found_of([node.pk for node in judged], _keys_of(*wanted.values()))
    return {
        node.pk: compare(wanted[node.node_class, node.origin], found.get(node.pk, {}))
        for node in judged
    }


def drift_against(profile: GoldenProfile, nodes: Iterable[Node]) -> dict[int, list[Difference]]:
    """Return how these nodes differ from one version, current or not, by node key. Two queries."""
    rows, wanted = list(nodes), _wanted(profile)
    found = found_of([node.pk for node in rows], _keys_of(wanted))
    return {node.pk: compare(wanted, found.get(node.pk, {})) for node in rows}


def found_of(
    node_ids: Iterable[int], keys: Iterable[str] | None = None
) -> dict[int, dict[str, Found]]:
    """Return what was read of each node, by node key and fact key; only of these `keys` when given. One query."""
    now = timezone.now()
    found: dict[int, dict[str, Found]] = defaultdict(dict)
    rows = Fact.objects.filter(node__in=list(node_ids)).order_by()
    if keys is not None:
        rows = rows.filter(key__in=list(keys))
    for node_id, key, value, expires_at in rows.values_list("node", "key", "value", "expires_at"):
        found[node_id][key] = Found(value, expires_at <= now)
    return found


def _keys_of(*wanted: Iterable[Wanted]) -> set[str]:
    """The keys that are compared at all: counters of a thousand nodes are not fetched to be ignored."""
    return {want.key for wants in wanted for want in wants if want.tolerance != IGNORE}


def _wanted(profile: GoldenProfile) -> list[Wanted]:
    return [key.wanted() for key in sorted(profile.keys.all(), key=lambda key: key.key)]


def _current() -> QuerySet[GoldenProfile]:
    return GoldenProfile.objects.filter(is_current=True, kind=GoldenProfile.Kind.NODE)
