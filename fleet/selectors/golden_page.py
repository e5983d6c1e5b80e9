"""What the pages of golden profiles show: profiles by class, and the drift of the fleet with times and sources."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from django.db.models import Count, Prefetch, prefetch_related_objects
from django.db.models.functions import Now
from django.utils import timezone

from fleet.models import Fact, GoldenKey, GoldenProfile, Node, TrailEntry
from fleet.rules.golden import Difference, Found, compare, is_number
from fleet.rules.golden_folds import Drifted, fold_drift
from fleet.selectors.golden import ClassOf, drift_against, drift_of, profile_for

HISTORY_SHOWN = 12
SourceOf = dict[tuple[str, str], Fact]  # node name, key


@dataclass(frozen=True)
class ProfileLine:
    """The versions of one class, newest first."""

    node_class: str
    kind: str
    origin: str
    versions: list[GoldenProfile]

    @property
    def current(self) -> GoldenProfile | None:
        return next((profile for profile in self.versions if profile.is_current), None)


@dataclass(frozen=True)
class FleetDrift:
    """The nodes of a class and how they differ. `sources`: the reading of each node and key that differs."""

    nodes: list[Node] = field(default_factory=list)
    by_name: dict[str, list[Difference]] = field(default_factory=dict)
    sources: SourceOf = field(default_factory=dict)

    @property
    def rows(self) -> list[Drifted]:
        return fold_drift(self.by_name)


def lines_listed() -> list[ProfileLine]:
    """Return every profile by class, newest version first, those in force with their keys. Two queries."""
    rows = (
        GoldenProfile.objects.select_related("created_by", "taken_from")
        .annotate(key_count=Count("keys"))
        .order_by("node_class", "kind", "origin", "-version")
    )
    lines: dict[tuple[str, str, str], list[GoldenProfile]] = {}
    for profile in rows:
        lines.setdefault((profile.node_class, profile.kind, profile.origin), []).append(profile)
    in_force = [
        profile for versions in lines.values() for profile in versions if profile.is_current
    ]
    prefetch_related_objects(in_force, Prefetch("keys", GoldenKey.objects.order_by("key")))
    return [ProfileLine(*line, versions) for line, versions in lines.items()]


def fleet_drift() -> tuple[dict[ClassOf, FleetDrift], list[Node]]:
    """Return the drift by class and origin, and the nodes that no current profile judges. Six queries."""
    nodes = nodes_judged()
    drift = drift_of(nodes)
    sources = sources_of(nodes, drift)
    classes: dict[ClassOf, FleetDrift] = {}
    for node in nodes:
        if node.pk in drift:
            seen = classes.setdefault((node.node_class, node.origin), FleetDrift(sources=sources))
            seen.nodes.append(node)
            seen.by_name[node.name] = drift[node.pk]
    return classes, [node for node in nodes if node.pk not in drift]


def profile_drift(profile: GoldenProfile) -> FleetDrift:
    """Return how the nodes of a profile's class differ from this version, whether it is current or not."""
    nodes = [
        node
        for node in nodes_judged()
        if (node.node_class, node.origin) == (profile.node_class, profile.origin)
    ]
    drift = drift_against(profile, nodes)
    by_name = {node.name: drift[node.pk] for node in nodes}
    return FleetDrift(nodes, by_name, sources_of(nodes, drift))


def node_gold(node: Node, facts: Iterable[Fact]) -> tuple[GoldenProfile | None, list[Difference]]:
    """Return the profile that judges a node, its keys fetched, and where these facts of it differ. Two queries."""
    profile = profile_for(node)
    if profile is None:
        return None, []
    prefetch_related_objects([profile], Prefetch("keys", GoldenKey.objects.order_by("key")))
    now = timezone.now()
    found = {fact.key: Found(fact.value, fact.expires_at <= now) for fact in facts}
    return profile, compare([key.wanted() for key in profile.keys.all()], found)


def nodes_judged() -> list[Node]:
    """Return every node but the retired, by leaf, rack and name."""
    return list(
        Node.objects.exclude(state=Node.State.RETIRED).order_by(
            "rack__leaf__number", "rack__name", "host__name"
        )
    )


def sources_of(nodes: Iterable[Node], drift: dict[int, list[Difference]]) -> SourceOf:
    """Return the reading behind each difference, by node name and key. One query."""
    keys = {difference.key for found in drift.values() for difference in found}
    names = {node.pk: node.name for node in nodes if drift.get(node.pk)}
    facts = Fact.objects.filter(node__in=names, key__in=keys).order_by().defer("value")
    return {(names[fact.node_id], fact.key): fact for fact in facts}


def numbers_of(nodes: Iterable[Node], keys: Iterable[GoldenKey]) -> dict[str, dict[str, float]]:
    """Return what was read of these keys where it is a number and still holds: key -> node name -> it. One query."""
    names = {node.pk: node.name for node in nodes}
    wanted = [key.key for key in keys if is_number(key.value)]
    facts = Fact.objects.filter(
        node__in=names, key__in=wanted, expires_at__gt=Now(), value__isnull=False
    )
    found: dict[str, dict[str, float]] = {}
    for node_id, key, value in facts.order_by().values_list("node_id", "key", "value"):
        if is_number(value):
            found.setdefault(key, {})[names[node_id]] = float(value)
    return found


def history_of(profile: GoldenProfile) -> list[TrailEntry]:
    """Return the newest entries of the trail about a profile."""
    rows = TrailEntry.objects.filter(object_kind="golden", object_id=profile.public_id)
    return list(rows.order_by("-id")[:HISTORY_SHOWN])


def other_version(profile: GoldenProfile, name: str) -> GoldenProfile | None:
    """Return the version of the same class with this public id, its keys fetched; None for what is none."""
    rows = GoldenProfile.objects.filter(
        node_class=profile.node_class, kind=profile.kind, origin=profile.origin
    ).prefetch_related(Prefetch("keys", GoldenKey.objects.order_by("key")))
    return next((row for row in rows if row.public_id == name and row.pk != profile.pk), None)
