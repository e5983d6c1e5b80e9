"""Network acceptance of the scene: one run over all nodes that found a bad one, one at work, a matrix to sign."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.utils import timezone

from fleet.models import NetGolden, NetPair, NetRun, NetSeat, Node
from fleet.rules import netpairs, netrun, netverdict
from fleet.rules.message import say
from fleet.rules.netpairs import Pair
from fleet.selectors.network import measured, stations_of
from tests import factories
from tests.network import make_matrix

GOLD, BAD = 341.0, "gpu038"
ROUNDS = 12
CURVE = (1.0, 1.0, 0.998, 0.981, 0.93)  # what is left to the golden pair of its bandwidth
RAILS = {f"mlx5_{n}": {"one": 391.4 + n / 10, "two": 767.0 + n / 10} for n in range(8)}


def draw() -> None:
    nodes = list(Node.objects.exclude(state=Node.State.RETIRED).order_by("host__name"))
    _matrices(nodes)
    run = _run(nodes)
    _pairs(run, nodes)
    _end(run)
    _curve(run.pairs.first())
    _at_work(nodes[:8])


def _matrices(nodes: list[Node]) -> None:
    hcas = [f"mlx5_{n}" for n in range(8)]
    make_matrix(
        leaf=nodes[-1].rack.leaf, hcas=hcas, traffic_class=106, note="leaf 6 was cabled in May",
        signed_by=factories.make_person("bo"), signed_at=timezone.now(),
    )  # fmt: skip
    make_matrix(hcas=hcas, traffic_class=106, note="ticket NET-812, read on 48 nodes")


def _run(nodes: list[Node]) -> NetRun:
    run = NetRun.objects.create(
        scope="gpu[001-048]",
        layers=list(netverdict.LAYERS[:3]),
        wiring={node.name: {"matrix": "M-0002"} for node in nodes},
        requested_by=factories.make_person("ana"),
    )
    NetSeat.objects.bulk_create(
        NetSeat(run=run, node=node, released_at=timezone.now()) for node in nodes
    )
    return run


def _pairs(run: NetRun, nodes: list[Node]) -> None:
    by_name = {node.name: node for node in nodes}
    rounds = netpairs.plan_rounds(stations_of(nodes))[:ROUNDS]
    rows = [
        _pair(run, by_name, pair, number, number * 24 + at)
        for number, pairs in enumerate(rounds, start=1)
        for at, pair in enumerate(pairs)
    ]
    NetPair.objects.bulk_create(rows)


def _pair(run: NetRun, by_name: dict[str, Node], pair: Pair, number: int, at: int) -> NetPair:
    ratio = 0.80 + at % 5 / 100 if BAD in pair.names else 0.978 + at * 7 % 25 / 1000
    is_good = ratio >= run.bar
    verdict = netverdict.PASS if is_good else netverdict.FAIL
    text = say(
        "%(what)s: %(found)s %(unit)s, %(percent)s %% of the golden pair %(pair)s; at least %(bar)s %% expected.",
        what=say("Bus bandwidth"), found=f"{GOLD * ratio:.1f}", unit="GB/s", percent=f"{100 * ratio:.1f}",
        pair="gpu001 + gpu002", bar="95",
    )  # fmt: skip
    proof = say("%(count)d channels between the nodes, all by NET/IB with GPU direct.", count=64)
    came = say("%(sent)d of %(sent)d packets of MTU %(mtu)d came back.", sent=5, mtu=9000)
    rail = say(
        "%(what)s: %(found)s %(unit)s, %(percent)s %% of the golden pair %(pair)s; at least %(bar)s %% expected.",
        what="mlx5_0, one way", found="391.4", unit="Gb/s", percent="99.9", pair="gpu001 + gpu002", bar="95",
    )  # fmt: skip
    layers = {
        netverdict.REACH: _layer("pass", came),
        netverdict.RAILS: _layer("pass", rail),
        netverdict.COLLECTIVE: _layer(verdict, text, proof),
    }
    return NetPair(
        run=run, round=number, a=by_name[pair.a.name], b=by_name[pair.b.name], topology=pair.topology,
        step=netrun.DONE, verdict=verdict, layers=layers, rails=RAILS, busbw_gbs=GOLD * ratio, ratio=ratio,
        curve=[[8 << shift, GOLD * ratio * shift / 30, 36 + 2.0**shift / 1e3] for shift in range(31)],
        ended_at=timezone.now(),
    )  # fmt: skip


def _curve(pair: NetPair) -> None:
    """The golden pair under load, and another bar of it."""
    load = [[count, GOLD * share] for count, share in zip((1, 2, 4, 8, 24), CURVE, strict=True)]
    words = say("%(found)s GB/s while %(n)d pairs ran at once, %(percent)s %% of what this pair had alone; at least"
                " %(bar)s %% expected.", found=f"{load[-1][1]:.1f}", n=24, percent="93.0", bar="90")  # fmt: skip
    layer = {**_layer("pass", words), "values": {"load": load, "at_once": 24, "busbw": load[-1][1]}}
    NetPair.objects.create(
        run=pair.run, round=ROUNDS + 1, kind=netrun.TOGETHER, a=pair.a, b=pair.b, topology=pair.topology,
        step=netrun.DONE, verdict=netverdict.PASS, layers={netverdict.TOGETHER: layer},
        loaded_gbs=load[-1][1], p99_us=42_700.0, ended_at=timezone.now(),
    )  # fmt: skip
    first = NetGolden.objects.get()
    NetGolden.objects.update(is_current=False)
    NetGolden.objects.create(
        node_class=first.node_class, topology=first.topology, pair=pair, bar=0.93,
        note="agreed with the network team after the optics were changed",
        chosen_by=factories.make_person("bo"),
    )  # fmt: skip


def _layer(verdict: str, first: str, *others: str) -> dict[str, Any]:
    """The first sentence carries the verdict, the others are good."""
    rows = [{"verdict": verdict, "text": first}]
    rows += [{"verdict": "pass", "text": text} for text in others]
    return {"verdict": verdict, "said": rows, "values": {}}


def _end(run: NetRun) -> None:
    pairs = list(run.pairs.select_related("run", "a__host", "b__host"))
    found = netpairs.judge_suspects(measured(pairs), run.bar)
    failed = sum(pair.verdict == netverdict.FAIL for pair in pairs)
    gold = pairs[0]
    NetGolden.objects.create(node_class=gold.a.node_class, topology=gold.topology, pair=gold)
    place = f"{gold.a.node_class}/{gold.topology}"
    at = timezone.now() - timedelta(hours=3)
    NetRun.objects.filter(pk=run.pk).update(
        state=netrun.DONE,
        verdict=netverdict.FAIL,
        explanation=say("%(n)d of %(all)d pairs failed.", n=failed, all=len(pairs)),
        suspects=[{"kind": s.kind, "nodes": list(s.nodes), "why": s.why} for s in found],
        golden={place: {"pair": str(gold), "pair_id": gold.pk, "run": str(run), "busbw": GOLD}},
        created_at=at,
        ended_at=at + timedelta(minutes=52),
    )


def _at_work(nodes: list[Node]) -> None:
    run = NetRun.objects.create(
        scope="gpu[001-008]",
        layers=list(netverdict.LAYERS),
        wiring={node.name: {"matrix": "M-0002"} for node in nodes},
        explanation=say("%(done)d of %(total)d pairs tested.", done=0, total=28),
        requested_by=factories.make_person("bo"),
    )
    NetSeat.objects.bulk_create(NetSeat(run=run, node=node) for node in nodes)
    by_name = {node.name: node for node in nodes}
    for number, pairs in enumerate(netpairs.plan_rounds(stations_of(nodes)), start=1):
        NetPair.objects.bulk_create(
            NetPair(
                run=run, round=number, a=by_name[pair.a.name], b=by_name[pair.b.name],
                topology=pair.topology, step=netrun.RAILS if number == 1 else netrun.WAITING,
            )
            for pair in pairs
        )  # fmt: skip
