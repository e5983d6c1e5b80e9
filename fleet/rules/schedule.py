"""Which nodes are probed by themselves, and how often. Pure."""

from __future__ import annotations

from fleet.rules.message import say

# The facts that change soonest are kept for ten minutes (probe_reading.py); asked a little sooner, none runs out.
EVERY_S = 540
SHORTEST_S, LONGEST_S = 60, 86_400
# A first probe is a person's, who pinned the host key before; a retired node is nobody's.
ASKED_STATES = frozenset({"acceptance", "ready", "quarantined"})


def interval_problem(every_s: int) -> str:
    """Say why an interval cannot be; empty when it can. 0 switches the schedule off."""
    if every_s == 0 or SHORTEST_S <= every_s <= LONGEST_S:
        return ""
    return say(
        "expected 0 for never, or %(low)s to %(high)s minutes, found %(found)s",
        low=SHORTEST_S // 60,
        high=LONGEST_S // 60,
        found=f"{every_s / 60:g}",
    )


def why_not_asked(*, state: str, key_state: str, reach: str) -> str:
    """Say why the schedule leaves a node out; empty when it asks it."""
    if state not in ASKED_STATES:
        return say("first probed by a person")
    if key_state != "pinned":
        return say("its host key is not pinned")
    if reach == "unreachable":
        return say("it cannot be reached")
    return ""
