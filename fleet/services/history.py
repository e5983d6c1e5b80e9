"""Keeps what probes tell over time: cards by UUID and their seats, and changes of watched facts.

Called by the settling of probes, in its transaction and under its locks of the nodes. A fixed number of statements,
whatever the number of nodes. What could not be read changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from django.db import connection
from django.db.models import Q

from fleet.models import FactChange, GpuRecord, GpuSeat, LastFact, Node, NodeProbe
from fleet.rules.history import (
    Place,
    SeatSeen,
    facts_changed,
    is_uuid,
    seat_moves,
    watched_fact,
)
from fleet.rules.probe_cards import CardSeen
from fleet.rules.probe_reading import FactSeen
from fleet.services.probe_store import storable
from fleet.services.trail import rule_actor, trail_add_all, trail_entry

# One JSON text: as arrays of JSON the rows cost the client three times as much. A JSON null stays one.
_LAST_UPSERT = """
    INSERT INTO fleet_lastfact (node_id, key, value, at)
    SELECT x.node, x.key, coalesce(x.value, 'null'::jsonb), x.at
    FROM jsonb_to_recordset(%s) AS x(node bigint, key text, value jsonb, at timestamptz)
    ON CONFLICT (node_id, key) DO UPDATE SET value = EXCLUDED.value, at = EXCLUDED.at
"""


def history_store(
    facts: Sequence[tuple[NodeProbe, FactSeen]], cards: Sequence[tuple[NodeProbe, CardSeen]]
) -> None:
    """Store what these answers change. The nodes of the probes are locked by the caller."""
    _facts_store(facts)
    _cards_store(cards)


def _facts_store(facts: Iterable[tuple[NodeProbe, FactSeen]]) -> None:
    seen: dict[Place, Any] = {}
    told: dict[Place, tuple[NodeProbe, FactSeen]] = {}
    for probe, fact in facts:
        found = watched_fact(fact.key, storable(fact.value))
        if found is not None:
            place = (probe.node_id, found[0])
            seen[place], told[place] = found[1], (probe, fact)
    if not seen:
        return
    rows = LastFact.objects.filter(node__in={node for node, _key in seen})
    known = {(node, key): value for node, key, value in rows.values_list("node_id", "key", "value")}
    FactChange.objects.bulk_create(
        FactChange(
            node_id=place[0],
            key=place[1],
            before=known[place],
            after=seen[place],
            at=told[place][0].command.settled_at,
            source=told[place][0].command,
            section=told[place][1].section,
        )
        for place in facts_changed(seen, known)
    )
    last = [
        {
            "node": node,
            "key": key,
            "value": value,
            "at": told[node, key][0].command.settled_at.isoformat(),
        }
        for (node, key), value in seen.items()
    ]
    with connection.cursor() as cursor:
        cursor.execute(_LAST_UPSERT, [json.dumps(last)])


def _cards_store(cards: Iterable[tuple[NodeProbe, CardSeen]]) -> None:
    found: dict[SeatSeen, tuple[NodeProbe, CardSeen]] = {}
    for probe, card in cards:
        uuid = str(card.fields.get("uuid") or "")
        if is_uuid(uuid):
            found[SeatSeen(probe.node_id, card.index, uuid)] = (probe, card)
    if not found:
        return
    records = _records(found)
    seats = GpuSeat.objects.select_related("record", "node__host").filter(
        Q(record__uuid__in=records) | Q(node__in={seat.node for seat in found}), ended_at=None
    )
    rows = {seat.pk: seat for seat in seats}
    moves = seat_moves(
        found,
        {pk: SeatSeen(seat.node_id, seat.index, seat.record.uuid) for pk, seat in rows.items()},
    )
    _end(rows, moves.ended, found)
    GpuSeat.objects.bulk_create(
        GpuSeat(
            record_id=records[seat.uuid],
            node_id=seat.node,
            index=seat.index,
            began_at=found[seat][0].command.settled_at,
            source=found[seat][0].command,
        )
        for seat in moves.begun
    )
    _tell([rows[pk] for pk in moves.ended], {seat.uuid: seat for seat in moves.begun})


def _records(found: dict[SeatSeen, tuple[NodeProbe, CardSeen]]) -> dict[str, int]:
    """Renew the record of each card that was seen, and return the key of each by UUID."""
    rows = {
        seat.uuid: GpuRecord(
            uuid=seat.uuid,
            name=storable(str(card.fields.get("name") or ""))[:80],
            serial=storable(str(card.fields.get("serial") or ""))[:32],
            first_seen_at=probe.command.settled_at,
            last_seen_at=probe.command.settled_at,
        )
        for seat, (probe, card) in found.items()
    }
    GpuRecord.objects.bulk_create(
        rows.values(),
        update_conflicts=True,
        unique_fields=["uuid"],
        update_fields=["name", "serial", "last_seen_at"],
    )
    return dict(GpuRecord.objects.filter(uuid__in=rows).values_list("uuid", "pk"))


def _end(
    rows: dict[int, GpuSeat],
    ended: Iterable[int],
    found: dict[SeatSeen, tuple[NodeProbe, CardSeen]],
) -> None:
    """End seats at the newest time of this batch: nobody knows when between two probes a card was taken out."""
    keys = list(ended)
    if keys:
        at = max(probe.command.settled_at for probe, _card in found.values())
        GpuSeat.objects.filter(pk__in=keys).update(ended_at=at)


def _tell(ended: Sequence[GpuSeat], begun: dict[str, SeatSeen]) -> None:
    """Tell of every card that left its seat, and where it was found instead, if it was."""
    if not ended:
        return
    names = dict(
        Node.objects.filter(pk__in={seat.node for seat in begun.values()}).values_list(
            "pk", "host__name"
        )
    )
    trail_add_all(
        trail_entry(
            actor=rule_actor("probe"),
            verb="gpu.move",
            object_kind="gpu",
            object_id=seat.record.uuid,
            before={"node": seat.node.name, "index": seat.index},
            after=_place(begun.get(seat.record.uuid), names),
        )
        for seat in ended
    )


def _place(seat: SeatSeen | None, names: dict[int, str]) -> dict[str, Any]:
    return {"node": names[seat.node], "index": seat.index} if seat else {"node": None}
