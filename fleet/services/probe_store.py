"""Stores the facts and cards of many probes with one statement each. The newest answer of a node wins."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from fleet.models import Fact, Gpu, NodeProbe
from fleet.rules.probe_cards import CardSeen
from fleet.rules.probe_reading import FactSeen

_FACT_FIELDS = [
    "value",
    "unit",
    "problem",
    "observed_at",
    "expires_at",
    "source",
    "section",
]
_CARD_FIELDS = {
    "uuid": "",
    "name": "",
    "bus": "",
    "serial": "",
    "numa": None,
    "nic": "",
    "memory_total_mib": None,
    "memory_used_mib": None,
    "sm_clock_mhz": None,
    "temperature_c": None,
    "power_w": None,
    "pstate": "",
    "ecc_uncorrected": None,
    "utilization_pct": None,
    "throttle_reasons": "",
}


def facts_store(seen: Iterable[tuple[NodeProbe, FactSeen]]) -> None:
    """Store each fact of each node, over an older one of the same key."""
    rows: dict[tuple[int, str], Fact] = {}
    for probe, fact in seen:
        at = probe.command.settled_at
        rows[probe.node_id, fact.key] = Fact(
            node_id=probe.node_id,
            key=fact.key,
            value=storable(fact.value),
            unit=fact.unit,
            problem=storable(fact.problem),
            observed_at=at,
            expires_at=at + timedelta(seconds=fact.ttl_s),
            source=probe.command,
            section=fact.section,
        )
    Fact.objects.bulk_create(
        rows.values(),
        update_conflicts=True,
        unique_fields=["node", "key"],
        update_fields=_FACT_FIELDS,
    )


def cards_store(seen: Iterable[tuple[NodeProbe, CardSeen]]) -> None:
    """Store each card of each node; a reading that is missing now becomes null, never the old value."""
    rows: dict[tuple[int, int], Gpu] = {}
    for probe, card in seen:
        values = {
            name: storable(card.fields.get(name, empty)) for name, empty in _CARD_FIELDS.items()
        }
        rows[probe.node_id, card.index] = Gpu(
            node_id=probe.node_id,
            index=card.index,
            health=card.health,
            explanation=storable(card.explanation),
            observed_at=probe.command.settled_at,
            source=probe.command,
            **values,
        )
    Gpu.objects.bulk_create(
        rows.values(),
        update_conflicts=True,
        unique_fields=["node", "index"],
        update_fields=["health", "explanation", "observed_at", "source", *_CARD_FIELDS],
    )


def storable(value: Any) -> Any:
    """Return a node's words without what Postgres refuses to store: NUL, lone surrogates, NaN and infinity."""
    if isinstance(value, str):
        return value.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {storable(key): storable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [storable(item) for item in value]
    return value
