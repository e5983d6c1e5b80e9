"""A golden pair as keys with a tolerance, so that its versions are compared as those of golden profiles are. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from fleet.rules.golden import RATIO, Wanted
from fleet.rules.message import say

BAR_RANGE = (0.5, 1.0)
PAIR, BUSBW = "pair", "busbw"


def keys_of(
    busbw: float | None,
    rails: Mapping[str, Mapping[str, float]],
    load: Sequence[Sequence[float]],
    bar: float,
) -> list[Wanted]:
    """Return what a golden pair wants of others: bandwidth in GB/s, rails in Gb/s, the curve under load in GB/s.

    Keys are `busbw`, `rail/mlx5_0/one`, `load/2` (pairs at once); what was not measured is no key.
    """
    keys = [] if busbw is None else [Wanted(BUSBW, round(busbw, 2), RATIO, ratio=bar)]
    keys += [
        Wanted(f"rail/{card}/{way}", gbps, RATIO, ratio=bar)
        for card, ways in sorted(rails.items())
        for way, gbps in sorted(ways.items())
    ]
    keys += [Wanted(f"load/{int(count)}", width, RATIO, ratio=bar) for count, width in load]
    return keys


def key_words(key: str) -> str:
    """Name a key of a golden pair as a stored sentence."""
    kind, _, rest = key.partition("/")
    if kind == "rail":
        card, _, way = rest.rpartition("/")
        if way == "two":
            return say("%(card)s, both ways", card=card)
        return say("%(card)s, one way", card=card)
    if kind == "load":
        return say("Alone") if rest == "1" else say("%(n)s pairs at once", n=rest)
    return say("Bus bandwidth")


def unit_of(key: str) -> str:
    """Return the unit of a key."""
    return "Gb/s" if key.startswith("rail/") else "GB/s"


def read_bar(text: str) -> float | None:
    """Read a bar that was typed in percent; None for what is no number or out of range."""
    try:
        bar = float(text.strip().removesuffix("%")) / 100
    except ValueError:
        return None
    low, high = BAR_RANGE
    return round(bar, 4) if math.isfinite(bar) and low <= bar <= high else None
