"""Brings nodes into the fleet from rows of an inventory. Contacts no node and moves no unit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import F

from fleet.doorbell import ring
from fleet.execution.models import Host
from fleet.models import Leaf, Node, Rack
from fleet.rules.inventory import BadRow, NodeRow, check_row
from fleet.services.permits import permit_demand
from fleet.services.trail import Actor, trail_add_all, trail_entry

ROWS_MAX = 5000


@dataclass
class Imported:
    """What an import did: names by outcome, and why rows were refused."""

    added: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    equal: list[str] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)


@transaction.atomic
def inventory_import(
    rows: Iterable[Mapping[str, Any]],
    *,
    origin: str,
    actor: Actor,
    user: Any = None,
    repin: bool = False,
) -> Imported:
    """Add new nodes and change known ones; a bad row is refused and does not block the others.

    A key of a new row is pinned: the inventory vouches for it. A pinned key is never replaced, but for
    the rehearsal lab's own list (`repin`), whose keys this machine made.
    """
    permit_demand(user, "inventory.import")
    done, entries = Imported(), []
    own = [(settings.HOST, settings.PORT)]
    for raw in list(rows)[:ROWS_MAX]:
        try:
            row = check_row(raw, cidrs=settings.NODE_CIDRS, own=own)
        except BadRow as error:
            done.refused.append((str(raw.get("name"))[:64], str(error)))
            continue
        if entry := _apply(row, origin=origin, actor=actor, repin=repin, done=done):
            entries.append(entry)
    trail_add_all(entries)
    if entries:
        ring("fleet", *(f"node-{name}" for name in done.changed))
    return done


def _apply(row: NodeRow, *, origin: str, actor: Actor, repin: bool, done: Imported) -> Any:
    host = Host.objects.select_for_update().filter(name=row.name).first()
    if host is None:
        _add(row, origin)
        done.added.append(row.name)
        return trail_entry(
            actor=actor,
            verb="node.add",
            object_kind="node",
            object_id=row.name,
            after={"address": row.address, "origin": origin, "rack": row.rack},
        )
    before, after = _change(host, row, repin)
    if not after:
        done.equal.append(row.name)
        return None
    done.changed.append(row.name)
    return trail_entry(
        actor=actor,
        verb="node.change",
        object_kind="node",
        object_id=row.name,
        before=before,
        after=after,
    )


def _add(row: NodeRow, origin: str) -> None:
    host = Host.objects.create(
        name=row.name,
        address=row.address,
        port=row.port,
        user=row.user,
        host_key=row.host_key,
        key_state=Host.Key.PINNED if row.host_key else Host.Key.UNSET,
    )
    Node.objects.create(
        host=host,
        rack=_rack(row),
        node_class=row.node_class,
        model_root=row.model_root,
        origin=origin,
    )


def _change(host: Host, row: NodeRow, repin: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    node = Node.objects.get(pk=host.pk)
    wanted_host = {"address": row.address, "port": row.port, "user": row.user}
    is_free = host.key_state == Host.Key.UNSET or (repin and host.key_state == Host.Key.PINNED)
    if row.host_key and is_free:
        wanted_host |= {"host_key": row.host_key, "key_state": Host.Key.PINNED}
    wanted_node = {
        "rack": _rack(row),
        "node_class": row.node_class,
        "model_root": row.model_root,
    }
    host_now = _differing(host, wanted_host)
    node_now = _differing(node, wanted_node)
    before = {name: str(getattr(host, name)) for name in host_now}
    before |= {name: str(getattr(node, name)) for name in node_now}
    if host_now:
        Host.objects.filter(pk=host.pk).update(**host_now)
    if host_now or node_now:
        Node.objects.filter(pk=host.pk).update(version=F("version") + 1, **node_now)
    return before, {name: str(value) for name, value in {**host_now, **node_now}.items()}


def _differing(row: Any, wanted: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in wanted.items() if getattr(row, name) != value}


def _rack(row: NodeRow) -> Rack:
    leaf, _ = Leaf.objects.get_or_create(number=row.leaf)
    rack, is_new = Rack.objects.get_or_create(name=row.rack, defaults={"leaf": leaf})
    if not is_new and rack.leaf_id != leaf.pk:
        Rack.objects.filter(pk=rack.pk).update(leaf=leaf)
    return rack
