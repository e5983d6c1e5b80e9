"""What a gateway shall do, by the rows, and what was last read back of it."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.conf import settings
from django.utils import timezone

from fleet.models import Pool
from fleet.readings.haproxy import ProxyReading, ServerCounts, ServerRow
from releases.models import Endpoint, Gateway, Release
from releases.rules import gateway as rules

READ_EVERY_S = 2.0
# A machine under load needs a moment for an answer, however fast a test's clock.
FRESH_PERIODS, FRESH_AT_LEAST_S = 5, 4.0


def gateway_routes(gateway: Gateway) -> tuple[rules.Route, ...]:
    """Return what the proxy shall do: every pool with a sealed release, its names and its units by revision."""
    endpoints = list(gateway.endpoints.select_related("launch__replica", "launch__release"))
    sealed = Release.objects.exclude(state__in=[Release.State.DRAFT, Release.State.WITHDRAWN])
    names: dict[int, set[str]] = {}
    for pool_id, content in sealed.values_list("pool_id", "content"):
        names.setdefault(pool_id, set()).add(content["model"]["served_name"])
    pools = Pool.objects.filter(pk__in=names, is_spare=False).order_by("slug")
    return tuple(
        rules.Route(
            pool.slug,
            tuple(sorted(names[pool.pk])),
            _sets([row for row in endpoints if row.launch.replica.pool_id == pool.pk]),
        )
        for pool in pools
    )


def _sets(endpoints: list[Endpoint]) -> tuple[rules.BackendSet, ...]:
    found = []
    for slot in rules.SLOTS:
        rows = [row for row in endpoints if row.slot == slot]
        if rows:
            release = rows[0].launch.release.public_id
            found.append(rules.BackendSet(slot, release, tuple(map(_server, rows))))
    return tuple(found)


def _server(endpoint: Endpoint) -> rules.Server:
    http = endpoint.launch.plan["http"]
    unit = endpoint.launch.replica.name
    return rules.Server(unit, http["address"], http["port"], endpoint.weight, endpoint.mode)


def reading_of(gateway: Gateway) -> ProxyReading | None:
    """Return the read-back that the gateway shows, None before the first."""
    seen = gateway.seen
    if not seen:
        return None
    return ProxyReading(
        servers=tuple(ServerRow(**row) for row in seen["servers"]),
        counts=tuple(ServerCounts(**row) for row in seen["counts"]),
        shares=seen["shares"],
        has_state=True,
        has_stat=True,
        unread=tuple(seen["unread"]),
    )


def fresh_s() -> float:
    """Return how old a read-back may be and still say what the proxy does now."""
    return max(FRESH_AT_LEAST_S, FRESH_PERIODS * READ_EVERY_S / settings.TIME_SCALE)


def is_fresh(at: datetime | None) -> bool:
    """Tell whether what was read then says something about now."""
    return at is not None and timezone.now() - at <= timedelta(seconds=fresh_s())
