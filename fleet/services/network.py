"""Network acceptance runs: asked for, carried on tick by tick from their rows, ended with suspects and a verdict.

A node of an open run is held by a rule, so that nothing is placed on it, and belongs to no other run.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import asdict
from typing import Any

from django.db import IntegrityError, InterfaceError, OperationalError, transaction
from django.db.models import F
from django.db.models.functions import Now
from django.utils.translation import gettext as _

from fleet.doorbell import ring
from fleet.execution.clock import database_now
from fleet.execution.models import Host
from fleet.models import Hold, Member, NetPair, NetRun, NetSeat, Node, Replica
from fleet.rules import netload, netpairs, netrun, netverdict
from fleet.rules.message import said, say
from fleet.rules.netpairs import Measured, Pair
from fleet.rules.nodeset import fold_nodeset
from fleet.rules.refusals import Conflict, NeedsReason, Refused
from fleet.selectors.network import (
    golden_numbers,
    matrices_for,
    measured,
    stations_of,
    wiring_of,
)
from fleet.selectors.scope import pools_of_nodes
from fleet.services.holds import holds_add, holds_lift
from fleet.services.net_matrix import TOPIC
from fleet.services.net_pairs import pair_advance, pair_cancel, steps_fetched
from fleet.services.permits import permit_demand
from fleet.services.trail import Actor, rule_actor, trail_add

log = logging.getLogger(__name__)

OWNER = "network"  # of the holds
LEAST, MOST = 2, 64
LOOP_MAX_S = 24 * 3600
REPAIR_PASSES = 3
_IDLE = (Replica.State.PLANNED, Replica.State.STOPPED)
_REASON_MIN = 3


@transaction.atomic
def net_run_start(
    *,
    nodes: Sequence[Node],
    actor: Actor,
    user: Any = None,
    layers: Collection[str] = netverdict.LAYERS,
    loop_s: int = 1800,
    rounds: int | None = None,
    bar: float | None = None,
    pairs_per_leaf: int = 4,
) -> NetRun:
    """Reserve these nodes and plan their pairs; the tick carries it on. `rounds` None: every pair.

    A run has one bar; None takes the highest of the golden pairs that it is compared with.

    Raises Refused, Conflict (a node serves or is tested already), NotAllowed.
    """
    wanted = [name for name in netverdict.LAYERS if name in layers]
    _check_form(nodes, wanted, loop_s, rounds)
    for pool in set(pools_of_nodes(list(nodes)).values()):
        permit_demand(user, "network-start", pool)
    ids = sorted({node.pk for node in nodes})
    locked = Node.objects.select_for_update(of=("self",)).filter(pk__in=ids)
    rows = list(locked.order_by("pk"))
    _check_nodes(rows)
    wiring = _wiring(rows)
    golden = golden_numbers(node.node_class for node in rows)
    if bar is None:
        bar = max((one["bar"] for one in golden.values()), default=netverdict.BAR)
    run = NetRun.objects.create(
        scope=fold_nodeset(node.name for node in rows)[:200],
        layers=wanted,
        loop_s=loop_s,
        bar=bar,
        pairs_per_leaf=pairs_per_leaf,
        golden=golden,
        wiring=wiring,
        explanation=say("Waiting for its first tick."),
        requested_by=user,
    )
    _reserve(run, rows, actor)
    if set(wanted) != {netverdict.TOGETHER}:  # which plans its own pairs when its turn comes
        planned = netpairs.plan_rounds(stations_of(rows), pairs_per_leaf=pairs_per_leaf)
        _add_rounds(run, rows, planned[:rounds], netrun.FIRST, first=1)
    trail_add(
        actor=actor,
        verb="network.start",
        object_kind="network",
        object_id=run.public_id,
        after={"nodes": run.scope, "layers": wanted, "pairs": run.pairs.count(), "loop_s": loop_s},
    )
    _ring(run)
    return run


def _wiring(rows: Sequence[Node]) -> dict[str, dict[str, Any]]:
    """What the network matrix says of each node, as a run keeps it from its start."""
    matrices = matrices_for(rows, only_signed=False)
    if bare := [node.name for node in rows if node.pk not in matrices]:
        raise Refused(
            _(
                "The network matrix has no row for %(nodes)s. Write one for their class, so that the test uses the"
                " cards and the GID that launches will use."
            )
            % {"nodes": fold_nodeset(bare)}
        )
    return {
        node.name: {**asdict(wiring_of(matrices[node.pk])), "matrix": str(matrices[node.pk])}
        for node in rows
    }


def _check_form(
    nodes: Sequence[Node], layers: Sequence[str], loop_s: int, rounds: int | None
) -> None:
    if not LEAST <= len(nodes) <= MOST:
        raise Refused(
            _("A pair test takes %(low)d to %(high)d nodes, found %(n)d.")
            % {"low": LEAST, "high": MOST, "n": len(nodes)}
        )
    if not layers:
        raise Refused(_("No layer was chosen. Choose at least one."))
    if not 1 <= loop_s <= LOOP_MAX_S or (rounds is not None and rounds < 1):
        raise Refused(
            _("The loop takes 1 s to %(most)d h, and at least one round is tested.")
            % {"most": LOOP_MAX_S // 3600}
        )


def _check_nodes(rows: Sequence[Node]) -> None:
    """Unknown is no: what cannot be reached cannot be tested, and what may serve is not disturbed."""
    busy = (
        Member.objects.filter(node__in=rows, released_at=None)
        .exclude(replica__state__in=_IDLE)
        .select_related("replica", "node__host")
    )
    if member := busy.first():
        raise Conflict(
            _(
                "%(node)s belongs to %(unit)s, which is %(state)s. Stop the unit first, or leave the node out."
            )
            % {
                "node": member.node.name,
                "unit": member.replica.name,
                "state": member.replica.get_state_display(),
            }
        )
    for node in rows:
        if node.host.reach != Host.Reach.OK or node.host.key_state != Host.Key.PINNED:
            raise Conflict(
                _("%(node)s cannot be reached now. Probe it, or leave it out.")
                % {"node": node.name}
            )
    if (
        seat := NetSeat.objects.filter(node__in=rows, released_at=None)
        .select_related("run", "node__host")
        .first()
    ):
        raise Conflict(
            _("%(node)s is being tested by %(run)s. Wait for its end, or cancel it.")
            % {"node": seat.node.name, "run": seat.run}
        )


def _reserve(run: NetRun, rows: Sequence[Node], actor: Actor) -> None:
    try:
        with transaction.atomic():
            NetSeat.objects.bulk_create(NetSeat(run=run, node=node) for node in rows)
    except IntegrityError as error:
        raise Conflict(_("One of these nodes was just taken by another run.")) from error
    why = say("Network acceptance %(run)s tests it.", run=run.public_id)
    holds_add(
        nodes=rows,
        kind=Hold.Kind.MAINTENANCE,
        reasons={node.pk: why for node in rows},
        actor=rule_actor(OWNER),
    )


def _add_rounds(
    run: NetRun, rows: Sequence[Node], rounds: Sequence[Sequence[Pair]], kind: str, *, first: int
) -> None:
    by_name = {node.name: node for node in rows}
    NetPair.objects.bulk_create(
        NetPair(
            run=run,
            round=number,
            kind=kind,
            a=by_name[pair.a.name],
            b=by_name[pair.b.name],
            topology=pair.topology,
        )
        for number, pairs in enumerate(rounds, start=first)
        for pair in pairs
    )


@transaction.atomic
def net_run_cancel(*, run: NetRun, reason: str, actor: Actor, user: Any = None) -> NetRun:
    """End an open run: both ends of its pairs are stopped, its nodes are free; what was found stays."""
    if len(reason.strip()) < _REASON_MIN:
        raise NeedsReason(
            _("Cancelling a network test needs a reason. Write why, then send again.")
        )
    permit_demand(user, "network-cancel")
    run = NetRun.objects.select_for_update(of=("self",)).get(pk=run.pk)
    if run.state not in netrun.OPEN:
        raise Conflict(_("%(run)s has ended already.") % {"run": run})
    now = database_now()
    for pair in _pairs(run).exclude(step=netrun.DONE):
        pair_cancel(run, pair, now)
    _end(run, netrun.CANCELLED, say("Cancelled: %(reason)s", reason=reason.strip()), actor, reason)
    return run


def net_runs_advance() -> int:
    """Carry every open run one step on, each in a transaction of its own; return how many moved."""
    ids = NetRun.objects.filter(state__in=netrun.OPEN).order_by("pk").values_list("pk", flat=True)
    return sum(_advance_or_log(pk) for pk in list(ids))


def _advance_or_log(pk: int) -> bool:
    try:
        return net_run_advance(pk)
    except (OperationalError, InterfaceError):
        log.exception("network run %s waits for the database", pk)
    except Exception:
        log.exception("network run %s could not be advanced", pk)  # the others must be looked at
    return False


@transaction.atomic
def net_run_advance(pk: int) -> bool:
    """Advance the pairs of the round at work, or open what comes next. Idempotent and level-triggered."""
    rows = NetRun.objects.select_for_update(of=("self",), skip_locked=True)
    run = rows.filter(pk=pk, state__in=netrun.OPEN).first()
    if run is None:
        return False
    now = database_now()
    unfinished = _pairs(run).exclude(step=netrun.DONE)
    number = (
        run.pairs.exclude(step=netrun.DONE)
        .order_by("round")
        .values_list("round", flat=True)
        .first()
    )
    if number is None:
        _next(run)
        return True
    moved = [pair_advance(run, pair, now) for pair in unfinished.filter(round=number)]
    if any(moved):
        if run.state == netrun.LOADING:
            most = run.pairs.filter(kind=netrun.TOGETHER).count()
            at_once = run.pairs.filter(round=number).count()
            _explain(run, say("%(n)d of %(all)d pairs at once.", n=at_once, all=most))
        else:
            pairs = run.pairs.exclude(kind__in=netrun.LOADED)
            done, total = pairs.filter(step=netrun.DONE).count(), pairs.count()
            _explain(run, say("%(done)d of %(total)d pairs tested.", done=done, total=total))
        _ring(run)
    return any(moved)


def _pairs(run: NetRun) -> Any:
    rows = run.pairs.select_related("run", "a__host", "a__rack", "b__host", "b__rack")
    rows = rows.prefetch_related(steps_fetched())
    return rows.order_by("round", "pk")


def _results(run: NetRun) -> list[Measured]:
    rows = run.pairs.select_related("run", "a__host", "b__host").order_by("round", "pk")
    return measured(rows.defer("curve", "rails", "layers"))


def _nodes(run: NetRun) -> list[Node]:
    return list(
        Node.objects.filter(net_seats__run=run)
        .select_related("host", "rack__leaf")
        .order_by("host__name")
    )


def _next(run: NetRun) -> None:
    """All planned rounds are done: suspects again with known-good partners, then all at once, then the verdict."""
    nodes, results = _nodes(run), _results(run)
    last = run.pairs.order_by("-round").values_list("round", flat=True).first() or 0
    if run.state != netrun.LOADING and run.repairs < REPAIR_PASSES:
        rounds = netpairs.plan_repairs(stations_of(nodes), results, run.bar)
        if rounds:
            run.repairs += 1
            _add_rounds(run, nodes, rounds, netrun.REPAIR, first=last + 1)
            why = say("Suspects are tested with known-good partners, pass %(n)d.", n=run.repairs)
            _move(run, netrun.REPAIRING, why)
            return
    if run.state != netrun.LOADING and netverdict.TOGETHER in run.layers:
        chosen = _loaded(run, nodes)
        ladder = netload.plan_ladder(chosen)
        _add_rounds(run, nodes, ladder, netrun.RUNG, first=last + 1)
        _add_rounds(run, nodes, [chosen], netrun.TOGETHER, first=last + 1 + len(ladder))
        why = say("Each pair alone, then more pairs at once, then all %(n)d.", n=len(chosen))
        _move(run, netrun.LOADING, why)
        return
    _judge(run, nodes, results)


def _loaded(run: NetRun, nodes: Sequence[Node]) -> list[Pair]:
    """The pairs that run at once: those of one tested round where there is one, so that each has its layer 3."""
    stations = {one.name: one for one in stations_of(nodes)}
    by_round: dict[int, list[Pair]] = {}
    tested_pairs = run.pairs.select_related("a__host", "b__host").order_by("round", "pk")
    for pair in tested_pairs.filter(kind=netrun.FIRST, busbw_gbs__isnull=False):
        both = Pair(stations[pair.a.name], stations[pair.b.name])
        by_round.setdefault(pair.round, []).append(both)
    crossing = [
        pairs
        for pairs in by_round.values()
        if any(pair.topology == netpairs.CROSS_LEAF for pair in pairs)
    ]
    tested = max(crossing or list(by_round.values()), key=len, default=[])
    return tested or netpairs.plan_together(stations.values())


def _judge(run: NetRun, nodes: Sequence[Node], results: Sequence[Measured]) -> None:
    suspects = netpairs.judge_suspects(results, run.bar)
    run.suspects = [
        {"kind": one.kind, "nodes": list(one.nodes), "why": one.why} for one in suspects
    ]
    # What was wrong on a rung stands in the loop of all pairs, which every rung leads to.
    pairs = run.pairs.exclude(kind=netrun.RUNG)
    verdicts = list(pairs.values_list("verdict", flat=True))
    failed = verdicts.count(netverdict.FAIL)
    unknown = len(verdicts) - failed - verdicts.count(netverdict.PASS)
    if failed:
        run.verdict = netverdict.FAIL
        why = say("%(n)d of %(all)d pairs failed.", n=failed, all=len(verdicts))
    elif unknown or not verdicts:
        run.verdict = netverdict.UNKNOWN
        why = say("%(n)d of %(all)d pairs prove nothing.", n=unknown, all=len(verdicts))
    else:
        run.verdict = netverdict.PASS
        why = say("All %(all)d pairs passed.", all=len(verdicts))
    _end(run, netrun.DONE, why, rule_actor(OWNER))


def _explain(run: NetRun, why: str) -> None:
    run.explanation = why
    NetRun.objects.filter(pk=run.pk).update(explanation=why)


def _move(run: NetRun, state: str, why: str) -> None:
    if state != run.state and state not in netrun.NETRUN_MOVES[run.state]:
        raise Conflict(f"{run}: {run.state} does not become {state}")
    run.state, run.explanation, run.version = state, why, F("version") + 1
    run.state_at = database_now()
    run.save()
    run.refresh_from_db()
    _ring(run)


def _end(run: NetRun, state: str, why: str, actor: Actor, reason: str = "") -> None:
    run.ended_at = database_now()
    before = run.state
    _move(run, state, why)
    nodes = _nodes(run)
    run.seats.filter(released_at=None).update(released_at=Now())
    held = Hold.objects.filter(owner=OWNER, node__in=nodes, lifted_at=None)
    holds_lift(
        holds=held,
        reason=say("Network acceptance %(run)s has ended.", run=run.public_id),
        actor=rule_actor(OWNER),
    )
    trail_add(
        actor=actor,
        verb="network.cancel" if state == netrun.CANCELLED else "network.end",
        object_kind="network",
        object_id=run.public_id,
        reason=reason,
        before={"state": before},
        after={"state": state, "verdict": run.verdict, "why": said(why)},
    )


def _ring(run: NetRun) -> None:
    ring(TOPIC, run.topic)
