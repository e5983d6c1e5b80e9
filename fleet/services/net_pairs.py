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
from fleet.models import NetPair, NetRun, NetStep
from fleet.rules import netload, netreach, netrun, netscripts, netverdict
from fleet.rules.message import say
from fleet.rules.netscripts import End, Wiring
from fleet.services.net_found import (
    OUT,
    node_of,
    pair_judge,
    rail_ends_of,
    steps_in,
    wirings_of,
)

# Guards on real processes: longer than any of them needs, and never a measure.
PROBE_S, RAILS_S, CURVE_S = 120.0, 420.0, 420.0
CURVE_LIMIT_S, TURN_LIMIT_S = 300.0, 120.0
SPARE_S = 180.0  # for starting, stopping and collecting
RC = "rc"


def loop_seconds(run: NetRun, kind: str = netrun.TOGETHER) -> float:
    """Return how long the loop of all pairs, or of one rung, lasts on this console's clock."""
    seconds = netload.RUNG_S if kind == netrun.RUNG else run.loop_s
    return float(seconds / settings.TIME_SCALE)


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
        pair_judge(run, pair)
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
                "a": netreach.reach_sections(here, b),
                "b": netreach.reach_sections(there, a),
            }
            _probe(run, pair, sections)
        case netrun.REACH:
            _probe(run, pair, _rail_sections(pair, here, there))
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
            argv = netscripts.loop_argv(here, a, b, loop_seconds(run, pair.kind), TURN_LIMIT_S)
            _start(run, pair, "a", argv)


def _rail_sections(pair: NetPair, here: Wiring, there: Wiring) -> dict[str, list[dict[str, Any]]]:
    """What layer 1 asks of the rails, once both nodes have told their addresses."""
    ends = rail_ends_of(pair, here, there)
    return {
        "a": [
            netreach.rail_section(here, ends["a"], ends["b"], netreach.cards_beside(here, there))
        ],
        "b": [
            netreach.rail_section(there, ends["b"], ends["a"], netreach.cards_beside(there, here))
        ],
    }


def _purpose(run: NetRun, pair: NetPair, side: str) -> str:
    return f"network:{run.public_id}/{pair.pk}/{pair.step}/{side}"


def _probe(run: NetRun, pair: NetPair, sections: dict[str, list[dict[str, Any]]]) -> None:
    orders = [
        Order(
            purpose=_purpose(run, pair, side),
            host=node_of(pair, side).host,
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
    host = node_of(pair, side).host
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


def steps_fetched() -> Prefetch:
    """Return what fetches the steps of many pairs with one query; outputs only when they are judged."""
    rows = NetStep.objects.select_related("command__host", "subject", "stop", "collect")
    return Prefetch("steps", queryset=rows)


def _limit_s(run: NetRun, pair: NetPair) -> float:
    step = pair.step
    if step == netrun.LOOP:
        return loop_seconds(run, pair.kind) + TURN_LIMIT_S + SPARE_S
    return {netrun.RAILS: RAILS_S, netrun.CURVE: CURVE_S}.get(step, PROBE_S)


def _is_over(run: NetRun, pair: NetPair, now: datetime) -> bool:
    """Whether nothing of this step is waited for: all ended and collected, or far beyond the limit."""
    rows = steps_in(pair, pair.step)
    assert pair.step_at is not None
    limit = timedelta(seconds=_limit_s(run, pair))
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
    rows = steps_in(pair, pair.step)
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
