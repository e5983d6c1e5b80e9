"""Stores the facts and cards of many probes with one statement each. The newest answer of a node wins."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from django.db import connection
from django.db.models import F, Window
from django.db.models.functions import RowNumber

from fleet.models import CardSample, Gpu, NodeProbe
from fleet.rules.probe_cards import CardSeen
from fleet.rules.probe_reading import FactSeen

SAMPLES_KEPT = 200  # a node: at a probe every 5 minutes the last 16 hours
CARDS_MAX = 64  # a node that says it has a card number one milliard gets no list of that length

_FACTS_UPSERT = """
    INSERT INTO fleet_fact (node_id, key, value, unit, problem, observed_at, expires_at, source_id, section)
    SELECT x.node, x.key, x.value, x.unit, x.problem, x.observed_at, x.expires_at, x.source, x.section
    FROM jsonb_to_recordset(%s) AS x(node bigint, key text, value jsonb, unit text, problem text,
        observed_at timestamptz, expires_at timestamptz, source bigint, section text)
    ON CONFLICT (node_id, key) DO UPDATE SET value = EXCLUDED.value, unit = EXCLUDED.unit,
        problem = EXCLUDED.problem, observed_at = EXCLUDED.observed_at, expires_at = EXCLUDED.expires_at,
        source_id = EXCLUDED.source_id, section = EXCLUDED.section
"""
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
    rows: dict[tuple[int, str], dict[str, Any]] = {}
    for probe, fact in seen:
        at = probe.command.settled_at
        rows[probe.node_id, fact.key] = {
            "node": probe.node_id,
            "key": fact.key,
            "value": storable(fact.value),
            "unit": fact.unit,
            "problem": storable(fact.problem),
            "observed_at": at.isoformat(),
            "expires_at": (at + timedelta(seconds=fact.ttl_s)).isoformat(),
            "source": probe.command.pk,
            "section": fact.section,
        }
    # One JSON text for thousands of rows: as arrays of JSON they cost the client three times as much.
    with connection.cursor() as cursor:
        cursor.execute(_FACTS_UPSERT, [json.dumps(list(rows.values()))])


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


def samples_store(seen: Iterable[tuple[NodeProbe, list[CardSeen]]]) -> None:
    """Add clocks and temperatures of each node to its history, and forget what is older than the last SAMPLES_KEPT.

    Two statements whatever the number of nodes.
    """
    rows = [
        CardSample(
            node_id=probe.node_id,
            at=probe.command.settled_at,
            sm_clock_mhz=_by_index(cards, "sm_clock_mhz"),
            temperature_c=_by_index(cards, "temperature_c"),
        )
        for probe, cards in seen
        if cards
    ]
    if not rows:
        return
    CardSample.objects.bulk_create(rows, ignore_conflicts=True)
    newest_first = Window(RowNumber(), partition_by=F("node"), order_by=F("at").desc())
    old = (
        CardSample.objects.filter(node__in={row.node_id for row in rows})
        .annotate(place=newest_first)
        .filter(place__gt=SAMPLES_KEPT)
    )
    CardSample.objects.filter(pk__in=old.values("pk")).delete()


def _by_index(cards: list[CardSeen], name: str) -> list[Any]:
    found = {card.index: storable(card.fields.get(name)) for card in cards}
    return [found.get(index) for index in range(min(CARDS_MAX, max(found) + 1))]


def storable(value: Any) -> Any:
    """Return a node's words without what Postgres refuses to store: NUL, lone surrogates, NaN and infinity."""
    if isinstance(value, str):
        if value.isascii() and "\0" not in value:
            return value  # nearly all are; a probe asks this of four thousand words
        return value.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {storable(key): storable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [storable(item) for item in value]
    return value
