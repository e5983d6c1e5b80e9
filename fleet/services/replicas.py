"""Moves of service units, and the reservation of their nodes. A unit is reserved and freed whole."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from django.db import connection, transaction
from django.db.models import F
from django.db.models.functions import Coalesce, Now
from django.utils.translation import gettext as _

from fleet.doorbell import ring
from fleet.models import Member, Node, Replica
from fleet.rules.lifecycles import REPLICA_MOVES
from fleet.rules.refusals import Conflict
from fleet.selectors.units import RUNNING
from fleet.services.trail import Actor, trail_add, trail_add_each

_MOVES = [f"{before}>{to}" for before, after in REPLICA_MOVES.items() for to in after]
BROKEN = frozenset({Replica.State.FAILED, Replica.State.LOST})


@transaction.atomic
def replica_move(
    *,
    replica: Replica,
    to: str,
    explanation: str,
    actor: Actor,
    from_states: Collection[str] | None = None,
    is_reboot_proved: bool = False,
) -> Replica:
    """Move a unit under its row lock; moving it to where it is only renews the explanation.

    `is_reboot_proved`: it fails by another boot of its node, which the brake does not count. Raises Conflict
    when the unit is not in one of `from_states`, or its table does not have the move.
    """
    row = Replica.objects.select_for_update().get(pk=replica.pk)
    before = row.state
    if before != to:
        _refuse_unless_possible(row, to, from_states)
    elif row.explanation == explanation:
        return _reflect(replica)
    changes = {"state": to, "explanation": explanation, "version": F("version") + 1}
    if before != to:
        changes["state_at"] = Now()
    # Traffic that comes or goes says nothing about a doubt: the unit runs on as it did.
    if before != to and not {before, to} <= RUNNING:
        changes |= {"doubt": "", "is_reboot_proved": is_reboot_proved}
        changes["turned_at"] = Coalesce(F("turned_at"), Now()) if to in BROKEN else None
    Replica.objects.filter(pk=row.pk).update(**changes)
    if before != to:
        _tell([(row.name, before, to)], actor)
    ring(f"replica-{row.name}", f"pool-{row.pool.slug}", "fleet")
    return _reflect(replica)


@dataclass(frozen=True)
class UnitMove:
    """Where one unit goes and why."""

    replica_id: int
    to: str
    explanation: str


@transaction.atomic
def replicas_move(moves: Iterable[UnitMove], *, actor: Actor, among: Collection[str]) -> int:
    """Move units between running states `among`, whatever their number with few queries; return how many moved.

    A unit that somebody moved elsewhere meanwhile stays where it is. Traffic that comes or goes leaves doubts alone.
    """
    rows = [
        {"id": move.replica_id, "to": move.to, "explanation": move.explanation} for move in moves
    ]
    # One statement: a thousand units cost more to fetch and to name again than to move.
    with connection.cursor() as cursor:
        cursor.execute(
            """
            UPDATE fleet_replica r SET state = x.to, explanation = x.explanation,
                state_at = statement_timestamp(), version = r.version + 1
            FROM jsonb_to_recordset(%(rows)s) AS x(id bigint, "to" text, explanation text), fleet_pool p,
                (SELECT id, state FROM fleet_replica WHERE id = ANY(%(ids)s) ORDER BY id FOR UPDATE) AS held
            WHERE r.id = x.id AND r.id = held.id AND r.pool_id = p.id AND held.state = ANY(%(among)s)
                AND held.state || '>' || x.to = ANY(%(moves)s)
            RETURNING r.name, held.state, x.to, p.slug
            """,
            {
                "rows": json.dumps(rows),
                "ids": [row["id"] for row in rows],
                "among": sorted(among),
                "moves": _MOVES,
            },
        )
        moved = cursor.fetchall()
    if moved:
        _tell([(name, before, to) for name, before, to, _ in moved], actor)
        pools = sorted({f"pool-{slug}" for *_, slug in moved})
        ring(*(f"replica-{name}" for name, *_ in moved), *pools, "fleet")
    return len(moved)


def _tell(moves: list[tuple[str, str, str]], actor: Actor) -> None:
    """Write (name, state before, state after) of units into the trail."""
    changes = [(name, {"state": before}, {"state": to}) for name, before, to in moves]
    trail_add_each(actor=actor, verb="replica.move", object_kind="replica", changes=changes)


@transaction.atomic
def replica_doubt(*, replica: Replica, doubt: str, explanation: str, actor: Actor) -> Replica:
    """Say why a running unit does not count as ready, or (with no doubt) that it does again.

    Nothing is done to it. Its version stays: a person who is about to end it must not be refused for this.
    """
    row = Replica.objects.select_for_update().get(pk=replica.pk)
    changes: dict[str, Any] = {"doubt": doubt, "explanation": explanation}
    if doubt != row.doubt:
        changes["turned_at"] = Coalesce(F("turned_at"), Now()) if doubt else None
        trail_add(
            actor=actor,
            verb="replica.doubt",
            object_kind="replica",
            object_id=row.name,
            reason=explanation,
            before={"doubt": row.doubt},
            after={"doubt": doubt},
        )
    Replica.objects.filter(pk=row.pk).update(**changes)
    ring(f"replica-{row.name}", f"pool-{row.pool.slug}", "fleet")
    return _reflect(replica)


def members_reserve(*, replica: Replica) -> int:
    """Reserve every node of a unit at once, in node order; return how many. Raises Conflict."""
    with transaction.atomic():
        members = _locked_members(replica)
        if taken := [str(member.node) for member in members if member.is_reserved]:
            raise Conflict(
                _("%(nodes)s already belong to a launch of %(unit)s; stop it first.")
                % {"nodes": ", ".join(taken), "unit": replica.name}
            )
        if not members:
            raise Conflict(_("%(unit)s has no nodes to reserve.") % {"unit": replica.name})
        return Member.objects.filter(pk__in=[m.pk for m in members]).update(is_reserved=True)


def members_free(*, replica: Replica) -> int:
    """Free every node of a unit whose end is proved; repeating it changes nothing."""
    with transaction.atomic():
        members = _locked_members(replica)
        return Member.objects.filter(pk__in=[m.pk for m in members], is_reserved=True).update(
            is_reserved=False
        )


def _locked_members(replica: Replica) -> list[Member]:
    live = Member.objects.filter(replica=replica, released_at=None)
    node_ids = list(live.values_list("node_id", flat=True))
    # every writer that needs several nodes locks them in this order, so that none waits in a circle
    list(Node.objects.select_for_update(of=("self",)).filter(pk__in=node_ids).order_by("pk"))
    return list(live.select_related("node__host"))


def _refuse_unless_possible(row: Replica, to: str, from_states: Collection[str] | None) -> None:
    if to in REPLICA_MOVES[row.state] and (from_states is None or row.state in from_states):
        return
    expected = sorted(
        state
        for state, onward in REPLICA_MOVES.items()
        if to in onward and (from_states is None or state in from_states)
    )
    raise Conflict(
        _("%(unit)s is %(found)s; to become %(to)s it must be %(expected)s. Reload the page.")
        % {"unit": row.name, "found": row.state, "to": to, "expected": ", ".join(expected)}
    )


def _reflect(replica: Replica) -> Replica:
    replica.refresh_from_db(
        fields=["state", "explanation", "state_at", "doubt", "turned_at", "version"]
    )
    return replica
