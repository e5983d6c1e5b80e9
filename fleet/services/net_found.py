"""What one pair proved: reads what both nodes printed and judges each layer. Only reads; net_pairs.py carries it on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fleet.execution import states
from fleet.execution.models import Command
from fleet.execution.output import command_sections
from fleet.models import NetPair, NetRun, NetStep
from fleet.readings.host.counters import Counters, parse_port_counters
from fleet.rules import netload, netreach, netrun, netscripts, netverdict
from fleet.rules.message import say
from fleet.rules.netscripts import Part, Wiring
from fleet.rules.netverdict import Layer
from fleet.selectors.network import golden_of, pairs_beside, rungs_of
from fleet.services.probe_store import storable

OUT = "out"


def wirings_of(run: NetRun, pair: NetPair) -> tuple[Wiring, Wiring]:
    """Return what the matrix said of both nodes when the run began."""
    return _wiring(run.wiring[pair.a.name]), _wiring(run.wiring[pair.b.name])


def _wiring(stored: dict[str, Any]) -> Wiring:
    return Wiring(
        hcas=tuple(stored["hcas"]),
        interface=stored["interface"],
        mtu=stored["mtu"],
        gid_index=stored["gid_index"],
        traffic_class=stored["traffic_class"],
    )


def node_of(pair: NetPair, side: str) -> Any:
    """Return the node of a side."""
    return pair.a if side == "a" else pair.b


def steps_in(pair: NetPair, step: str) -> list[NetStep]:
    """Return what both nodes were asked in one step; `pair.steps` is fetched."""
    return [row for row in pair.steps.all() if row.step == step]


def rail_ends_of(
    pair: NetPair, here: Wiring, there: Wiring
) -> dict[str, dict[str, netreach.RailEnd]]:
    """Return by side and card the addresses of the rails, as both nodes told them."""
    rows = {row.side: row for row in steps_in(pair, netrun.BEFORE)}
    ends = {}
    for side, wiring in (("a", here), ("b", there)):
        found = command_sections(rows[side].command).get("gids") if side in rows else None
        ends[side] = netreach.rail_ends(found.text if found else "", wiring)
    return ends


def pair_judge(run: NetRun, pair: NetPair) -> None:
    """Set the verdict, the layers and the numbers of a pair whose steps have ended; the caller saves it."""
    layers = {layer.name: layer for layer in _layers(run, pair)}
    pair.layers = storable({name: layer.as_object() for name, layer in layers.items()})
    wanted = netrun.layers_of(pair.kind, run.layers)
    pair.verdict = netverdict.verdict_of_layers(pair.layers, wanted)
    if rails := layers.get(netverdict.RAILS):
        pair.rails = dict(rails.values.get("rails", {}))
    if collective := layers.get(netverdict.COLLECTIVE):
        pair.busbw_gbs = collective.values.get("busbw")
        pair.curve = list(collective.values.get("curve", []))
        pair.ratio = netverdict.golden_ratio(pair.busbw_gbs, golden_of(run, pair).busbw)
    if together := layers.get(netverdict.TOGETHER):
        pair.loaded_gbs = together.values.get("busbw")
        pair.p99_us = together.values.get("p99_us")


def _layers(run: NetRun, pair: NetPair) -> Iterable[Layer]:
    here, there = wirings_of(run, pair)
    wanted = netrun.layers_of(pair.kind, run.layers)
    golden = golden_of(run, pair)
    again = _retransmits(pair)
    if netverdict.REACH in wanted:
        yield _reach(pair, here, there)
    if netverdict.RAILS in wanted:
        parts, why = _printed(pair, netrun.RAILS)
        layer = netverdict.judge_rails(parts, here, golden, run.bar)
        yield _or_why(layer, parts, why)
    if netverdict.COLLECTIVE in wanted:
        parts, why = _printed(pair, netrun.CURVE)
        names = (pair.a.name, pair.b.name)
        layer = netverdict.judge_collective(parts, names, golden, run.bar, (here, there))
        beside = netload.beside_said(*pairs_beside(pair, netrun.CURVE))
        yield netverdict.with_said(_or_why(layer, parts, why), [beside, *again] if parts else again)
    if netverdict.TOGETHER in wanted:
        parts, why = _printed(pair, netrun.LOOP)
        if pair.kind == netrun.RUNG:
            yield _or_why(netload.judge_rung(parts, _load(pair)), parts, why)
        else:
            layer = netload.judge_together(parts, _load(pair), golden, run.bar)
            yield netverdict.with_said(_or_why(layer, parts, why), again)


def _or_why(layer: Layer, parts: list[Part], why: str) -> Layer:
    return layer if parts or not why else netverdict.unknown_layer(layer.name, why)


def _load(pair: NetPair) -> netload.Load:
    """What else is known of a pair under load: how many ran with it, what its rungs measured, what was beside it."""
    at_once = NetPair.objects.filter(run=pair.run_id, round=pair.round).count()
    _own, foreign = pairs_beside(pair, netrun.LOOP)
    if pair.kind == netrun.RUNG:
        return netload.Load(at_once, foreign=foreign)
    curve: dict[int, float] = {}
    doubts = []
    for rung in rungs_of(pair):
        layer = rung.layers.get(netverdict.TOGETHER) or {}
        count, width = layer.get("values", {}).get("at_once"), layer.get("values", {}).get("busbw")
        if count and width:
            curve[count] = width
        doubts += [
            netverdict.Said(
                one["verdict"], say("Round %(n)d: %(text)s", n=rung.round, text=one["text"])
            )
            for one in layer.get("said", ())
            if one["verdict"] != netverdict.PASS
        ]
    return netload.Load(at_once, curve, doubts, foreign)


def _reach(pair: NetPair, here: Wiring, there: Wiring) -> Layer:
    """Host and rails in both directions: a packet that arrives one way says nothing of the other."""
    host, rails = _host_reach(pair, here, there), _rail_reach(pair, here, there)
    values = {
        name: {**host.values.get(name, {}), **rails.values.get(name, {})}
        for name in (pair.a.name, pair.b.name)
    }
    both = Layer(netverdict.REACH, netverdict.UNKNOWN, (), values)
    return netverdict.with_said(both, [*host.said, *rails.said])


def _rail_reach(pair: NetPair, here: Wiring, there: Wiring) -> Layer:
    """The rails, of which InfiniBand has no address."""
    ends = rail_ends_of(pair, here, there)
    rows = {row.side: row for row in steps_in(pair, netrun.REACH)}
    said, values = [], {}
    for side, other, mine, theirs in (("a", "b", here, there), ("b", "a", there, here)):
        if mine.gid_index is None:
            continue
        found = command_sections(rows[side].command).get("rails") if side in rows else None
        layer = netreach.judge_rails_reached(
            found.text if found else "",
            mine,
            ends[side],
            ends[other],
            netreach.cards_beside(mine, theirs),
        )
        said += [netverdict.Said(one.verdict, _of(pair, side, one.text)) for one in layer.said]
        values[node_of(pair, side).name] = dict(layer.values)
    return Layer(netverdict.REACH, netverdict.UNKNOWN, tuple(said), values)


def _host_reach(pair: NetPair, here: Wiring, there: Wiring) -> Layer:
    rows = {row.side: row for row in steps_in(pair, netrun.BEFORE)}
    said = []
    values: dict[str, Any] = {}
    for side, wiring in (("a", here), ("b", there)):
        command = rows[side].command if side in rows else None
        sections = command_sections(command) if command else {}
        if command is None or command.state != states.SUCCEEDED or "ping" not in sections:
            why = (command.explanation if command else "") or say("it was not asked")
            said.append(netverdict.Said(netverdict.UNKNOWN, _of(pair, side, why)))
            continue
        layer = netreach.judge_host(
            sections["ping"].text, sections["route"].text if "route" in sections else "", wiring
        )
        said += [netverdict.Said(one.verdict, _of(pair, side, one.text)) for one in layer.said]
        values[node_of(pair, side).name] = dict(layer.values)
    return Layer(netverdict.REACH, netverdict.UNKNOWN, tuple(said), values)


def _of(pair: NetPair, side: str, text: str) -> str:
    return say("%(node)s: %(text)s", node=node_of(pair, side).name, text=text)


def _retransmits(pair: NetPair) -> list[netverdict.Said]:
    read: dict[tuple[str, str], Counters | None] = {}
    for step in (netrun.BEFORE, netrun.AFTER):
        for row in steps_in(pair, step):
            found = command_sections(row.command).get("counters")
            read[step, row.side] = parse_port_counters(found.text) if found else None
    return [
        netverdict.judge_retransmits(
            node_of(pair, side).name,
            read.get((netrun.BEFORE, side)),
            read.get((netrun.AFTER, side)),
        )
        for side in ("a", "b")
    ]


def _printed(pair: NetPair, step: str) -> tuple[list[Part], str]:
    """Return what the first node printed in a step, cut at its marks; or nothing, and why."""
    row = next((one for one in steps_in(pair, step) if one.side == "a"), None)
    if row is None:
        return [], say("it was not begun")
    if row.collect is None or row.collect.state != states.SUCCEEDED:
        return [], _why_nothing(row)
    found = command_sections(row.collect).get(OUT)
    if found is None or found.error:
        return [], say("what it printed could not be read from the node")
    return netscripts.split_parts(found.text), ""


def _why_nothing(row: NetStep) -> str:
    last: Command = row.collect or row.command
    if last.explanation:
        return str(last.explanation)
    return say("%(node)s was lost in the middle of the test", node=row.command.host.name)
