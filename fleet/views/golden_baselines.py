"""Draws what was measured on every node beside gold: a dot a node over one line, golden value, bar, outliers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from django.utils.translation import gettext as _

from fleet.models import GoldenKey
from fleet.rules.golden import RANGE, RATIO, is_number

WIDTH, EDGE = 268, 8
# How a unit of a fact is said on a line of numbers: divided by this, in that unit (UI.md section 11).
_SAID_IN: dict[str, tuple[float, str]] = {"B": (2.0**30, "GiB"), "s": (1e-3, "ms")}
_RATE_KEYS = "_gbs"  # measured rates are stored without a unit and named by it
# Dots of one value stand on these lines below each other, by the order of the nodes.
LINES = (10, 6, 14)
NAMED_MOST = 3


@dataclass(frozen=True)
class Baseline:
    """One key over the nodes. Places are along the line, 0 to WIDTH; numbers are words in `unit`."""

    key: str
    unit: str
    golden: str
    bar: str
    low: str
    middle: str
    high: str
    golden_x: float
    bars_x: list[float]
    dots: list[tuple[float, int, str]]  # place, line, words of the tip
    outliers: list[tuple[float, str]]  # place, words of the tip
    outlier_names: str
    missing: int
    label: str


def baselines_drawn(
    keys: Iterable[GoldenKey], values: Mapping[str, Mapping[str, float]], nodes: int
) -> list[Baseline]:
    """Draw the keys that are a number with a bar; `values`: key -> node name -> what was read of it last.

    A node whose reading has expired has no value here; it is counted as missing and never drawn at zero.
    """
    return [
        _baseline(key, values[key.key], nodes)
        for key in keys
        if is_number(key.value) and key.tolerance in (RATIO, RANGE) and values.get(key.key)
    ]


def _baseline(key: GoldenKey, read: Mapping[str, float], nodes: int) -> Baseline:
    divisor, unit = _said_in(key)
    read = {name: number / divisor for name, number in read.items()}
    gold = key.value / divisor
    lowest, highest = (None if one is None else one / divisor for one in _bounds(key))
    bars = [bound for bound in (lowest, highest) if bound is not None]
    numbers = sorted(read.values())
    place = _place([*numbers, gold, *bars])
    off = {name for name, number in read.items() if _is_off(number, lowest, highest)}
    tips = {name: f"{name}: {_words(number)} {unit}".rstrip() for name, number in read.items()}
    named = sorted(off, key=lambda name: read[name])
    return Baseline(
        key=key.key,
        unit=unit,
        golden=_words(gold),
        bar=" – ".join(map(_words, bars)),
        low=_words(numbers[0]),
        middle=_words(median(numbers)),
        high=_words(numbers[-1]),
        golden_x=place(gold),
        bars_x=[place(bound) for bound in bars],
        dots=[
            (place(number), LINES[at % len(LINES)], tips[name])
            for at, (name, number) in enumerate(sorted(read.items()))
            if name not in off
        ],
        outliers=[(place(read[name]), tips[name]) for name in named],
        outlier_names=", ".join([*named[:NAMED_MOST], *(["…"] if len(named) > NAMED_MOST else [])]),
        missing=nodes - len(read),
        label=_("%(n)d nodes from %(low)s to %(high)s, gold %(gold)s; %(off)d beyond the bar")
        % {
            "n": len(read), "low": _words(numbers[0]), "high": _words(numbers[-1]),
            "gold": _words(gold), "off": len(off),
        },
    )  # fmt: skip


def _said_in(key: GoldenKey) -> tuple[float, str]:
    """Return what the numbers of a key are divided by, and the unit they are then in."""
    unit = key.unit or ("GB/s" if key.key.endswith(_RATE_KEYS) else "")
    return _SAID_IN.get(unit, (1.0, unit))


def _bounds(key: GoldenKey) -> tuple[float | None, float | None]:
    """Return the least and the most that agrees with gold; None leaves a side open."""
    if key.tolerance == RATIO:
        return key.value * (key.ratio or 0.0), None
    return key.low, key.high


def _is_off(number: float, lowest: float | None, highest: float | None) -> bool:
    return (lowest is not None and number < lowest) or (highest is not None and number > highest)


def _place(numbers: Sequence[float]) -> Any:
    """Return where a number stands on the line; equal numbers stand in its middle."""
    first, last = min(numbers), max(numbers)
    span = last - first

    def place(number: float) -> float:
        share = (number - first) / span if span else 0.5
        return round(EDGE + (WIDTH - 2 * EDGE) * share, 1)

    return place


def _words(number: float) -> str:
    """A number with four digits that count, thousands apart, with a true minus."""
    words = f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.4g}"
    return words.replace("-", "−", 1)
