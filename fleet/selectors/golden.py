"""Golden profiles, and where nodes differ from them. The number of queries does not grow with the nodes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from django.contrib.postgres.aggregates import ArrayAgg
from django.db.models import Exists, OuterRef, QuerySet
from django.db.models.lookups import GreaterThan
from django.utils import timezone

from fleet.models import Fact, GoldenKey, GoldenProfile, Node
from fleet.rules.golden import EQUAL, IGNORE, Difference, Found, Wanted, compare

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


def drift_of(nodes: Iterable[Node]) -> dict[int, list[Difference]]:
    """Return the differences of each node by its key, empty for one that agrees. Four queries.

    A node without a profile is left out: nothing is known of it.
    """
    profiles = {
        (profile.node_class, profile.origin): profile
        for profile in _current().prefetch_related("keys")
    }
    return _compared(profiles, nodes)


def drift_against(profile: GoldenProfile, nodes: Iterable[Node]) -> dict[int, list[Difference]]:
    """Return how these nodes, all of its class, differ from one version, current or not, by node key. Three queries."""
    return _compared({(profile.node_class, profile.origin): profile}, nodes)


def _compared(
    profiles: Mapping[ClassOf, GoldenProfile], nodes: Iterable[Node]
) -> dict[int, list[Difference]]:
    """Compare each node with the profile of its class; two queries.

    What is as gold is found by the database and not fetched: in a sound fleet that is nearly everything.
    """
    wanted = {line: _wanted(profile) for line, profile in profiles.items()}
    judged = [node for node in nodes if (node.node_class, node.origin) in wanted]
    wants = [want for line in wanted.values() for want in line if want.tolerance != IGNORE]
    now = timezone.now()
    as_gold = GoldenKey.objects.filter(
        GreaterThan(OuterRef("expires_at"), now),
        profile__in=list(profiles.values()),
        profile__node_class=OuterRef("node__node_class"),
        profile__origin=OuterRef("node__origin"),
        tolerance=EQUAL,
        key=OuterRef("key"),
        value=OuterRef("value"),
    ).exclude(
        key__in=[want.key for want in wants if want.value in (None, "")]
    )  # no reading is as these
    facts = Fact.objects.filter(node__in=[node.pk for node in judged]).order_by()
    alike = dict(
        facts.filter(Exists(as_gold))
        .values("node")
        .annotate(keys=ArrayAgg("key"))
        .values_list("node", "keys")
    )
    found = _found(facts.filter(~Exists(as_gold), key__in={want.key for want in wants}), now)
    compared = {}
    for node in judged:
        done = set(alike.get(node.pk, ()))
        left = [one for one in wanted[node.node_class, node.origin] if one.key not in done]
        compared[node.pk] = compare(left, found.get(node.pk, {}))
    return compared


def found_of(node_ids: Iterable[int]) -> dict[int, dict[str, Found]]:
    """Return what was read of each node, by node key and fact key. One query."""
    return _found(Fact.objects.filter(node__in=list(node_ids)).order_by(), timezone.now())


def _found(facts: QuerySet[Fact], now: datetime) -> dict[int, dict[str, Found]]:
    found: dict[int, dict[str, Found]] = defaultdict(dict)
    for node_id, key, value, expires_at in facts.values_list("node", "key", "value", "expires_at"):
        found[node_id][key] = Found(value, expires_at <= now)
    return found


def _wanted(profile: GoldenProfile) -> list[Wanted]:
    return [key.wanted() for key in sorted(profile.keys.all(), key=lambda key: key.key)]


def _current() -> QuerySet[GoldenProfile]:
    return GoldenProfile.objects.filter(is_current=True, kind=GoldenProfile.Kind.NODE)
