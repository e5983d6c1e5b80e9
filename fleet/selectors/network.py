"""Reads of network acceptance: the matrix that holds for a node, golden pairs, runs with their pairs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Max, Min, Q

from fleet.models import NetGolden, NetMatrix, NetPair, NetRun, NetStep, Node
from fleet.rules import netrun, netverdict
from fleet.rules.netpairs import Measured, Station
from fleet.rules.netscripts import Wiring, environment_of
from fleet.rules.netverdict import Golden

RUNS_SHOWN = 20


def wiring_of(matrix: NetMatrix) -> Wiring:
    """Return a matrix row as the rules take it."""
    return Wiring(
        hcas=tuple(matrix.hcas),
        interface=matrix.interface,
        mtu=matrix.mtu,
        gid_index=matrix.gid_index,
        traffic_class=matrix.traffic_class,
    )


def matrices_for(nodes: Iterable[Node], *, only_signed: bool) -> dict[int, NetMatrix]:
    """Return the newest matrix row of each node by node key, its leaf's own before its class's; one query."""
    wanted = list(nodes)
    rows = NetMatrix.objects.filter(node_class__in={node.node_class for node in wanted})
    if only_signed:
        rows = rows.exclude(signed_by=None)
    newest: dict[tuple[str, int | None], NetMatrix] = {}
    for row in rows.order_by("version"):
        newest[row.node_class, row.leaf_id] = row
    found = {}
    for node in wanted:
        row = newest.get((node.node_class, node.rack.leaf_id)) or newest.get(
            (node.node_class, None)
        )
        if row is not None:
            found[node.pk] = row
    return found


def launch_environment(nodes: Iterable[Node]) -> dict[int, dict[str, str]]:
    """Return what the signed matrix puts into the environment of a launch, by node key.

    A node for which nothing is signed gets nothing: NCCL then chooses by itself, which the gate's transport check
    must prove.
    """
    return {
        pk: environment_of(wiring_of(row))
        for pk, row in matrices_for(nodes, only_signed=True).items()
    }


def matrix_rows() -> list[NetMatrix]:
    """Return every version of every row, newest first within its class and leaf."""
    return list(NetMatrix.objects.select_related("leaf", "written_by", "signed_by"))


def golden_numbers(node_classes: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return the current golden pairs' numbers by `class/topology`, as a run keeps them from its start."""
    rows = NetGolden.objects.filter(is_current=True, node_class__in=set(node_classes))
    return {
        f"{row.node_class}/{row.topology}": {
            "pair": str(row.pair),
            "pair_id": row.pair_id,
            "run": row.pair.run.public_id,
            "busbw": row.pair.busbw_gbs,
            "rails": row.pair.rails,
            "load": load_of(row.pair),
            "bar": row.bar,
        }
        for row in rows.select_related("pair__run", "pair__a__host", "pair__b__host")
    }


def golden_of(run: NetRun, pair: NetPair) -> Golden:
    """Return the golden numbers that a pair is compared with; of two classes there is no golden pair."""
    if pair.a.node_class != pair.b.node_class:
        return Golden()
    found = run.golden.get(f"{pair.a.node_class}/{pair.topology}") or {}
    load = {int(count): float(width) for count, width in found.get("load") or ()}
    return Golden(found.get("pair", ""), found.get("busbw"), found.get("rails") or {}, load)


def loaded_pair(pair: NetPair) -> NetPair | None:
    """Return the row of layer 4 over the same two nodes of the same run, whoever of them began; None without one."""
    both = (pair.a_id, pair.b_id)
    rows = NetPair.objects.filter(run=pair.run_id, kind=netrun.TOGETHER, a__in=both, b__in=both)
    return rows.order_by("-round").first()


def load_of(pair: NetPair) -> list[list[float]]:
    """Return the curve under load of these two nodes, [pairs at once, GB/s] a point; empty when none was measured."""
    row = pair if pair.kind == netrun.TOGETHER else loaded_pair(pair)
    layer = (row.layers.get(netverdict.TOGETHER) or {}) if row else {}
    return list(layer.get("values", {}).get("load") or ())


def rungs_of(pair: NetPair) -> list[NetPair]:
    """Return the rungs of the curve under load over the same two nodes, in the order they were measured."""
    both = (pair.a_id, pair.b_id)
    rows = NetPair.objects.filter(run=pair.run_id, kind=netrun.RUNG, a__in=both, b__in=both)
    return list(rows.order_by("round"))


def pairs_beside(pair: NetPair, step: str) -> tuple[int, int]:
    """Return how many other pairs were tested on a pair's leaves while it was in a step: of its own run and of others.

    Of its own run those of its round; of others every pair that began to load before the step had ended and did not
    end before it began. A step that was not collected proves nothing, and so nothing is counted beside it.
    """
    leaves = (pair.a.rack.leaf_id, pair.b.rack.leaf_id)
    on_leaves = Q(a__rack__leaf__in=leaves) | Q(b__rack__leaf__in=leaves)
    rows = NetPair.objects.filter(on_leaves)
    own = rows.filter(run=pair.run_id, round=pair.round).exclude(pk=pair.pk).count()
    mine = NetStep.objects.filter(pair=pair, step=step)
    span = mine.aggregate(began=Min("command__created_at"), ended=Max("collect__created_at"))
    if span["began"] is None or span["ended"] is None:
        return own, 0
    others = rows.exclude(run=pair.run_id).filter(
        steps__step__in=netrun.BUSY, steps__command__created_at__lte=span["ended"]
    )
    others = others.filter(Q(ended_at=None) | Q(ended_at__gte=span["began"]))
    return own, others.distinct().count()


def stations_of(nodes: Iterable[Node]) -> list[Station]:
    """Return nodes as the pairing takes them."""
    return [Station(node.name, node.rack.leaf.number) for node in nodes]


def measured(pairs: Iterable[NetPair]) -> list[Measured]:
    """Return what the pairs prove about each other, in the order they were tested.

    A pair whose test failed counts as slow whatever it measured; one of which nothing is known counts for nothing.
    """
    rows = []
    for pair in pairs:
        if pair.kind in netrun.LOADED or pair.step != netrun.DONE:
            continue
        ratio = pair.ratio
        if pair.verdict == netverdict.FAIL and (ratio is None or ratio >= pair.run.bar):
            ratio = 0.0
        rows.append(Measured(pair.a.name, pair.b.name, ratio))
    return rows


@dataclass(frozen=True)
class RunSeen:
    """A run with everything its page shows."""

    run: NetRun
    nodes: Sequence[Node]
    pairs: Sequence[NetPair]


def run_named(name: str) -> NetRun | None:
    """Return a run by its public name, or None."""
    head, _, number = name.partition("-")
    if head != "NET" or not number.isascii() or not number.isdigit() or len(number) > 9:
        return None
    return NetRun.objects.select_related("requested_by").filter(pk=int(number)).first()


def run_seen(run: NetRun) -> RunSeen:
    """Return a run with its nodes and pairs, in three queries."""
    nodes = [
        seat.node
        for seat in run.seats.select_related("node__host", "node__rack__leaf").order_by(
            "node__rack__leaf__number", "node__host__name"
        )
    ]
    by_pk: Mapping[int, Node] = {node.pk: node for node in nodes}
    pairs = list(run.pairs.defer("curve", "rails"))
    for pair in pairs:
        pair.a, pair.b, pair.run = by_pk[pair.a_id], by_pk[pair.b_id], run
    return RunSeen(run, nodes, pairs)


def run_list() -> list[NetRun]:
    """Return the newest runs."""
    return list(NetRun.objects.select_related("requested_by")[:RUNS_SHOWN])


def pair_seen(run: NetRun, pk: int) -> NetPair | None:
    """Return one pair of a run with its steps, or None."""
    return (
        run.pairs.select_related("a__host", "b__host", "run")
        .prefetch_related("steps__command", "steps__collect", "steps__subject")
        .filter(pk=pk)
        .first()
    )
