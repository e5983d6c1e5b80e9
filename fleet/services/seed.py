"""Fills an empty console with the rehearsal fleet: nodes, pools, units and the accounts. Safe to repeat.

The accounts exist only on a loopback console with its lab on; console/auth.py refuses them everywhere else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now

from fleet.execution.models import Host
from fleet.models import Member, NetMatrix, Node, Pool, Replica, RoleGrant
from fleet.rules.message import say
from fleet.rules.placement import UNIT_NAME
from fleet.rules.refusals import Conflict
from fleet.services.inventory import Imported, inventory_import
from fleet.services.net_matrix import matrix_sign, matrix_write
from fleet.services.trail import Actor, trail_add, trail_add_all, trail_entry

LAB_GROUP = "lab-accounts"
LAB_PASSWORD = "flotilla"
# Two approvers: going on after a trigger takes two signatures.
LAB_PEOPLE = {
    "ana": "operator",
    "bo": "approver",
    "chen": "viewer",
    "dana": "admin",
    "eli": "approver",
}

_POOLS: tuple[dict[str, Any], ...] = (
    {"slug": "glm51", "name": "GLM-5.1", "tone": "p51", "shape": "PP2 × TP8", "unit_nodes": 2},
    {"slug": "glm52", "name": "GLM-5.2", "tone": "p52", "shape": "PP2 × TP8", "unit_nodes": 2},
    {
        "slug": "dsv4",
        "name": "DeepSeek-V4-Flash",
        "tone": "pds",
        "shape": "DP8 + EP",
        "unit_nodes": 1,
    },
    {
        "slug": "spare",
        "name": "Spare",
        "tone": "psp",
        "shape": "",
        "unit_nodes": 1,
        "is_spare": True,
    },
)
_GPUS = 8
# Two people, as everywhere: one writes the network matrix, the other signs it.
_MATRIX_BY, _MATRIX_SIGNER = "ana", "bo"
_LAB_MATRIX = {
    "hcas": " ".join(f"mlx5_{rail}" for rail in range(_GPUS)),
    "interface": "bond0",
    "mtu": "9000",
    "gid_index": "3",
    "note": "rehearsed fabric",
}
_SPARE_FLOOR = 3  # of six (design: numbers)


@transaction.atomic
def fleet_seed(rows: Sequence[Mapping[str, Any]], *, actor: Actor) -> Imported:
    """Bring the lab's nodes, pools and units in line with its inventory; reserved units are left alone."""
    done = inventory_import(rows, origin="lab", actor=actor, repin=True)
    taken = {*done.added, *done.changed, *done.equal}
    # A row that was refused retires nothing: the node may well be there.
    named = {str(row.get("name")) for row in rows if isinstance(row, Mapping)}
    _retire_missing({name for name in named if "\0" not in name}, actor)
    _bring_back(taken, actor)
    units = _units([row for row in rows if isinstance(row, Mapping) and row.get("name") in taken])
    for name, why in _unit_problems(units):
        done.refuse("unit", name, why)
    _pools_seed(units, len(rows))
    for name, (pool, nodes) in units.items():
        _unit_seed(name, pool, nodes)
    _drop_empty(units)
    return done


@transaction.atomic
def host_seed(row: Mapping[str, Any], *, actor: Actor) -> Host:
    """Bring the lab's host that is no node in line with the lab. Raises Conflict.

    This machine made its key, so that another one is pinned anew; one flagged as changed stays blocked.
    """
    if Node.objects.filter(host__name=row["name"]).exists():
        raise Conflict(f"{row['name']} is a node already; the lab's host needs that name")
    wanted = {"address": row["address"], "port": row["ssh_port"], "user": row["user"]}
    pinned = {"host_key": row["host_key"], "key_state": Host.Key.PINNED}
    host, is_new = Host.objects.select_for_update().get_or_create(
        name=row["name"], defaults={**wanted, **pinned}
    )
    if host.key_state != Host.Key.CHANGED:
        wanted |= pinned
    before = {name: getattr(host, name) for name in wanted}
    if before != wanted:
        Host.objects.filter(pk=host.pk).update(**wanted)
        host.refresh_from_db()
    if is_new or before != wanted:
        trail_add(
            actor=actor,
            verb="host.add" if is_new else "host.change",
            object_kind="host",
            object_id=host.name,
            before=None if is_new else before,
            after=wanted,
        )
    return host


@transaction.atomic
def people_seed(*, actor: Actor) -> list[str]:
    """Create the lab's accounts that do not exist yet; returns their names."""
    group, _ = Group.objects.get_or_create(name=LAB_GROUP)
    users, made = get_user_model().objects, []
    for name, role in LAB_PEOPLE.items():
        user, is_new = users.get_or_create(username=name)
        if not is_new:
            continue
        user.set_password(LAB_PASSWORD)
        user.save()
        user.groups.add(group)
        RoleGrant.objects.create(user=user, role=role)
        made.append(name)
        trail_add(
            actor=actor,
            verb="role.grant",
            object_kind="person",
            object_id=name,
            after={"role": role, "pool": None},
        )
    return made


@transaction.atomic
def matrix_seed(*, actor: Actor) -> list[str]:
    """Write and sign the network matrix of the lab's node classes that have none; returns the classes."""
    users = {
        user.username: user for user in get_user_model().objects.filter(username__in=LAB_PEOPLE)
    }
    if not {_MATRIX_BY, _MATRIX_SIGNER} <= set(users):
        return []
    has = set(NetMatrix.objects.values_list("node_class", flat=True))
    classes = Node.objects.filter(origin="lab").values_list("node_class", flat=True)
    fresh = sorted(set(classes.order_by().distinct()) - has)
    for name in fresh:
        author, signer = users[_MATRIX_BY], users[_MATRIX_SIGNER]
        row = matrix_write(fields={"node_class": name, **_LAB_MATRIX}, actor=actor, user=author)
        matrix_sign(matrix=row, actor=actor, user=signer)
    return fresh


def _units(rows: Sequence[Mapping[str, Any]]) -> dict[str, tuple[str, list[str]]]:
    """Return unit name -> (pool, node names in position order); spares have no unit."""
    units: dict[str, tuple[str, list[str]]] = {}
    members = [row for row in rows if row.get("unit")]
    for row in sorted(members, key=lambda row: (str(row["unit"]), str(row.get("position") or 0))):
        pool = str(row.get("pool") or "")
        units.setdefault(str(row["unit"]), (pool, []))[1].append(row["name"])
    return units


def _unit_problems(units: dict[str, tuple[str, list[str]]]) -> list[tuple[str, str]]:
    """Take units that cannot be out of `units`; return their names and why. Their nodes stay spares."""
    pools = [pool["slug"] for pool in _POOLS if not pool.get("is_spare")]
    problems = []
    for name, (pool, _nodes) in list(units.items()):
        if not UNIT_NAME.fullmatch(name):
            problems.append(
                (name, f"unit: expected lower-case letters, digits and -, found {name[:60]!r}")
            )
        elif pool not in pools:
            problems.append(
                (name, f"pool: expected one of {', '.join(pools)}, found {pool[:60]!r}")
            )
        else:
            continue
        del units[name]
    return problems


def _pools_seed(units: Mapping[str, tuple[str, list[str]]], nodes: int) -> None:
    spares = nodes - sum(len(names) for _, names in units.values())
    for position, pool in enumerate(_POOLS):
        count = sum(1 for slug, _ in units.values() if slug == pool["slug"])
        Pool.objects.get_or_create(
            slug=pool["slug"],
            defaults={
                **pool,
                "unit_gpus": pool["unit_nodes"] * _GPUS,
                "position": position,
                # one whole unit may be out at a time, for a rollout or a fault
                "promised_units": max(count - 1, 0),
                "spare_floor": min(_SPARE_FLOOR, spares // 2) if pool.get("is_spare") else 0,
            },
        )


def _unit_seed(name: str, pool: str, node_names: list[str]) -> None:
    replica, _ = Replica.objects.get_or_create(
        name=name,
        defaults={
            "pool": Pool.objects.get(slug=pool),
            "explanation": say("Planned; never launched."),
        },
    )
    wanted = {
        node.pk: node_names.index(node.name)
        for node in Node.objects.filter(host__name__in=node_names)
    }
    now = dict(replica.members.filter(released_at=None).values_list("node_id", "position"))
    if now == wanted:
        return
    touched = Member.objects.filter(released_at=None).filter(node_id__in=wanted) | (
        replica.members.filter(released_at=None)
    )
    if touched.filter(is_reserved=True).exists():
        return
    touched.update(released_at=Now())
    Member.objects.bulk_create(
        Member(replica=replica, node_id=pk, position=position) for pk, position in wanted.items()
    )


def _retire_missing(names: set[str], actor: Actor) -> None:
    """Retire lab nodes that a smaller lab no longer has; those with a reservation stay as they are."""
    reserved = Member.objects.filter(is_reserved=True, released_at=None).values("node_id")
    gone = list(
        Node.objects.filter(origin="lab")
        .exclude(state=Node.State.RETIRED)
        .exclude(host__name__in=names)
        .exclude(pk__in=reserved)
    )
    Member.objects.filter(node__in=gone, released_at=None).update(released_at=Now())
    _set_state(gone, "retired", say("The lab has no such node any more."), actor)


def _bring_back(names: set[str], actor: Actor) -> None:
    back = list(Node.objects.filter(origin="lab", state=Node.State.RETIRED, host__name__in=names))
    _set_state(back, "registered", say("Back in the lab; never probed since."), actor)


def _set_state(nodes: list[Node], state: str, explanation: str, actor: Actor) -> None:
    Node.objects.filter(pk__in=[node.pk for node in nodes]).update(
        state=state, explanation=explanation, version=F("version") + 1
    )
    trail_add_all(
        trail_entry(
            actor=actor,
            verb="node.move",
            object_kind="node",
            object_id=node.name,
            reason=explanation,
            before={"state": node.state},
            after={"state": state},
        )
        for node in nodes
    )


def _drop_empty(units: Mapping[str, Any]) -> None:
    """Forget planned units of a larger lab that were never launched and have no nodes any more."""
    live = Member.objects.filter(released_at=None).values("replica_id")
    unused = Replica.objects.filter(generation=0, state=Replica.State.PLANNED)
    unused.exclude(pk__in=live).exclude(name__in=list(units)).delete()
