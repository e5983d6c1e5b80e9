"""When a node that an inventory no longer names may be taken out of the fleet. Pure.

A source that breaks once leaves valid nodes out for one sync and names them again in the next; so one import
without a node keeps it, and only the next one without it may remove it, by a person, node by node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fleet.rules.message import say

SYNCS_NEEDED = 2
KEPT, BLOCKED, PROPOSED = "kept", "blocked", "proposed"


@dataclass(frozen=True)
class Missing:
    """What is to be done about one missing node, and why."""

    outcome: str
    explanation: str


def judge_missing(
    *,
    misses: int,
    unit: str = "",
    holders: Sequence[str] = (),
    incidents: Sequence[str] = (),
    rules: Sequence[str] = (),
) -> Missing:
    """Judge a node that this import leaves out and that `misses` applied imports before it left out too.

    `unit` has the node now; `holders` are the people whose holds are on it, `incidents` are open about it. `rules` hold
    it too; that is told and keeps nothing: a machine that was carried away is unreachable, and a broken one rejected.
    """
    if misses + 1 < SYNCS_NEEDED:
        return Missing(
            KEPT, say("missing for the first time; kept, and asked again at the next import")
        )
    if unit:
        return Missing(
            BLOCKED,
            say("%(unit)s has it; give that unit other nodes, then import again", unit=unit),
        )
    if incidents:
        return Missing(
            BLOCKED,
            say(
                "held by %(who)s; let that be resolved, then import again", who=", ".join(incidents)
            ),
        )
    if holders:
        return Missing(
            BLOCKED,
            say(
                "held by %(who)s; let the hold be lifted, then import again", who=", ".join(holders)
            ),
        )
    if rules:
        return Missing(
            PROPOSED,
            say(
                "missing in %(n)s imports, one after the other, and held by %(who)s; may be removed",
                n=misses + 1,
                who=", ".join(rules),
            ),
        )
    return Missing(
        PROPOSED, say("missing in %(n)s imports, one after the other; may be removed", n=misses + 1)
    )
