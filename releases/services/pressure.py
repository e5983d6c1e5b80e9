"""Tells the copies of weights on which leaves they must rest: where a unit with traffic breaches what it promises.

Four queries however many units there are; nothing is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from fleet.execution.clock import database_now
from fleet.execution.models import Scrape
from fleet.models import Member
from releases.models import Endpoint, Launch
from releases.rules import gateway as gateway_rules
from releases.rules import triggers
from releases.rules.pressure import UnitSeen, leaves_pressed
from releases.rules.window import counted_since
from releases.services.launch_effects import purpose_of
from releases.services.rollout_triggers import golden_reading, limits


def serving_pressure() -> Mapping[int, str]:
    """Return leaf number -> why copies rest there, from what is known of the units with traffic now."""
    endpoints = _with_traffic()
    if not endpoints:
        return {}
    leaves = _leaves_of(endpoints)
    golden = _golden_of(endpoints)
    now = database_now()
    seen = [
        UnitSeen(
            leaves.get(one.launch.replica_id, frozenset()),
            _golden(one.launch, golden.get(_key(one.launch)), now),
            _errors(one, now),
        )
        for one in endpoints
    ]
    return leaves_pressed(seen, limits())


def _with_traffic() -> list[Endpoint]:
    rows = Endpoint.objects.filter(
        mode=gateway_rules.READY, weight__gt=0, launch__state=Launch.State.READY
    )
    return list(rows.select_related("gateway", "launch__replica").order_by("pk"))


def _leaves_of(endpoints: Sequence[Endpoint]) -> dict[int, frozenset[int]]:
    seats = Member.objects.filter(
        replica__in={one.launch.replica_id for one in endpoints}, released_at=None
    )
    found: dict[int, set[int]] = {}
    for replica, leaf in seats.values_list("replica_id", "node__rack__leaf__number"):
        found.setdefault(replica, set()).add(leaf)
    return {replica: frozenset(numbers) for replica, numbers in found.items()}


def _key(launch: Launch) -> str:
    return purpose_of(launch, "golden")


def _golden_of(endpoints: Sequence[Endpoint]) -> dict[str, Scrape]:
    keys = [_key(one.launch) for one in endpoints]
    rows = Scrape.objects.filter(key__in=keys).only("key", "misses", "status", "found", "tried_at")
    return {row.key: row for row in rows}


def _golden(launch: Launch, row: Scrape | None, now: datetime) -> triggers.GoldenReading:
    """A unit that has only just become ready was not asked yet: its age counts from there."""
    reading = golden_reading(launch.replica.name, row, now)
    if launch.ready_at is None:
        return reading
    since_ready_s = (now - launch.ready_at).total_seconds()
    age_s = since_ready_s if reading.age_s is None else min(reading.age_s, since_ready_s)
    return replace(reading, age_s=age_s)


def _errors(endpoint: Endpoint, now: datetime) -> triggers.ErrorReading:
    gateway = endpoint.gateway
    age_s = (now - gateway.seen_at).total_seconds() if gateway.seen_at else None
    requests, errors = counted_since(
        gateway.seen.get("window", []),
        str(endpoint.launch_id),
        endpoint.requests,
        endpoint.errors,
    )
    return triggers.ErrorReading(requests, errors, age_s)
