"""Which rank stopped first, from what torch's watchdog printed on every node. Pure.

The waiting ranks speak; the one that hangs is silent. So the suspect is the rank that had entered fewer collectives
than the foremost, else the only rank of the world without a time-out of its own. Source: manual A 12.4 and 14.4.
"""

from dataclasses import dataclass

from fleet.rules.message import say
from runbooks.rules.run import PASSED, STEP_FAILED, UNKNOWN


@dataclass(frozen=True)
class WatchdogSeen:
    """World ranks that timed out, and world ranks that lagged by their own numbers."""

    timed_out: frozenset[int]
    behind: frozenset[int]


@dataclass(frozen=True)
class Lag:
    """`state` as of a step: failed names a rank, passed none is behind, unknown the logs do not tell."""

    state: str
    explanation: str
    rank: int | None = None


def judge_lag(seen: WatchdogSeen, world_size: int) -> Lag:
    """Name the rank that stopped first, or say why none can be named."""
    if len(seen.behind) == 1:
        (rank,) = seen.behind
        return Lag(
            STEP_FAILED,
            say("r%(rank)s had entered fewer collectives than the others.", rank=rank),
            rank,
        )
    if not seen.timed_out:
        return Lag(UNKNOWN, say("No watchdog line tells which rank stopped first."))
    silent = sorted(set(range(world_size)) - seen.timed_out)
    if len(silent) == 1:
        text = say("Every rank but r%(rank)s reports that it waited.", rank=silent[0])
        return Lag(STEP_FAILED, text, silent[0])
    if not silent and not seen.behind:
        return Lag(PASSED, say("Every rank waited at the same collective."))
    return Lag(
        UNKNOWN,
        say(
            "%(count)s of %(world)s ranks report that they waited: more than one is silent.",
            count=len(seen.timed_out),
            world=world_size,
        ),
    )
