"""What the scene remembers: an import that waits for its apply, a card that moved, a driver that changed."""

from __future__ import annotations

from datetime import timedelta

from django.utils import timezone

from fleet.models import Fact, FactChange, Gpu, GpuRecord, GpuSeat, Node, NodeMiss
from fleet.rules.inventory_export import write_yaml
from fleet.rules.inventory_file import Inventory
from fleet.selectors.inventory import inventory_now
from fleet.services.imports import import_apply, import_read
from tests.factories import make_actor, make_person

MOVED = "GPU-0000004d-9a53-5f0c-8c0e-5d2b6f7e19b3"


def draw() -> None:
    """Everything of the inventory that other parts of the scene do not need."""
    _history()
    _imports()


def _history() -> None:
    """GPU 3 of gpu001 came from gpu028; the driver of one node is another than that of all others."""
    now = timezone.now()
    here, there = (Node.objects.get(host__name=name) for name in ("gpu001", "gpu028"))
    record = GpuRecord.objects.create(
        uuid=MOVED, name="NVIDIA H100 80GB HBM3", serial="1652923041877",
        first_seen_at=now - timedelta(days=40), last_seen_at=now - timedelta(minutes=4),
    )  # fmt: skip
    moved_at = now - timedelta(days=2, hours=3)
    GpuSeat.objects.create(
        record=record, node=there, index=3, began_at=record.first_seen_at, ended_at=moved_at
    )
    GpuSeat.objects.create(record=record, node=here, index=3, began_at=moved_at)
    Gpu.objects.filter(node=here, index=3).update(uuid=MOVED)
    FactChange.objects.create(
        node=here, key="driver_version", before="570.133.20", after="570.172.08",
        at=now - timedelta(days=1), section="gpu-query",
    )  # fmt: skip
    told = set(Fact.objects.filter(key="driver_version").values_list("node_id", flat=True))
    Fact.objects.bulk_create(
        Fact(
            node=node, key="driver_version", section="gpu-query", observed_at=now - timedelta(minutes=4),
            value="575.57.08" if node.name == "gpu033" else "570.172.08",
            expires_at=now + timedelta(days=1),
        )
        for node in Node.objects.exclude(pk__in=told).exclude(host__name="gpu045")
    )  # fmt: skip


def _imports() -> None:
    """Read the fleet's own file with a few rows changed, on a fleet that missed one node before."""
    now = inventory_now()
    nodes = [dict(row) for row in now.nodes]
    by_name = {row["name"]: row for row in nodes}
    by_name["gpu021"]["rack"] = "R02"
    by_name["gpu033"]["user"] = "ops"
    gone = {"gpu016", "gpu039"}
    free = {**by_name["gpu048"], "host_key": "", "leaf": 6, "rack": "R12"}
    nodes = [row for row in nodes if row["name"] not in gone] + [
        {**free, "name": "gpu049", "address": "127.0.13.49"},
        {**free, "name": "gpu050", "address": "127.0.13.50"},
        {**free, "name": "gpu051", "address": "127.0.13.300"},
        {**free, "name": "gpu052", "address": by_name["gpu001"]["address"]},
    ]
    Node.objects.update(origin="real")  # a lab's nodes are changed by nobody
    dana = make_person("dana")
    words = {"actor": make_actor("dana"), "user": dana}
    whole = [row for row in now.nodes if row["name"] != "gpu039"]
    first = import_read(
        text=write_yaml(Inventory(whole)), file_name="h100-prod.yaml", is_whole=True, **words
    )
    import_apply(found=first, digest=first.digest, removals=(), reason="nightly sync", **words)
    import_read(
        text=write_yaml(Inventory(nodes, list(now.pools), list(now.units))),
        file_name="h100-prod.yaml",
        is_whole=True,
        **words,
    )
    assert NodeMiss.objects.count() == 1
    Node.objects.update(origin="lab")  # as the other pages of the scene show them
