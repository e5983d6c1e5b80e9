"""The gateway's page: pools with their revisions, what each unit shall get and what was read back, drains."""

from __future__ import annotations

from dataclasses import dataclass, field

from fleet.execution.models import Scrape
from fleet.models import Pool, TrailEntry
from fleet.readings.haproxy import ServerRow
from releases.models import Drain, Endpoint, Gateway, Launch, LaunchPosition
from releases.rules import gateway as rules
from releases.rules import launch as launch_rules
from releases.selectors.gateways import gateway_routes, reading_of

DRAINS_SHOWN = 6
CHANGES_SHOWN = 8


@dataclass
class UnitSeen:
    """One endpoint with everything that is known of its traffic. What was not read is None."""

    endpoint: Endpoint
    nodes: list[str]
    row: ServerRow | None
    engine: Scrape | None
    drain: Drain | None


@dataclass
class SlotSeen:
    """A revision of a pool; `share` of the pool's new sessions in percent as wanted."""

    slot: str
    release: str
    share: float
    mode: int
    units: list[UnitSeen] = field(default_factory=list)


@dataclass
class PoolSeen:
    pool: Pool
    models: tuple[str, ...]
    slots: list[SlotSeen]

    @property
    def units(self) -> list[UnitSeen]:
        return [unit for slot in self.slots for unit in slot.units]


@dataclass
class GatewaySeen:
    gateway: Gateway
    pools: list[PoolSeen]
    drains: list[Drain]
    waiting: list[Launch]
    changes: list[TrailEntry]


def gateway_seen() -> GatewaySeen | None:
    """Return the gateway with its pools, or None when there is none. A constant number of queries."""
    gateway = Gateway.objects.select_related("host", "subject").order_by("pk").first()
    if gateway is None:
        return None
    units = _units(gateway)
    drains = list(
        Drain.objects.select_related("launch__replica__pool").order_by("-started_at")[:DRAINS_SHOWN]
    )
    changes = TrailEntry.objects.filter(
        verb__in=[
            "endpoint.set",
            "endpoint.open",
            "gateway.drift",
            "gateway.restart",
            "drain.start",
        ]
    )
    return GatewaySeen(
        gateway,
        _pools(gateway, units),
        drains,
        list(
            Launch.objects.filter(state=launch_rules.READY, endpoint=None)
            .select_related("replica__pool", "release")
            .order_by("replica__name")
        ),
        list(changes.order_by("-id")[:CHANGES_SHOWN]),
    )


def _pools(gateway: Gateway, units: list[UnitSeen]) -> list[PoolSeen]:
    pools = {pool.slug: pool for pool in Pool.objects.filter(is_spare=False)}
    found = []
    for route in gateway_routes(gateway):
        share_of_b = 100 * rules.share_of_second(route) / rules.SHARE_WHOLE
        slots = [_slot(one, share_of_b, route, units) for one in route.sets]
        found.append(PoolSeen(pools[route.pool], route.models, slots))
    return sorted(found, key=lambda row: (row.pool.position, row.pool.slug))


def _slot(
    one: rules.BackendSet, share_of_b: float, route: rules.Route, units: list[UnitSeen]
) -> SlotSeen:
    share = share_of_b if one.slot == rules.SLOTS[1] else 100 - share_of_b
    own = [
        unit
        for unit in units
        if unit.endpoint.slot == one.slot and unit.endpoint.launch.replica.pool.slug == route.pool
    ]
    return SlotSeen(one.slot, one.release, share if one.weight else 0.0, rules.slot_mode(one), own)


def _units(gateway: Gateway) -> list[UnitSeen]:
    rows = list(gateway.endpoints.select_related("launch__replica__pool", "launch__release"))
    launches = [row.launch for row in rows]
    nodes: dict[int, list[str]] = {}
    places = LaunchPosition.objects.filter(launch__in=launches).order_by("position")
    for launch_id, name in places.values_list("launch", "node__host__name"):
        nodes.setdefault(launch_id, []).append(name)
    keys = {f"launch:{launch.public_id}/metrics": launch.pk for launch in launches}
    engines = {keys[row.key]: row for row in Scrape.objects.filter(key__in=keys)}
    drains = {
        row.launch_id: row for row in Drain.objects.filter(launch__in=launches, ended_at=None)
    }
    reading = reading_of(gateway)
    servers = {(row.backend, row.name): row for row in reading.servers} if reading else {}
    found = []
    for row in rows:
        replica = row.launch.replica
        key = (rules.backend_name(replica.pool.slug, row.slot), replica.name)
        found.append(
            UnitSeen(
                row,
                nodes.get(row.launch_id, []),
                servers.get(key),
                engines.get(row.launch_id),
                drains.get(row.launch_id),
            )
        )
    return sorted(found, key=_natural)


def _natural(unit: UnitSeen) -> tuple[str, int]:
    """Count r2 before r10."""
    name = unit.endpoint.launch.replica.name
    stem = name.rstrip("0123456789")
    return stem, int(name[len(stem) :] or 0)
