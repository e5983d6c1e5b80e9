"""What is remembered of a node and of a card: facts that changed, and who sat where from when to when."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Exists, F, OuterRef, Q

from fleet.models import FactChange, Gpu, GpuRecord, GpuSeat, Node

CHANGES_SHOWN = 12
SEATS_SHOWN = 12


@dataclass(frozen=True)
class NodeHistory:
    """Newest first: facts that changed, and seats from or to which a card moved."""

    facts: list[FactChange]
    seats: list[GpuSeat]


def node_history(node: Node) -> NodeHistory:
    """Return what changed on a node. Two queries."""
    earlier = GpuSeat.objects.filter(record=OuterRef("record"), began_at__lt=OuterRef("began_at"))
    before = GpuSeat.objects.filter(
        node=OuterRef("node"), index=OuterRef("index"), began_at__lt=OuterRef("began_at")
    )
    moved = Q(ended_at__isnull=False) | Exists(earlier) | Exists(before)
    seats = GpuSeat.objects.select_related("record").filter(moved, node=node)
    return NodeHistory(
        facts=list(node.fact_changes.select_related("source")[:CHANGES_SHOWN]),
        seats=list(seats.order_by(F("ended_at").desc(nulls_first=True), "-began_at")[:SEATS_SHOWN]),
    )


def gpu_record(uuid: str) -> GpuRecord | None:
    """Return the record of a card, or None."""
    return GpuRecord.objects.filter(uuid=uuid).first()


def seats_of(record: GpuRecord) -> list[GpuSeat]:
    """Return the seats of a card, the newest first."""
    return list(record.seats.select_related("node__host", "node__rack__leaf", "source"))


def card_now(seat: GpuSeat | None) -> Gpu | None:
    """Return the last reading at an open seat, when it is of this very card."""
    if seat is None or seat.ended_at is not None:
        return None
    return Gpu.objects.filter(node=seat.node_id, index=seat.index, uuid=seat.record.uuid).first()
