"""An import of the scene that waits for its apply: rows of every kind, two of them refused, two nodes missing."""

from __future__ import annotations

from fleet.models import Node, NodeMiss
from fleet.rules.inventory_export import write_yaml
from fleet.rules.inventory_file import Inventory
from fleet.selectors.inventory import inventory_now
from fleet.services.imports import import_apply, import_read
from tests.factories import make_actor, make_person


def draw() -> None:
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
