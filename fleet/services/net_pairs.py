"""Carries one pair through its steps: what both nodes are asked, what they answered, and each layer's verdict.

Both ends run under the shim; the console only starts them, waits for their end and collects what they printed.
Called under the lock of the pair's run.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import Prefetch

from fleet.execution import states
from fleet.execution.dispatch import (
    Order,
    command_cancel,
    command_dispatch,
    commands_dispatch,
    subject_create,
)
from fleet.execution.models import Command
from fleet.execution.output import command_sections
from fleet.models import NetPair, NetRun, NetStep
from fleet.readings.host.counters import Counters, parse_port_counters
from fleet.rules import netrun, netscripts, netverdict
from fleet.rules.message import say
from fleet.rules.netscripts import End, Part, Wiring
from fleet.rules.netverdict import Layer
from fleet.selectors.network import golden_of
from fleet.services.probe_store import storable

# Guards on real processes: longer than any of them needs, and never a measure.
PROBE_S, RAILS_S, CURVE_S = 120.0, 420.0, 420.0
CURVE_LIMIT_S, TURN_LIMIT_S = 300.0, 120.0
SPARE_S = 180.0  # for starting, stopping and collecting
OUT, RC = "out", "rc"


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


def loop_seconds(run: NetRun) -> float:
    """Return how long the loop lasts on this console's clock."""
    return float(run.loop_s / settings.TIME_SCALE)


def pair_advance(run: NetRun, pair: NetPair, now: datetime) -> bool:
    """Carry a pair one step on; True when it moved. `pair.steps` is fetched. Safe to call again at any moment."""
    if pair.step == netrun.DONE:
        return False
    if pair.step != netrun.WAITING and not _is_over(run, pair, now):
        return False
    _enter(run, pair, netrun.step_after(pair.step, pair.kind, run.layers), now)
    return True


def _enter(run: NetRun, pair: NetPair, step: str, now: datetime) -> None:
    pair.step, pair.step_at = step, now
    if step == netrun.DONE:
        _judge(run, pair)
        pair.ended_at = now
    else:
        _dispatch(run, pair)
    pair.save()


def _ends(pair: NetPair) -> tuple[End, End]:
    return End(pair.a.name, pair.a.host.address), End(pair.b.name, pair.b.host.address)


def _dispatch(run: NetRun, pair: NetPair) -> None:
    here, there = wirings_of(run, pair)
    a, b = _ends(pair)
    match pair.step:
        case netrun.BEFORE:
            sections = {
                "a": netscripts.reach_sections(here, b),
                "b": netscripts.reach_sections(there, a),
            }
            _probe(run, pair, sections)
        case netrun.AFTER:
            sections = {
                "a": [netscripts.counter_section(here)],
                "b": [netscripts.counter_section(there)],
            }
            _probe(run, pair, sections)
        case netrun.RAILS:
            _start(run, pair, "b", netscripts.server_argv(there))
            _start(run, pair, "a", netscripts.client_argv(here, b))
        case netrun.CURVE:
            _start(run, pair, "a", netscripts.curve_argv(here, a, b, CURVE_LIMIT_S))
        case netrun.LOOP:
            argv = netscripts.loop_argv(here, a, b, loop_seconds(run), TURN_LIMIT_S)
            _start(run, pair, "a", argv)


def _purpose(run: NetRun, pair: NetPair, side: str) -> str:
    return f"network:{run.public_id}/{pair.pk}/{pair.step}/{side}"


def _probe(run: NetRun, pair: NetPair, sections: dict[str, list[dict[str, Any]]]) -> None:
    orders = [
        Order(
            purpose=_purpose(run, pair, side),
            host=_node(pair, side).host,
            verb="probe",
            queue="probe",
            payload={"sections": asked},
            effect="probe",
            deadline_s=60.0,
            topic=run.topic,
        )
        for side, asked in sections.items()
    ]
    for side, command in zip(sections, commands_dispatch(orders), strict=True):
        NetStep.objects.create(pair=pair, step=pair.step, side=side, command=command)


def _start(run: NetRun, pair: NetPair, side: str, argv: list[str]) -> None:
    host = _node(pair, side).host
    subject = subject_create(host=host, name=f"net-{run.pk}-{pair.pk}-{pair.step}-{side}")
    command = command_dispatch(
        purpose=_purpose(run, pair, side),
        host=host,
        verb="start",
        queue="start",
        effect="ensure",
        subject=subject,
        payload={"argv": argv, "env": {}, "epoch": 1},
        deadline_s=60.0,
        topic=run.topic,
    )
    NetStep.objects.create(pair=pair, step=pair.step, side=side, command=command, subject=subject)


def _node(pair: NetPair, side: str) -> Any:
    return pair.a if side == "a" else pair.b


def steps_fetched() -> Prefetch:
    """Return what fetches the steps of many pairs with one query; outputs only when they are judged."""
    rows = NetStep.objects.select_related("command__host", "subject", "stop", "collect")
    return Prefetch("steps", queryset=rows)


def _steps(pair: NetPair, step: str) -> list[NetStep]:
    return [row for row in pair.steps.all() if row.step == step]


def _limit_s(run: NetRun, step: str) -> float:
    if step == netrun.LOOP:
        return loop_seconds(run) + TURN_LIMIT_S + SPARE_S
    return {netrun.RAILS: RAILS_S, netrun.CURVE: CURVE_S}.get(step, PROBE_S)


def _is_over(run: NetRun, pair: NetPair, now: datetime) -> bool:
    """Whether nothing of this step is waited for: all ended and collected, or far beyond the limit."""
    rows = _steps(pair, pair.step)
    assert pair.step_at is not None
    limit = timedelta(seconds=_limit_s(run, pair.step))
    is_late = now > pair.step_at + limit
    is_given_up = now > pair.step_at + limit + timedelta(seconds=SPARE_S)
    ended = {row.side: _has_ended(row) for row in rows}
    for row in rows:
        # A server whose client is done waits for nobody; a step beyond its limit is ended with proof.
        is_alone = row.side == "b" and ended.get("a", False) and pair.step == netrun.RAILS
        if row.subject is not None and not ended[row.side] and (is_late or is_alone):
            _stop(run, row)
        elif row.subject is not None and ended[row.side] and row.collect is None:
            _collect(run, row)
    if all(_is_settled(row) for row in rows):
        return True
    if is_given_up:
        _let_go(rows)
    return is_given_up


def _has_ended(row: NetStep) -> bool:
    if row.subject is None:
        return row.command.is_settled
    if row.command.is_settled and row.command.state != states.SUCCEEDED:
        return True
    return row.subject.has_ended or (row.stop is not None and row.stop.is_settled)


def _is_settled(row: NetStep) -> bool:
    if row.subject is None:
        return row.command.is_settled
    if row.command.is_settled and row.command.state != states.SUCCEEDED:
        return True
    return row.collect is not None and row.collect.is_settled


def _stop(run: NetRun, row: NetStep) -> None:
    if row.stop is not None:
        return
    row.stop = command_dispatch(
        purpose=f"{row.command.purpose}/stop",
        host=row.command.host,
        verb="stop",
        queue="stop",
        effect="ensure",
        subject=row.subject,
        payload={"grace_s": 2},
        topic=run.topic,
    )
    row.save(update_fields=["stop"])


def _collect(run: NetRun, row: NetStep) -> None:
    if row.command.is_settled and row.command.state != states.SUCCEEDED:
        return
    row.collect = command_dispatch(
        purpose=f"{row.command.purpose}/collect",
        host=row.command.host,
        verb="collect",
        queue="probe",
        effect="probe",
        subject=row.subject,
        payload={"files": [OUT, RC]},
        deadline_s=60.0,
        topic=run.topic,
    )
    row.save(update_fields=["collect"])


def _let_go(rows: Iterable[NetStep]) -> None:
    """Ask that what was not answered in all this time does not happen any more."""
    for row in rows:
        for command in (row.command, row.collect):
            if command is not None and not command.is_settled:
                command_cancel(command=command)


def pair_cancel(run: NetRun, pair: NetPair, now: datetime) -> None:
    """End a pair that is at work: both ends are stopped on their nodes, and it proves nothing."""
    rows = _steps(pair, pair.step)
    for row in rows:
        if row.subject is not None and row.command.state == states.SUCCEEDED:
            if not row.subject.has_ended:
                _stop(run, row)
        elif not row.command.is_settled:
            command_cancel(command=row.command)
    pair.step, pair.ended_at, pair.verdict = netrun.DONE, now, netverdict.UNKNOWN
    why = say("The run was cancelled.")
    for name in netrun.layers_of(pair.kind, run.layers):
        pair.layers.setdefault(name, netverdict.unknown_layer(name, why).as_object())
    pair.save()


# -- what was found


def _judge(run: NetRun, pair: NetPair) -> None:
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
        yield netverdict.with_said(_or_why(layer, parts, why), again)
    if netverdict.TOGETHER in wanted:
        parts, why = _printed(pair, netrun.LOOP)
        layer = netverdict.judge_together(parts, _alone(run, pair))
        yield netverdict.with_said(_or_why(layer, parts, why), again)


def _or_why(layer: Layer, parts: list[Part], why: str) -> Layer:
    return layer if parts or not why else netverdict.unknown_layer(layer.name, why)


def _alone(run: NetRun, pair: NetPair) -> float | None:
    """What the same two nodes had before the load, whoever of them began."""
    both = (pair.a_id, pair.b_id)
    rows = run.pairs.exclude(kind=netrun.TOGETHER).filter(
        a__in=both, b__in=both, busbw_gbs__isnull=False
    )
    return rows.order_by("-round").values_list("busbw_gbs", flat=True).first()


def _reach(pair: NetPair, here: Wiring, there: Wiring) -> Layer:
    """Both directions: a packet that arrives one way says nothing of the other."""
    rows = {row.side: row for row in _steps(pair, netrun.BEFORE)}
    said = []
    values: dict[str, Any] = {}
    for side, wiring in (("a", here), ("b", there)):
        command = rows[side].command if side in rows else None
        sections = command_sections(command) if command else {}
        if command is None or command.state != states.SUCCEEDED or "ping" not in sections:
            why = (command.explanation if command else "") or say("it was not asked")
            said.append(netverdict.Said(netverdict.UNKNOWN, _of(pair, side, why)))
            continue
        layer = netverdict.judge_reach(
            sections["ping"].text, sections["route"].text if "route" in sections else "", wiring
        )
        said += [netverdict.Said(one.verdict, _of(pair, side, one.text)) for one in layer.said]
        values[_node(pair, side).name] = dict(layer.values)
    return netverdict.with_said(Layer(netverdict.REACH, netverdict.UNKNOWN, (), values), said)


def _of(pair: NetPair, side: str, text: str) -> str:
    return say("%(node)s: %(text)s", node=_node(pair, side).name, text=text)


def _retransmits(pair: NetPair) -> list[netverdict.Said]:
    read: dict[tuple[str, str], Counters | None] = {}
    for step in (netrun.BEFORE, netrun.AFTER):
        for row in _steps(pair, step):
            found = command_sections(row.command).get("counters")
            read[step, row.side] = parse_port_counters(found.text) if found else None
    return [
        netverdict.judge_retransmits(
            _node(pair, side).name,
            read.get((netrun.BEFORE, side)),
            read.get((netrun.AFTER, side)),
        )
        for side in ("a", "b")
    ]


def _printed(pair: NetPair, step: str) -> tuple[list[Part], str]:
    """Return what the first node printed in a step, cut at its marks; or nothing, and why."""
    row = next((one for one in _steps(pair, step) if one.side == "a"), None)
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
