"""The mass-change brake: many nodes or units bad at once are more likely the console's fault than theirs.

Source: NUMBERS.md: more than 10 % of nodes or more than 2 units within 2 minutes. One node alone never pulls it,
however small the fleet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from fleet.rules.message import say

NODES_RATIO = 0.10
UNITS_MAX = 2
WINDOW_S = 120.0


@dataclass(frozen=True)
class Turned:
    """A node or unit that is bad now, and since when."""

    name: str
    since: datetime


def judge(
    *,
    nodes_total: int,
    nodes: Sequence[Turned],
    units: Sequence[Turned],
    now: datetime,
    cleared_at: datetime | None = None,
    window_s: float = WINDOW_S,
) -> str | None:
    """Return why automatic actions must stop, or None.

    What turned bad before the brake was last cleared was already judged by a person and does not count.
    """
    since = now - timedelta(seconds=window_s)
    if cleared_at is not None:
        since = max(since, cleared_at)
    bad_nodes = sorted(turned.name for turned in nodes if turned.since >= since)
    bad_units = sorted(turned.name for turned in units if turned.since >= since)
    if len(bad_nodes) > 1 and len(bad_nodes) > NODES_RATIO * nodes_total:
        return say(
            "%(bad)s of %(total)s nodes turned bad within %(window)s s: is it this console, its "
            "network or its SSH key? Clear the brake when you know.",
            bad=len(bad_nodes),
            total=nodes_total,
            window=round(window_s),
        )
    if len(bad_units) > UNITS_MAX:
        return say(
            "Units %(units)s turned bad within %(window)s s: is it this console, its network or "
            "one cause for all? Clear the brake when you know.",
            units=", ".join(bad_units),
            window=round(window_s),
        )
    return None
