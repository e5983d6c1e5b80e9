"""The fleet as an inventory file says it, the digest of that, and the imports that were read."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from django.contrib.postgres.aggregates import ArrayAgg
from django.db.models import F, Q

from fleet.models import Hold, InventoryImport, Member, Node, NodeMiss, Pool
from fleet.rules.inventory_file import Inventory
from fleet.selectors.units import units_present

IMPORTS_LISTED = 50
_PERSON = "user:"  # what the owner of a person's hold begins with


Keeper = Callable[[Collection[int]], Mapping[int, Sequence[str]]]
_KEEPERS: list[Keeper] = []


def keeper_add(find: Keeper) -> None:
    """Register who tells what an import must leave nodes as they are for (keys -> names of incidents): an upper app."""
    _KEEPERS.append(find)


def nodes_kept(node_ids: Collection[int]) -> dict[int, list[str]]:
    """Return node key -> the names of what is open about it, for those of which something is."""
    found: dict[int, list[str]] = defaultdict(list)
    for find in _KEEPERS:
        for pk, names in find(node_ids).items():
            found[pk] += [name for name in names if name not in found[pk]]
    return dict(found)


def inventory_now() -> Inventory:
    """Return nodes, pools and units as rows of a file, each in the order of its name. Three queries."""
    return Inventory(
        nodes=[_node(node) for node in _nodes_in_place()],
        pools=[_pool(pool) for pool in Pool.objects.order_by("position", "slug")],
        units=_units(),
    )


def fleet_digest() -> str:
    """Return a SHA-256 of everything that an import compares itself with; probes and launches do not change it."""
    now = inventory_now()
    parts = [
        [dict(row) for row in now.nodes],
        [dict(row) for row in now.pools],
        [dict(row) for row in now.units],
        list(Node.objects.filter(state=Node.State.RETIRED).values_list("pk", flat=True)),
        list(NodeMiss.objects.order_by("node").values_list("node", "count")),
    ]
    return digest_of(parts)


def digest_of(parts: Any) -> str:
    """Return the SHA-256 of plain values, whatever the order of their keys."""
    text = json.dumps(parts, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def missing_nodes(names: set[str]) -> list[dict[str, Any]]:
    """Return the real nodes in the fleet that these names leave out, with what keeps each. Three queries, and those of
    who tells of incidents.
    """
    gone = [
        node
        for node in _nodes_in_place().filter(origin="real").select_related("miss__first_import")
        if node.name not in names
    ]
    units = dict(
        Member.objects.filter(node__in=gone, released_at=None).values_list(
            "node_id", "replica__name"
        )
    )
    holders = dict(
        Hold.objects.filter(node__in=gone, lifted_at=None)
        .order_by()
        .values("node_id")
        .annotate(who=ArrayAgg("owner", distinct=True))
        .values_list("node_id", "who")
    )
    kept = nodes_kept([node.pk for node in gone]) if gone else {}
    return [
        {
            "name": node.name,
            "place": {"leaf": node.rack.leaf.number, "rack": node.rack.name},
            "misses": node.miss.count if hasattr(node, "miss") else 0,
            "unit": units.get(node.pk, ""),
            "incidents": kept.get(node.pk, []),
            "holders": [
                who.removeprefix(_PERSON)
                for who in holders.get(node.pk, [])
                if who.startswith(_PERSON)
            ],
            "rules": [who for who in holders.get(node.pk, []) if not who.startswith(_PERSON)],
        }
        for node in gone
    ]


def import_seen(pk: int) -> InventoryImport | None:
    """Return one import with the people of it, or None."""
    return InventoryImport.objects.select_related("read_by", "ended_by").filter(pk=pk).first()


def imports_listed() -> list[InventoryImport]:
    """Return the newest imports without their texts and differences."""
    rows = InventoryImport.objects.select_related("read_by", "ended_by")
    return list(rows.defer("text", "changes", "missing")[:IMPORTS_LISTED])


def _nodes_in_place() -> Any:
    return Node.objects.exclude(state=Node.State.RETIRED).order_by("host__name")


def _node(node: Node) -> Mapping[str, Any]:
    host = node.host
    return {
        "name": host.name,
        "address": host.address,
        "ssh_port": host.port,
        "user": host.user,
        "leaf": node.rack.leaf.number,
        "rack": node.rack.name,
        "node_class": node.node_class,
        "model_root": node.model_root,
        "gpus": node.gpu_count,
        "host_key": host.host_key,
    }


def _pool(pool: Pool) -> Mapping[str, Any]:
    return {
        "slug": pool.slug,
        "name": pool.name,
        "tone": pool.tone,
        "shape": pool.shape,
        "unit_nodes": pool.unit_nodes,
        "unit_gpus": pool.unit_gpus,
        "spare": pool.is_spare,
        "spare_floor": pool.spare_floor,
        "promised_units": pool.promised_units,
    }


def _units() -> list[Mapping[str, Any]]:
    """Return units with nodes; those that a rollout made for itself are no inventory."""
    rows = (
        units_present()
        .filter(is_canary=False)
        .order_by("name")
        .annotate(
            slug=F("pool__slug"),
            on=ArrayAgg(
                "members__node__host__name",
                filter=Q(members__released_at=None, members__isnull=False),
                order_by="members__position",
            ),
        )
        .values_list("name", "slug", "on")
    )
    return [{"name": name, "pool": pool, "nodes": nodes} for name, pool, nodes in rows if nodes]
