"""Carries distributions, checks and the reading of seed nodes on, from the rows alone; safe to run twice or never.

Two passes: what the nodes told moves each holding one step, then the rule chooses the next copies.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields

from django.db.models import Count, Q
from django.db.models.functions import Now

from fleet.doorbell import ring
from fleet.execution.clock import database_now
from fleet.execution.models import Command, Host
from fleet.models import Distribution, Holding, ImageHolding, Node
from fleet.rules import copier, fanout, holdings, images
from fleet.rules.message import say
from fleet.services import holding_steps, weights_effects
from fleet.services.holding_moves import HoldingMove, holdings_move
from fleet.services.trail import rule_actor, trail_add, trail_add_each
from fleet.services.weights import TOPIC
from fleet.services.weights_make import artefacts_read

log = logging.getLogger(__name__)

OPEN = (holdings.WANTED, holdings.VERIFYING, holdings.COPYING)
Pressure = Callable[[], Mapping[int, str]]
_PRESSURES: list[Pressure] = []


def pressure_add(find: Pressure) -> None:
    """Register who tells on which leaves copies must rest: leaf number -> why. Upper apps know the units' SLOs."""
    _PRESSURES.append(find)


def leaves_paused() -> dict[int, str]:
    """Return leaf -> why nothing is copied or pulled into it now."""
    return {leaf: why for find in _PRESSURES for leaf, why in find().items()}


def weights_advance() -> int:
    """Carry everything open one step on; return how many holdings changed state."""
    artefacts_read()
    rows = _open_holdings()
    if not rows and not Distribution.objects.filter(state="running").exists():
        return 0
    steps = weights_effects.steps_of(rows)
    before = {row.pk: row.state for row in rows}
    limits = _limits_of(rows)
    moves: dict[int, HoldingMove] = {}
    for row in rows:
        moves |= _step(row, steps, limits[row.pk])
    moves |= _spread(rows, moves, limits)
    changed = holdings_move(moves.values())
    _tell(rows, before)
    _end_distributions()
    if moves:
        ring(TOPIC, *{row.artefact.topic for row in rows if row.pk in moves})
    return changed


def _open_holdings() -> list[Holding]:
    rows = Holding.objects.select_for_update(of=("self",), skip_locked=True).select_related(
        "node__host",
        "node__rack__leaf",
        "artefact",
        "distribution",
        "parent__host",
        "parent__rack__leaf",
        "serve__host",
        "pull__host",
        "check_run__host",
    )
    return list(rows.filter(state__in=OPEN).order_by("pk"))


def _step(
    row: Holding, steps: Mapping[str, Command], limits: fanout.Limits
) -> dict[int, HoldingMove]:
    """One holding's own step. A fault of ours in one must not keep the others from moving."""
    try:
        move = holding_steps.step(row, steps, limits, database_now())
    except (ValueError, KeyError, TypeError) as error:
        log.exception("holding %s could not be advanced", row.pk)
        why = say("The console could not go on with it: %(error)s", error=type(error).__name__)
        move = HoldingMove(row, holdings.FAILED, why)
    return {row.pk: move} if move else {}


def _limits_of(rows: Sequence[Holding]) -> dict[int, fanout.Limits]:
    """Return the limits of each holding: those of its distribution, or the usual ones."""
    return {row.pk: limits_of(row.distribution) for row in rows}


def limits_of(distribution: Distribution | None) -> fanout.Limits:
    """Return the limits that a distribution was asked with; unknown words of an older console are left out."""
    known = {one.name for one in fields(fanout.Limits)}
    found = (distribution.limits if distribution else None) or {}
    return fanout.Limits(**{name: value for name, value in found.items() if name in known})


@dataclass
class _Scene:
    """What the rule is asked about: all nodes that matter, and who holds what."""

    leaf_of: dict[str, int] = field(default_factory=dict)
    dead: set[str] = field(default_factory=set)
    unsure: set[str] = field(default_factory=set)
    by_name: dict[str, Node] = field(default_factory=dict)
    holders: dict[int, set[str]] = field(default_factory=dict)  # artefact -> names

    def add(self, node: Node) -> None:
        name = node.name
        self.by_name[name] = node
        self.leaf_of[name] = node.rack.leaf.number
        if node.host.reach == Host.Reach.UNREACHABLE or node.host.key_state != Host.Key.PINNED:
            self.dead.add(name)
        elif node.host.reach != Host.Reach.OK:
            self.unsure.add(name)


def _spread(
    rows: Sequence[Holding], moved: dict[int, HoldingMove], limits: Mapping[int, fanout.Limits]
) -> dict[int, HoldingMove]:
    """Choose the next copies of every artefact; each sees the copies of the others, which use the same links."""
    scene = _scene(rows)
    paused = leaves_paused()
    running = {row.pk: _copy(row) for row in rows if _to(row, moved) == holdings.COPYING}
    pulls = _pulls(scene)
    ports = _ports(rows, moved)
    found: dict[int, HoldingMove] = {}
    for artefact_id in sorted({row.artefact_id for row in rows}):
        own = [row for row in rows if row.artefact_id == artefact_id]
        plan, limit = _plan(own, moved, running, pulls, scene, paused, limits)
        for row in own:
            name = row.node.name
            if row.pk in moved and moved[row.pk].to != row.state:  # one step a tick
                continue
            if copy := next((copy for copy in plan.stop if copy.child == name), None):
                found |= _end_copy(row, copy, scene, paused)
            elif copy := next((copy for copy in plan.start if copy.child == name), None):
                running[row.pk] = copy
                found[row.pk] = _begin_copy(row, scene.by_name.get(copy.parent), ports, limit)
            elif name in plan.waiting and row.explanation != plan.waiting[name]:
                found[row.pk] = HoldingMove(row, row.state, plan.waiting[name])
    return found


def _plan(
    own: Sequence[Holding],
    moved: Mapping[int, HoldingMove],
    running: Mapping[int, fanout.Copy],
    pulls: Sequence[fanout.Copy],
    scene: _Scene,
    paused: Mapping[int, str],
    limits: Mapping[int, fanout.Limits],
) -> tuple[fanout.Plan, fanout.Limits]:
    artefact = own[0].artefact
    mine = {row.pk for row in own}
    wanting = [
        row for row in own if row.state == holdings.WANTED and row.needs and row.pk not in moved
    ]
    holders = scene.holders.get(artefact.pk, set())
    seen = fanout.Spread(
        leaf_of=scene.leaf_of,
        holders=holders - scene.unsure,
        wanting={row.node.name for row in wanting} - scene.unsure,
        verifying=_soon(own, moved) | (holders & scene.unsure),
        running=[copy for pk, copy in running.items() if pk in mine],
        dead=scene.dead | ({copy.parent for copy in running.values()} - holders - {fanout.STORE}),
        paused=paused,
        has_store=bool(artefact.store_address),
        others=[*pulls, *(copy for pk, copy in running.items() if pk not in mine)],
    )
    limit = limits[(wanting or own)[0].pk]
    return fanout.plan_copies(seen, limit), limit


def _soon(own: Sequence[Holding], moved: Mapping[int, HoldingMove]) -> set[str]:
    """Nodes that may be parents in a moment: being verified, or found ready in this very tick and not written yet."""
    return {
        row.node.name
        for row in own
        if holdings.VERIFYING in (row.state, _to(row, moved))
        or (row.state == holdings.WANTED and row.needs is None)
    }


def _scene(rows: Sequence[Holding]) -> _Scene:
    scene = _Scene()
    held = Holding.objects.filter(
        state=holdings.READY, artefact__in={row.artefact_id for row in rows}
    ).select_related("node__host", "node__rack__leaf")
    for row in held:
        scene.holders.setdefault(row.artefact_id, set()).add(row.node.name)
        scene.add(row.node)
    for row in rows:
        scene.add(row.node)
        if row.parent is not None:
            scene.add(row.parent)
    return scene


def _pulls(scene: _Scene) -> list[fanout.Copy]:
    """Pulls of container images that run: they go into the leaves too, from the registry."""
    rows = ImageHolding.objects.filter(state=images.PULLING, is_check_only=False)
    found = list(rows.values_list("node__host__name", "node__rack__leaf__number"))
    for name, leaf in found:
        scene.leaf_of.setdefault(name, leaf)
    return [fanout.Copy(fanout.REGISTRY, name) for name, _leaf in found]


def _to(row: Holding, moved: Mapping[int, HoldingMove]) -> str:
    return str(moved[row.pk].to) if row.pk in moved else str(row.state)


def _copy(row: Holding) -> fanout.Copy:
    return fanout.Copy(row.parent.name if row.parent else fanout.STORE, row.node.name)


def _ports(
    rows: Sequence[Holding], moved: Mapping[int, HoldingMove]
) -> dict[int | None, set[int | None]]:
    """Ports that daemons of each parent have: those of open copies, and those that are not proved to be gone."""
    used: dict[int | None, set[int | None]] = {}
    ended = ("done", "lost", "gone")
    alive = Holding.objects.filter(~Q(serve=None), ~Q(serve__state__in=ended))
    for parent, port in alive.values_list("parent_id", "port"):
        used.setdefault(parent, set()).add(port)
    return used


def _begin_copy(
    row: Holding,
    parent: Node | None,
    ports: dict[int | None, set[int | None]],
    limits: fanout.Limits,
) -> HoldingMove:
    row.attempt += 1
    row.copies += 1
    row.parent, row.serve, row.pull, row.check_run = parent, None, None, None
    row.readings, row.bytes_per_s, row.read_at = 0, None, None
    if parent is None:
        row.port = None
        weights_effects.start_pull(row, limits)
        return HoldingMove(row, holdings.COPYING, say("Is copied from the store."))
    taken = ports.setdefault(parent.pk, set())
    free = range(copier.FIRST_PORT, copier.FIRST_PORT + copier.PORTS)
    row.port = next((port for port in free if port not in taken), None)
    if row.port is None:
        row.attempt -= 1
        row.copies -= 1
        row.parent = None
        return HoldingMove(row, row.state, say("%(node)s has no free port.", node=parent.name))
    taken.add(row.port)
    weights_effects.start_serve(row)
    return HoldingMove(row, holdings.COPYING, say("Is copied from %(node)s.", node=parent.name))


def _end_copy(
    row: Holding, copy: fanout.Copy, scene: _Scene, paused: Mapping[int, str]
) -> dict[int, HoldingMove]:
    if row.state != holdings.COPYING or row.stop_for:
        return {}
    row.stop_for = holdings.WANTED
    leaf = scene.leaf_of[copy.child]
    why = paused.get(leaf) or say(
        "%(node)s is no source any more: another parent is looked for.", node=copy.parent
    )
    return {row.pk: HoldingMove(row, row.state, why)}


def _tell(rows: Sequence[Holding], before: Mapping[int, str]) -> None:
    """Write the moves of this tick into the trail: what became of which revision on which node."""
    changes = [
        (
            row.node.name,
            {"artefact": row.artefact.public_id, "state": before[row.pk]},
            {
                "artefact": row.artefact.public_id,
                "state": str(row.state),
                "parent": row.parent.name if row.parent else None,
                "files": len(row.needs or []),
            },
        )
        for row in rows
        if row.state != before[row.pk]
    ]
    if changes:
        trail_add_each(
            actor=rule_actor("weights"), verb="holding.move", object_kind="node", changes=changes
        )


def _end_distributions() -> None:
    """End running distributions of which no node is at work or waits any more."""
    open_states = (*OPEN, holdings.PAUSED)
    rows = Distribution.objects.select_for_update(of=("self",), skip_locked=True)
    running = {row.pk: row for row in rows.select_related("artefact").filter(state="running")}
    counts = (
        Holding.objects.filter(distribution__in=running)
        .values_list("distribution")
        .annotate(
            at_work=Count("pk", filter=Q(state__in=open_states)),
            bad=Count("pk", filter=~Q(state=holdings.READY)),
            all=Count("pk"),
        )
    )
    for pk, at_work, bad, count in counts:
        if not at_work:
            _end(running[pk], bad, count)


def _end(row: Distribution, bad: int, count: int) -> None:
    row.state = str(Distribution.State.FAILED if bad else Distribution.State.DONE)
    row.explanation = say(
        "%(good)s of %(all)s nodes hold it verified.", good=count - bad, all=count
    )
    row.version += 1
    row.ended_at = Now()
    row.save()
    trail_add(
        actor=rule_actor("weights"),
        verb=f"distribution.{row.state}",
        object_kind="distribution",
        object_id=row.public_id,
        after={"good": count - bad, "nodes": count},
    )
    ring(TOPIC, row.artefact.topic)
