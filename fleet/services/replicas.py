"""Moves of service units, and the reservation of their nodes. A unit is reserved and freed whole."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Coalesce, Now
from django.utils.translation import gettext as _

from fleet.doorbell import ring
from fleet.models import Member, Node, Pool, Replica, TrailEntry
from fleet.rules.lifecycles import REPLICA_MOVES
from fleet.rules.refusals import Conflict
from fleet.selectors.units import RUNNING
from fleet.services.trail import Actor, trail_add, trail_add_all, trail_entry

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
        trail_add_all([_told(row.name, before, to, actor)])
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
    wanted = {move.replica_id: move for move in moves}
    rows = Replica.objects.select_for_update().filter(pk__in=wanted, state__in=among)
    # Plain values: a thousand units cost more to build as objects than to move.
    values = rows.order_by("pk").values_list("pk", "name", "state", "pool_id")
    going = [
        _Going(wanted[pk], name, before, pool_id)
        for pk, name, before, pool_id in values
        if before != wanted[pk].to and wanted[pk].to in REPLICA_MOVES[before]
    ]
    if not going:
        return 0
    alike: dict[tuple[str, str], list[int]] = {}
    for unit in going:
        alike.setdefault((unit.move.to, unit.move.explanation), []).append(unit.move.replica_id)
    for (to, explanation), ids in alike.items():
        Replica.objects.filter(pk__in=ids).update(
            state=to, explanation=explanation, state_at=Now(), version=F("version") + 1
        )
    trail_add_all(_told(unit.name, unit.before, unit.move.to, actor) for unit in going)
    pools = Pool.objects.filter(pk__in={unit.pool_id for unit in going})
    topics = [f"pool-{slug}" for slug in pools.values_list("slug", flat=True)]
    ring(*(f"replica-{unit.name}" for unit in going), *topics, "fleet")
    return len(going)


class _Going(NamedTuple):
    """A unit that moves, as it was before."""

    move: UnitMove
    name: str
    before: str
    pool_id: int


def _told(name: str, before: str, to: str, actor: Actor) -> TrailEntry:
    return trail_entry(
        actor=actor,
        verb="replica.move",
        object_kind="replica",
        object_id=name,
        before={"state": before},
        after={"state": to},
    )


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
