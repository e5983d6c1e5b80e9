"""Layer 4 of network acceptance: what a pair keeps of its bandwidth while more and more pairs run at once. Pure.

The load of the curve is the number of pairs that run at once, from one to all: only pairs share the uplinks of a leaf,
while message sizes and the rails of one pair load nothing that others use, and a rung costs only a few turns of the
collective. Its first rung is the pair alone, and that is what layer 4 compares with: in layer 3 other pairs of the
same round are tested on the same leaf.
Not counted: what serving units send meanwhile.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any, TypeVar

from fleet.readings.told import sentence_of
from fleet.readings.verdicts.nccl_tests import report_nccl_tests
from fleet.rules.message import say
from fleet.rules.netpairs import golden_ratio
from fleet.rules.netscripts import Part
from fleet.rules.netverdict import (
    BAR,
    FAIL,
    HUNG,
    PASS,
    TOGETHER,
    UNKNOWN,
    Golden,
    Layer,
    Said,
    beside_golden,
    busbw_of,
    first_line,
    layer_of,
    unknown_layer,
)

# Under the load of all pairs at once, of the same pair alone.
TOGETHER_BAR = 0.90
# The slowest turn in a hundred, against the median turn: above it the pair has outliers.
P99_OVER_MEDIAN = 1.25
TURNS_WANTED = 5
# How long one rung loads the fabric, s: several turns, so that those of all its pairs overlap.
RUNG_S = 20.0
T = TypeVar("T")


@dataclass(frozen=True)
class Turns:
    """What the turns of a loop measured: GB/s and us of those that are whole, and a sentence for every other one."""

    count: int
    widths: Sequence[float] = ()
    times: Sequence[float] = ()
    said: Sequence[Said] = ()


@dataclass(frozen=True)
class Load:
    """What is known of a pair under load besides its own turns.

    `at_once`: pairs of the last stage. `curve`: pairs at once to GB/s of the rungs before it; `doubts`: what was wrong
    with them. `foreign`: pairs of other runs that were tested on its leaves meanwhile.
    """

    at_once: int
    curve: Mapping[int, float] = field(default_factory=dict)
    doubts: Sequence[Said] = ()
    foreign: int = 0


def rungs(pairs: int) -> list[int]:
    """Return how many pairs run at once before all of them do: 1, 2, 4, ..."""
    return [1 << at for at in range(64) if 1 << at < pairs]


def plan_ladder(pairs: Sequence[T]) -> list[list[T]]:
    """Return the rounds of the curve: on each rung every pair stands once in a group of that size.

    The last group of a rung is filled with pairs that ran already, so that it is a load of the same size.
    """
    return [
        [pairs[(start + at) % len(pairs)] for at in range(size)]
        for size in rungs(len(pairs))
        for start in range(0, len(pairs), size)
    ]


def read_turns(parts: Iterable[Part]) -> Turns:
    """Read every turn of a loop of nccl-tests; one that hung, failed or was cut is said and not counted."""
    turns = [part for part in parts if part.kind == "loop"]
    rows, times, widths = [], [], []
    for part in turns:
        if part.rc in HUNG:
            rows.append(
                Said(FAIL, say("Turn %(n)s hung: it did not end in its time.", n=part.name))
            )
            continue
        report = report_nccl_tests(BytesIO(part.text.encode()))
        busbw = busbw_of(report.values)
        if report.verdict == FAIL or part.rc:
            why = sentence_of(first_line(report, part))
            rows.append(Said(FAIL, say("Turn %(n)s: %(why)s", n=part.name, why=why)))
        elif report.verdict != PASS or busbw is None or not part.is_whole:
            rows.append(Said(UNKNOWN, say("Turn %(n)s has no whole output.", n=part.name)))
        else:
            widths.append(busbw)
            times.append(float(report.values["table"][-1]["oop"]["time_us"]))
    return Turns(len(turns), widths, times, rows)


def judge_rung(parts: Sequence[Part], load: Load) -> Layer:
    """Judge one rung: only whether it was measured. Its width is a point of the curve, which the last stage judges."""
    turns = read_turns(parts)
    if not turns.count:
        return unknown_layer(TOGETHER, say("No turn of the loop has an output."))
    rows = [*turns.said, *_foreign_said(load)]
    values: dict[str, Any] = {"turns": turns.count, "at_once": load.at_once}
    if turns.widths:
        values["busbw"] = statistics.median(turns.widths)
        rows.append(Said(PASS, _rung_words(values["busbw"], load.at_once)))
    return layer_of(TOGETHER, rows, values)


def judge_together(
    parts: Sequence[Part],
    load: Load,
    golden: Golden,
    bar: float = BAR,
    share_bar: float = TOGETHER_BAR,
) -> Layer:
    """Layer 4: the loop under the load of all pairs: no hang, no outlier, the share of what it had alone, and each
    point of the curve that the golden pair has as well beside that one.
    """
    turns = read_turns(parts)
    if not turns.count:
        return unknown_layer(TOGETHER, say("No turn of the loop has an output."))
    curve, rows = dict(load.curve), [*turns.said, *load.doubts, *_foreign_said(load)]
    alone = curve.get(1)
    values: dict[str, Any] = {"turns": turns.count, "alone": alone, "at_once": load.at_once}
    if turns.widths:
        values["busbw"] = curve[load.at_once] = statistics.median(turns.widths)
        values["p99_us"], values["median_us"] = p99(turns.times), statistics.median(turns.times)
        rows += [
            _share_said(values["busbw"], alone, load.at_once, share_bar),
            _p99_said(turns.times),
        ]
    values["load"] = [[count, round(width, 2)] for count, width in sorted(curve.items())]
    rows += [
        beside_golden(_at_once(count), width, golden.load[count], golden, bar, "GB/s")
        for count, width in sorted(curve.items())
        if golden.load.get(count)
    ]
    return layer_of(TOGETHER, rows, values)


def _rung_words(busbw: float, at_once: int) -> str:
    if at_once == 1:
        return say(
            "%(found)s GB/s while no other pair of this run was tested.", found=f"{busbw:.1f}"
        )
    return say("%(found)s GB/s while %(n)d pairs ran at once.", found=f"{busbw:.1f}", n=at_once)


def _at_once(count: int) -> str:
    return say("Alone") if count == 1 else say("%(n)d pairs at once", n=count)


def _foreign_said(load: Load) -> list[Said]:
    if not load.foreign:
        return []
    why = say(
        "%(n)d pairs of other runs were tested on its leaves meanwhile, so its load is not known. Test again when they"
        " have ended.",
        n=load.foreign,
    )
    return [Said(UNKNOWN, why)]


def _share_said(busbw: float, alone: float | None, at_once: int, bar: float) -> Said:
    if at_once < 2:
        why = say(
            "%(found)s GB/s, but only this pair ran: one pair is no load. Test at least four nodes.",
            found=f"{busbw:.1f}",
        )
        return Said(UNKNOWN, why)
    ratio = golden_ratio(busbw, alone)
    if ratio is None:
        return Said(
            UNKNOWN, say("%(found)s GB/s, and not measured alone before.", found=f"{busbw:.1f}")
        )
    text = say(
        "%(found)s GB/s while %(n)d pairs ran at once, %(percent)s %% of what this pair had alone; at least %(bar)s %%"
        " expected.",
        found=f"{busbw:.1f}",
        n=at_once,
        percent=f"{100 * ratio:.1f}",
        bar=f"{100 * bar:.0f}",
    )
    return Said(PASS if ratio >= bar else FAIL, text)


def p99(times: Sequence[float]) -> float:
    """Return the nearest-rank 99th percentile: with fewer than a hundred values it is the largest."""
    ordered = sorted(times)
    return ordered[max(0, math.ceil(0.99 * len(ordered)) - 1)]


def _p99_said(times: Sequence[float]) -> Said:
    if len(times) < TURNS_WANTED:
        why = say(
            "%(n)d turns are too few for a p99; %(least)d are needed.",
            n=len(times),
            least=TURNS_WANTED,
        )
        return Said(UNKNOWN, why)
    slowest, middle = p99(times), statistics.median(times)
    text = say(
        "p99 of %(n)d turns is %(p99)s ms, the median %(median)s ms; at most %(most)s times it expected.",
        n=len(times),
        p99=f"{slowest / 1000:.2f}",
        median=f"{middle / 1000:.2f}",
        most=f"{P99_OVER_MEDIAN:g}",
    )
    return Said(PASS if slowest <= P99_OVER_MEDIAN * middle else FAIL, text)


def beside_said(own: int, foreign: int) -> Said:
    """Say what else was tested on the leaves of a pair in layer 3: its width is not what it has alone then."""
    if not own and not foreign:
        return Said(PASS, say("No other pair was tested on its leaves meanwhile."))
    text = say(
        "Not alone: %(own)d other pairs of this run and %(foreign)d of other runs were tested on its leaves meanwhile.",
        own=own,
        foreign=foreign,
    )
    return Said(PASS, text)
