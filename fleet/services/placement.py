"""Brings a whole inventory in: nodes, pools, and units placed on nodes. Removes nothing and starts nothing.

What the file leaves out stays as it is. A row that contradicts is refused by name and blocks no other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from django.db import connection, transaction
from django.db.models import F, Max
from django.db.models.functions import Now

from fleet.doorbell import ring
from fleet.models import Member, Node, Pool, Replica
from fleet.rules.inventory import BadRow
from fleet.rules.inventory_file import Inventory
from fleet.rules.message import say
from fleet.rules.placement import (
    SPARE_TONE,
    TONES,
    NodeSeat,
    PoolRow,
    UnitRow,
    check_pool,
    check_unit,
    unit_problems,
)
from fleet.selectors.inventory import nodes_kept
from fleet.services.inventory import (
    ADDED,
    CHANGED,
    EQUAL,
    Change,
    Imported,
    entries_of,
    inventory_import,
)
from fleet.services.permits import permit_demand
from fleet.services.trail import Actor, trail_add_all

_LOCK_CLASS = 7406  # imports go one after the other
_MOVABLE = frozenset({Replica.State.PLANNED, Replica.State.STOPPED, Replica.State.FAILED})


class _OnlyTried(Exception):
    """Undoes what a dry run wrote."""


def fleet_import(
    inventory: Inventory, *, actor: Actor, user: Any = None, is_dry: bool = False
) -> Imported:
    """Import nodes, then pools, then units; a dry run does the same and undoes it, so that it tells the truth.

    Raises NotAllowed.
    """
    done = Imported()
    try:
        with transaction.atomic():
            _wait_for_turn()
            done.changes += inventory_import(
                inventory.nodes, origin="real", actor=actor, user=user
            ).changes
            _pools_import(inventory, actor, user, done)
            _units_import(inventory.units, actor, done)
            if is_dry:
                raise _OnlyTried
    except _OnlyTried:
        pass
    return done


def inventory_claim() -> bool:
    """Take the turn of importing until the transaction ends; False when another import has it now."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s, 0)", [_LOCK_CLASS])
        return bool(cursor.fetchone()[0])


def _wait_for_turn() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s, 0)", [_LOCK_CLASS])


def _pools_import(inventory: Inventory, actor: Actor, user: Any, done: Imported) -> None:
    permit_demand(user, "inventory.import")
    tried = Imported()
    for row in _checked(inventory.pools, check_pool, "pool", "slug", tried):
        before = Pool.objects.select_for_update().filter(slug=row.slug).first()
        if why := _pool_problem(row, before):
            tried.refuse("pool", row.slug, why)
        elif before is None:
            tried.changes.append(_pool_add(row, inventory.units))
        else:
            tried.changes.append(_pool_change(row, before))
    _tell(tried, actor, [f"pool-{name}" for name in tried.changed], done)


def _pool_problem(row: PoolRow, now: Pool | None) -> str:
    if row.is_spare and Pool.objects.filter(is_spare=True).exclude(slug=row.slug).exists():
        return say("spare: expected one spare pool, and there is one already")
    if now is None or not now.replicas.exists():
        return ""
    size = (now.unit_nodes, now.unit_gpus, now.is_spare)
    if size == (row.unit_nodes, row.unit_gpus, row.is_spare):
        return ""
    return say(
        "unit_nodes, unit_gpus: the pool has units of %(nodes)s nodes and %(gpus)s GPU; "
        "make another pool for units of another size",
        nodes=now.unit_nodes,
        gpus=now.unit_gpus,
    )


def _pool_add(row: PoolRow, units: Iterable[Mapping[str, Any]]) -> Change:
    count = Pool.objects.count()
    declared = sum(1 for unit in units if unit.get("pool") == row.slug)
    last = Pool.objects.aggregate(last=Max("position"))["last"]
    after = {
        "name": row.name,
        "tone": row.tone or (SPARE_TONE if row.is_spare else TONES[count % len(TONES)]),
        "shape": row.shape,
        "unit_nodes": row.unit_nodes,
        "unit_gpus": row.unit_gpus,
        "is_spare": row.is_spare,
        "spare_floor": row.spare_floor,
        "promised_units": declared if row.promised_units is None else row.promised_units,
    }
    Pool.objects.create(slug=row.slug, position=0 if last is None else last + 1, **after)
    return Change("pool", row.slug, ADDED, after=after)


def _pool_change(row: PoolRow, now: Pool) -> Change:
    wanted = {
        "name": row.name,
        "shape": row.shape,
        "unit_nodes": row.unit_nodes,
        "unit_gpus": row.unit_gpus,
        "is_spare": row.is_spare,
        "spare_floor": row.spare_floor,
    }
    wanted |= {
        name: value
        for name, value in (("tone", row.tone), ("promised_units", row.promised_units))
        if value is not None
    }
    after = {name: value for name, value in wanted.items() if getattr(now, name) != value}
    before = {name: getattr(now, name) for name in after}
    if after:
        Pool.objects.filter(pk=now.pk).update(version=F("version") + 1, **after)
    return Change("pool", row.slug, CHANGED if after else EQUAL, before, after)


def _units_import(rows: Iterable[Mapping[str, Any]], actor: Actor, done: Imported) -> None:
    tried = Imported()
    units = _checked(rows, check_unit, "replica", "name", tried)
    nodes = _nodes_locked(units)
    replicas = {
        replica.name: replica
        for replica in Replica.objects.select_for_update(of=("self",))
        .select_related("pool")
        .filter(name__in=[unit.name for unit in units])
        .order_by("pk")
    }
    seats, now = _seats(nodes), _members(replicas)
    open_about = nodes_kept([node.pk for node in nodes.values()])
    kept = {name: open_about[node.pk] for name, node in nodes.items() if node.pk in open_about}
    stuck = {
        unit.name: why
        for unit in units
        if (why := _stuck(unit, replicas.get(unit.name), now.get(unit.name, ()), kept))
    }
    problems = unit_problems(units, _pool_rows(), seats, stuck)
    moves = []
    for unit in units:
        if why := problems.get(unit.name, ""):
            tried.refuse("replica", unit.name, why)
        elif unit.name in replicas and now[unit.name] == unit.nodes:
            tried.changes.append(Change("replica", unit.name, EQUAL))
        else:
            moves.append(unit)
            tried.changes.append(_told(unit, now.get(unit.name)))
    _place(moves, replicas, nodes)
    _tell(tried, actor, [f"replica-{name}" for name in tried.changed], done)


def _stuck(
    unit: UnitRow,
    replica: Replica | None,
    now: tuple[str, ...],
    kept: Mapping[str, Sequence[str]],
) -> str:
    """Say why a unit cannot become what the file says; empty when it can. `kept`: node -> what is open about it."""
    if now != unit.nodes and (held := [name for name in (*now, *unit.nodes) if name in kept]):
        return say(
            "nodes: %(node)s is held by %(who)s; it moves once that is resolved",
            node=held[0],
            who=", ".join(kept[held[0]]),
        )
    if replica is None:
        return ""
    if replica.pool.slug != unit.pool:
        return say(
            "pool: it is a unit of %(pool)s; a unit of another pool needs another name",
            pool=replica.pool.slug,
        )
    if now == unit.nodes:
        return ""
    is_reserved = replica.members.filter(is_reserved=True, released_at=None).exists()
    if is_reserved or replica.state not in _MOVABLE:
        return say(
            "nodes: it is %(state)s on %(nodes)s; stop it before its nodes change",
            state=str(replica.state),
            nodes=", ".join(now),
        )
    return ""


def _told(unit: UnitRow, now: tuple[str, ...] | None) -> Change:
    after = {"pool": unit.pool, "nodes": list(unit.nodes)}
    if now is None:
        return Change("replica", unit.name, ADDED, after=after)
    return Change("replica", unit.name, CHANGED, {"nodes": list(now)}, {"nodes": list(unit.nodes)})


def _place(units: list[UnitRow], replicas: dict[str, Replica], nodes: dict[str, Node]) -> None:
    """Free the nodes of every unit that changes, then seat them anew: nodes may go round between units."""
    pools = {pool.slug: pool for pool in Pool.objects.all()}
    changed = [replicas[unit.name].pk for unit in units if unit.name in replicas]
    Member.objects.filter(replica__in=changed, released_at=None).update(released_at=Now())
    Replica.objects.filter(pk__in=changed).update(version=F("version") + 1)
    for unit in units:
        replica = replicas.get(unit.name) or Replica.objects.create(
            name=unit.name, pool=pools[unit.pool], explanation=say("Planned; never launched.")
        )
        Member.objects.bulk_create(
            Member(replica=replica, node=nodes[name], position=position)
            for position, name in enumerate(unit.nodes)
        )
    Node.objects.filter(host__name__in=[name for unit in units for name in unit.nodes]).update(
        version=F("version") + 1
    )


def _nodes_locked(units: list[UnitRow]) -> dict[str, Node]:
    names = {name for unit in units for name in unit.nodes}
    mine = Member.objects.filter(replica__name__in=[unit.name for unit in units], released_at=None)
    wanted = Node.objects.filter(host__name__in=names) | Node.objects.filter(
        pk__in=mine.values("node_id")
    )
    rows = Node.objects.select_for_update(of=("self",)).filter(pk__in=wanted.values("pk"))
    return {node.name: node for node in rows.order_by("pk")}


def _seats(nodes: dict[str, Node]) -> dict[str, NodeSeat]:
    live = Member.objects.filter(node__in=nodes.values(), released_at=None)
    units = dict(live.values_list("node_id", "replica__name"))
    return {
        name: NodeSeat(node.gpu_count, units.get(node.pk, ""), node.state == Node.State.RETIRED)
        for name, node in nodes.items()
    }


def _members(replicas: dict[str, Replica]) -> dict[str, tuple[str, ...]]:
    rows = Member.objects.filter(replica__in=replicas.values(), released_at=None)
    found: dict[str, tuple[str, ...]] = dict.fromkeys(replicas, ())
    for unit, node in rows.order_by("position").values_list("replica__name", "node__host__name"):
        found[unit] += (node,)
    return found


def _pool_rows() -> dict[str, PoolRow]:
    return {
        pool.slug: PoolRow(
            pool.slug, pool.name, pool.shape, pool.unit_nodes, pool.unit_gpus, pool.is_spare,
            pool.spare_floor, pool.tone, pool.promised_units,
        )
        for pool in Pool.objects.all()
    }  # fmt: skip


def _checked(
    rows: Iterable[Mapping[str, Any]],
    check: Callable[[Mapping[str, Any]], Any],
    kind: str,
    key: str,
    tried: Imported,
) -> list[Any]:
    """Return the rows that are well formed, each name once; the others are refused."""
    good: dict[str, Any] = {}
    for raw in rows:
        try:
            row = check(raw)
            if getattr(row, key) in good:
                raise BadRow(
                    say("%(field)s: expected once in a file; an earlier row has it", field=key)
                )
            good[getattr(row, key)] = row
            tried.rows[kind, getattr(row, key)] = raw
        except BadRow as error:
            tried.refuse(kind, raw.get(key), error.sentence, raw)
    return list(good.values())


def _tell(tried: Imported, actor: Actor, topics: list[str], done: Imported) -> None:
    trail_add_all(entries_of(tried, actor))
    if tried.added or tried.changed:
        ring("fleet", *topics)
    done.changes += tried.changes
