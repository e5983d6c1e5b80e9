"""Brings nodes into the fleet from rows of an inventory. Contacts no node and moves no unit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import F

from fleet.doorbell import ring
from fleet.execution.models import Host
from fleet.models import Leaf, Member, Node, Rack
from fleet.rules.inventory import BadRow, NodeRow, check_row
from fleet.rules.inventory_rows import line_of
from fleet.rules.message import say
from fleet.selectors.inventory import nodes_kept
from fleet.services.permits import permit_demand
from fleet.services.trail import Actor, trail_add_all, trail_entry

ADDED, CHANGED, EQUAL, REFUSED = "added", "changed", "equal", "refused"
HELD = "held"  # the file says something else, and an open incident keeps it as it is


@dataclass(frozen=True)
class Change:
    """What an import did to one node, pool or unit, or why it did nothing."""

    kind: str
    name: str
    outcome: str
    before: dict[str, Any] = field(default_factory=dict)
    after: dict[str, Any] = field(default_factory=dict)
    why: str = ""
    line: int = 0  # of the file; 0 when nobody counted


@dataclass
class Imported:
    """What an import did, in the order of the file."""

    changes: list[Change] = field(default_factory=list)
    rows: dict[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)  # as written

    def names(self, outcome: str) -> list[str]:
        """Return the names that met with one outcome."""
        return [change.name for change in self.changes if change.outcome == outcome]

    @property
    def added(self) -> list[str]:
        """Names that are new."""
        return self.names(ADDED)

    @property
    def changed(self) -> list[str]:
        """Names of which the file says something else than was known."""
        return self.names(CHANGED)

    @property
    def equal(self) -> list[str]:
        """Names of which the file says what was known."""
        return self.names(EQUAL)

    @property
    def refused(self) -> list[tuple[str, str]]:
        """Names that were refused, and why: a stored sentence."""
        return [(one.name, one.why) for one in self.changes if one.outcome == REFUSED]

    def refuse(
        self, kind: str, name: object, why: str, row: Mapping[str, Any] | None = None
    ) -> None:
        """Note a row that changes nothing, with its line; `row` is it as written, else the first of this name."""
        row = self.rows.get((kind, str(name))) if row is None else row
        self.changes.append(
            Change(kind, str(name or "")[:64], REFUSED, why=why, line=line_of(row, why))
        )


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
    done, good, written = Imported(), [], []
    own = [(settings.HOST, settings.PORT)]
    for raw in rows:
        try:
            if problem := getattr(raw, "problem", ""):
                raise BadRow(problem)
            good.append(check_row(raw, cidrs=settings.NODE_CIDRS, own=own))
            written.append(raw)
        except BadRow as error:
            done.refuse("node", raw.get("name"), error.sentence, raw)
    known = _locked([row.name for row in good])
    kept = {} if repin else nodes_kept([node.pk for node in known.values()])
    contradicts, seats = _contradictions(good), _seats(known)
    new: list[NodeRow] = []
    for number, row in enumerate(good):
        node = known.get(row.name)
        why = contradicts.get(number, "")
        if not why and node is not None and not repin:
            why = _served(node, seats.get(node.pk), row)
        if not why and node is None:
            new.append(row)
            after = {"address": row.address, "origin": origin, "rack": row.rack}
            done.changes.append(Change("node", row.name, ADDED, after=after))
        elif not why and node is not None:
            keepers = kept.get(node.pk, [])
            why = _apply(row, node, origin=origin, repin=repin, keepers=keepers, done=done)
        if why:
            done.refuse("node", row.name, why, written[number])
    _add(new, origin)
    trail_add_all(entries_of(done, actor))
    if done.added or done.changed:
        ring("fleet", *(f"node-{name}" for name in done.changed))
    return done


def entries_of(done: Imported, actor: Actor) -> list[Any]:
    """Build the trail's rows of what an import added and changed."""
    verbs = {ADDED: "add", CHANGED: "change"}
    return [
        trail_entry(
            actor=actor,
            verb=f"{change.kind}.{verbs[change.outcome]}",
            object_kind=change.kind,
            object_id=change.name,
            before=change.before or None,
            after=change.after,
        )
        for change in done.changes
        if change.outcome in verbs
    ]


def _locked(names: list[str]) -> dict[str, Node]:
    """Lock the nodes that are known, then their hosts, each in the order of all writers."""
    nodes = Node.objects.select_for_update(of=("self",)).filter(host__name__in=names)
    found = {node.name: node for node in nodes.order_by("pk")}
    hosts = Host.objects.select_for_update().filter(pk__in=[node.pk for node in found.values()])
    for host in hosts.order_by("pk"):
        found[host.name].host = host
    return found


def _contradictions(rows: list[NodeRow]) -> dict[int, str]:
    """Return position of a row -> how it contradicts an earlier row, or a node outside the file."""
    told = {row.name for row in rows}
    taken = {
        (address, port): name
        for name, address, port in Host.objects.filter(address__in={row.address for row in rows})
        .exclude(name__in=told)
        .exclude(node__state=Node.State.RETIRED)
        .values_list("name", "address", "port")
    }
    others = set(Host.objects.filter(name__in=told, node=None).values_list("name", flat=True))
    names: set[str] = set()
    leaves: dict[str, int] = {}
    problems = {}
    for number, row in enumerate(rows):
        owner = taken.setdefault((row.address, row.port), row.name)
        leaf = leaves.setdefault(row.rack, row.leaf)
        if row.name in others:
            problems[number] = say("name: a host that is no node has it; a node needs another name")
        elif row.name in names:
            problems[number] = say("name: expected once in a file; an earlier row has it")
        elif owner != row.name:
            problems[number] = say(
                "address: %(address)s is %(owner)s; a machine is one node",
                address=f"{row.address}:{row.port}",
                owner=owner,
            )
        elif leaf != row.leaf:
            problems[number] = say(
                "leaf: rack %(rack)s hangs on leaf %(leaf)s in an earlier row",
                rack=row.rack,
                leaf=leaf,
            )
        names.add(row.name)
    return problems


def _seats(known: Mapping[str, Node]) -> dict[int, Member]:
    """Return node key -> its seat in a unit, for those that have one."""
    rows = Member.objects.filter(node__in=list(known.values()), released_at=None)
    return {seat.node_id: seat for seat in rows.select_related("replica")}


def _served(node: Node, seat: Member | None, row: NodeRow) -> str:
    """Say why a node cannot change while it is in a unit, or while a launch runs on it; empty when it can."""
    if seat and node.gpu_count != row.gpus:
        return say(
            "gpus: %(unit)s counts on %(wanted)s, found %(found)s; give it other nodes first",
            unit=str(seat.replica),
            wanted=node.gpu_count,
            found=row.gpus,
        )
    now = (node.host.address, node.host.port, node.host.user)
    if seat and seat.is_reserved and now != (row.address, row.port, row.user):
        return say(
            "address, ssh_port, user: a launch of %(unit)s has the node; stop it first",
            unit=str(seat.replica),
        )
    return ""


def _apply(
    row: NodeRow,
    node: Node,
    *,
    origin: str,
    repin: bool,
    keepers: Sequence[str],
    done: Imported,
) -> str:
    """Change one node that is known, unless `keepers` are open about it; return why it is refused, else empty."""
    if node.state == Node.State.RETIRED and not repin:
        return say(
            "name: a node of this name was retired, which is for good; name the machine anew"
        )
    wanted = _wanted(node, row, repin)
    if node.origin != origin and any(wanted):
        return say(
            "name: a %(there)s node has it already; a %(here)s node needs another name",
            there=node.origin,
            here=origin,
        )
    if keepers and any(wanted):
        before, after = _told(node, *wanted)
        who = say("held by %(who)s, left as it is", who=", ".join(keepers))
        done.changes.append(Change("node", row.name, HELD, before, after, why=who))
        return ""
    before, after = _change(node, row, *wanted)
    done.changes.append(Change("node", row.name, CHANGED if after else EQUAL, before, after))
    return ""


def _add(rows: Sequence[NodeRow], origin: str) -> None:
    """Add new nodes; the number of statements does not grow with them."""
    if not rows:
        return
    racks = _racks(rows)
    hosts = Host.objects.bulk_create(
        Host(
            name=row.name,
            address=row.address,
            port=row.port,
            user=row.user,
            host_key=row.host_key,
            key_state=Host.Key.PINNED if row.host_key else Host.Key.UNSET,
        )
        for row in rows
    )
    Node.objects.bulk_create(
        Node(
            host=host,
            rack=racks[row.rack],
            node_class=row.node_class,
            model_root=row.model_root,
            gpu_count=row.gpus,
            origin=origin,
        )
        for row, host in zip(rows, hosts, strict=True)
    )


Fields = dict[str, Any]


def _wanted(node: Node, row: NodeRow, repin: bool) -> tuple[Fields, Fields, Fields]:
    """Return what the row says otherwise: fields of the host, of the node, and its place."""
    host, rack = node.host, node.rack
    wanted_host = {"address": row.address, "port": row.port, "user": row.user}
    is_free = host.key_state == Host.Key.UNSET or (repin and host.key_state == Host.Key.PINNED)
    if row.host_key and is_free:
        wanted_host |= {"host_key": row.host_key, "key_state": Host.Key.PINNED}
    wanted_node = {
        "node_class": row.node_class,
        "model_root": row.model_root,
        "gpu_count": row.gpus,
    }
    now = {"rack": rack.name, "leaf": rack.leaf.number}
    place = {"rack": row.rack, "leaf": row.leaf}
    return (
        _differing(host, wanted_host),
        _differing(node, wanted_node),
        {name: value for name, value in place.items() if now[name] != value},
    )


def _change(
    node: Node, row: NodeRow, host_now: Fields, node_now: Fields, place: Fields
) -> tuple[Fields, Fields]:
    host = node.host
    before, after = _told(node, host_now, node_now, place)
    if host_now:
        Host.objects.filter(pk=host.pk).update(**host_now)
    if place:
        node_now = {**node_now, "rack": _racks([row])[row.rack]}
    if after:
        Node.objects.filter(pk=host.pk).update(version=F("version") + 1, **node_now)
    return before, after


def _told(node: Node, host_now: Fields, node_now: Fields, place: Fields) -> tuple[Fields, Fields]:
    """Return the fields before and after as words, in the order of a page."""
    was = {"rack": node.rack.name, "leaf": node.rack.leaf.number}
    before = {name: str(getattr(node.host, name)) for name in host_now}
    before |= {name: str(was[name]) for name in place}
    before |= {name: str(getattr(node, name)) for name in node_now}
    return before, {name: str(value) for name, value in {**host_now, **place, **node_now}.items()}


def _differing(row: Any, wanted: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in wanted.items() if getattr(row, name) != value}


def _racks(rows: Sequence[NodeRow]) -> dict[str, Rack]:
    """Return the racks of these rows by name, made where they are new and hung on the leaf that the rows say."""
    wanted = {row.rack: row.leaf for row in rows}
    Leaf.objects.bulk_create(
        [Leaf(number=number) for number in dict.fromkeys(wanted.values())], ignore_conflicts=True
    )
    leaves = {leaf.number: leaf for leaf in Leaf.objects.filter(number__in=wanted.values())}
    Rack.objects.bulk_create(
        [Rack(name=name, leaf=leaves[leaf]) for name, leaf in wanted.items()],
        ignore_conflicts=True,
    )
    racks = {rack.name: rack for rack in Rack.objects.filter(name__in=wanted)}
    moved = [rack for name, rack in racks.items() if rack.leaf_id != leaves[wanted[name]].pk]
    for rack in moved:
        rack.leaf = leaves[wanted[rack.name]]
    Rack.objects.bulk_update(moved, ["leaf"])
    return racks
