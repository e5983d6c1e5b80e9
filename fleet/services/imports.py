"""Imports by people: a dry run that is kept, then its apply, which refuses a fleet that changed meanwhile.

What a row may change is decided by services/inventory.py and services/placement.py. Contacts no node.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now
from django.utils.translation import gettext as _

from fleet.doorbell import ring
from fleet.models import InventoryImport, Node, NodeMiss
from fleet.rules.inventory import BadRow
from fleet.rules.inventory_file import Inventory, read_inventory
from fleet.rules.message import said, say
from fleet.rules.missing import PROPOSED, judge_missing
from fleet.rules.refusals import Conflict, NeedsReason, Refused
from fleet.selectors.inventory import digest_of, fleet_digest, missing_nodes
from fleet.services.inventory import ADDED, CHANGED, EQUAL, HELD, REFUSED, inventory_import
from fleet.services.node_moves import NodeMove, nodes_move
from fleet.services.permits import permit_demand
from fleet.services.placement import fleet_import, inventory_claim
from fleet.services.trail import Actor, trail_add, trail_add_all, trail_entry


@transaction.atomic
def import_read(
    *, text: str, file_name: str, is_whole: bool, actor: Actor, user: Any = None
) -> InventoryImport:
    """Try a file on the fleet as it is and keep what it would do; nothing of the fleet is written.

    Raises Refused for a text that is no inventory, NotAllowed.
    """
    inventory = _inventory(text)
    done = InventoryImport(
        file_name=(file_name.strip() or "inventory")[:120],
        text=text,
        text_sha256=hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest(),
        is_whole=is_whole and bool(inventory.nodes),
        read_by=user,
    )
    _try(done, inventory, actor, user)
    done.save()
    _tell(done, "import.read", actor)
    return done


@transaction.atomic
def import_again(*, found: InventoryImport, actor: Actor, user: Any = None) -> InventoryImport:
    """Try the same file on the fleet as it is now. Raises Conflict when the import is over."""
    row = _locked(found)
    _try(row, _inventory(row.text), actor, user)
    row.read_at = Now()
    row.save()
    _tell(row, "import.read", actor)
    return row


@transaction.atomic
def import_discard(*, found: InventoryImport, actor: Actor, user: Any = None) -> None:
    """Close a dry run without writing. Raises Conflict when it is over already."""
    row = _locked(found)
    _end(row, InventoryImport.State.DISCARDED, user, "")
    _tell(row, "import.discard", actor)


@transaction.atomic
def import_apply(
    *,
    found: InventoryImport,
    digest: str,
    removals: Collection[str],
    reason: str,
    actor: Actor,
    user: Any = None,
) -> InventoryImport:
    """Write what the dry run showed, and note which nodes the file leaves out; `removals` are retired.

    Raises Conflict when another import is being applied, when this one is over, or when the fleet or the page is no
    longer what the dry run showed; NeedsReason; Refused for a removal that was not offered; NotAllowed.
    """
    permit_demand(user, "inventory.import")
    if not reason.strip():
        raise NeedsReason(_("An import needs a reason. Write why, then send again."))
    if not inventory_claim():
        raise Conflict(
            _("Another import is being applied now. Nothing was written; send again in a moment.")
        )
    row = _locked(found)
    _demand_same(row, digest)
    inventory = _inventory(row.text)
    done = fleet_import(inventory, actor=actor, user=user)
    if _changes(done.changes) != row.changes:
        raise _moved_on()
    removed = _miss(row, inventory, set(removals), actor)
    _end(row, InventoryImport.State.APPLIED, user, reason)
    _tell(row, "import.apply", actor, reason, {"removed": removed})
    ring("fleet")
    return row


@transaction.atomic
def node_add(*, row: Mapping[str, Any], actor: Actor, user: Any = None) -> Node:
    """Add one node by its fields; an empty one is left out.

    Raises Refused when a field is wrong or the name is known, NotAllowed.
    """
    row = {field: value for field, value in row.items() if str(value).strip()}
    name = str(row.get("name") or "")
    if Node.objects.filter(host__name=name).exists():
        raise Refused(
            _("name: a node is called %(name)s already; change it by an import.") % {"name": name}
        )
    done = inventory_import([row], origin="real", actor=actor, user=user)
    for _name, why in done.refused:
        raise Refused(said(why, _))
    return Node.objects.get(host__name=name)


def _inventory(text: str) -> Inventory:
    if "\0" in text:
        raise Refused(_("The file holds a NUL character, which no inventory has. Save it as text."))
    try:
        return read_inventory(text, numbered=True)
    except BadRow as error:
        raise Refused(
            _("The file is no inventory: %(why)s. Mend it and read it again.")
            % {"why": said(error.sentence, _)}
        ) from None


def _try(row: InventoryImport, inventory: Inventory, actor: Actor, user: Any) -> None:
    """Fill in what the file would do now, and the digests that an apply compares."""
    row.fleet_digest = fleet_digest()
    done = fleet_import(inventory, actor=actor, user=user, is_dry=True)
    row.changes = _changes(done.changes)
    row.missing = _missing(inventory, row.is_whole)
    row.digest = digest_of([row.text_sha256, row.fleet_digest, row.changes, row.missing])


def _changes(changes: Sequence[Any]) -> list[dict[str, Any]]:
    """Return changes as they are stored; what JSON cannot tell apart is made equal here."""
    return [asdict(change) for change in changes]


def _missing(inventory: Inventory, is_whole: bool) -> list[dict[str, Any]]:
    if not is_whole:
        return []
    rows = missing_nodes({str(row.get("name")) for row in inventory.nodes})
    found = []
    for node in rows:
        judged = judge_missing(
            **{name: node[name] for name in ("misses", "unit", "holders", "incidents", "rules")}
        )
        found.append({**node, "outcome": judged.outcome, "why": judged.explanation})
    return found


def _demand_same(row: InventoryImport, digest: str) -> None:
    if digest != row.digest:
        raise Conflict(
            _("This page is older than the dry run. Nothing was written; reload it and look again.")
        )
    if fleet_digest() != row.fleet_digest:
        raise _moved_on()


def _moved_on() -> Conflict:
    return Conflict(
        _("The fleet changed after this dry run. Nothing was written; dry-run the file again.")
    )


def _miss(
    row: InventoryImport, inventory: Inventory, removals: set[str], actor: Actor
) -> list[str]:
    """Count the nodes that the file leaves out, forget those it names again, retire those that were chosen."""
    if not row.is_whole:
        if removals:
            raise Refused(_("The file is only a part of the fleet; it removes no node."))
        return []
    gone = _missing(inventory, is_whole=True)
    if [(one["name"], one["outcome"]) for one in gone] != [
        (one["name"], one["outcome"]) for one in row.missing
    ]:
        raise _moved_on()
    offered = {one["name"] for one in gone if one["outcome"] == PROPOSED}
    if strange := sorted(removals - offered):
        raise Refused(
            _("%(node)s is not offered for removal. Reload the page.") % {"node": strange[0]}
        )
    nodes = {
        node.name: node
        for node in Node.objects.select_for_update(of=("self",))
        .filter(host__name__in=[one["name"] for one in gone])
        .order_by("pk")
    }
    NodeMiss.objects.exclude(node__in=nodes.values()).delete()
    _count(row, [nodes[one["name"]] for one in gone if one["name"] not in removals])
    _retire(row, [nodes[name] for name in sorted(removals)], actor)
    _tell_missing(gone, removals, actor)
    return sorted(removals)


def _count(row: InventoryImport, nodes: Sequence[Node]) -> None:
    known = NodeMiss.objects.filter(node__in=nodes)
    old = set(known.values_list("node_id", flat=True))
    known.update(count=F("count") + 1, last_import=row, last_at=Now())
    NodeMiss.objects.bulk_create(
        NodeMiss(node=node, first_import=row, last_import=row)
        for node in nodes
        if node.pk not in old
    )


def _retire(row: InventoryImport, nodes: Sequence[Node], actor: Actor) -> None:
    why = say("Taken out of the fleet: import %(id)s no longer names it.", id=row.public_id)
    nodes_move([NodeMove(node, str(Node.State.RETIRED), why) for node in nodes], actor=actor)
    NodeMiss.objects.filter(node__in=nodes).delete()
    ring(*(f"node-{node.name}" for node in nodes))


def _tell_missing(gone: list[dict[str, Any]], removals: set[str], actor: Actor) -> None:
    trail_add_all(
        trail_entry(
            actor=actor,
            verb="node.miss",
            object_kind="node",
            object_id=one["name"],
            after={"misses": one["misses"] + 1},
        )
        for one in gone
        if one["name"] not in removals
    )


def _locked(found: InventoryImport) -> InventoryImport:
    row = InventoryImport.objects.select_for_update().get(pk=found.pk)
    if row.state != InventoryImport.State.DRY:
        raise Conflict(
            _("%(name)s is over: %(state)s. Read the file again for a new dry run.")
            % {"name": row.public_id, "state": row.get_state_display()}
        )
    return row


def _end(row: InventoryImport, state: Any, user: Any, reason: str) -> None:
    InventoryImport.objects.filter(pk=row.pk).update(
        state=state, ended_by=user, ended_at=Now(), reason=reason.strip()
    )
    row.refresh_from_db()


def _tell(
    row: InventoryImport,
    verb: str,
    actor: Actor,
    reason: str = "",
    also: Mapping[str, Any] | None = None,
) -> None:
    outcomes = [change["outcome"] for change in row.changes]
    counts = {name: outcomes.count(name) for name in (ADDED, CHANGED, EQUAL, HELD, REFUSED)}
    trail_add(
        actor=actor,
        verb=verb,
        object_kind="import",
        object_id=row.public_id,
        reason=reason,
        after={
            "file": row.file_name,
            "sha256": row.text_sha256,
            **counts,
            "missing": len(row.missing),
            **(also or {}),
        },
    )
    ring("imports", row.topic)
