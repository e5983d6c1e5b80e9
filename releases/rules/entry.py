"""How a launch that no rollout brings gets its first traffic: by a gate of its own. Pure.

Source: MISSION law 2 (nothing ungated gets traffic beyond shadow); the checks are those of rules/gates.py.
"""

from dataclasses import dataclass

from fleet.rules.message import say
from releases.rules import gates

# Gates of a whole pool that comes up at once would answer each other's questions late. Measured: decisions/0017.
AT_ONCE = 2
# A run that proved nothing is asked anew so often; one that failed, or that a person cancelled, is not.
TRIES = 3
_OPEN = frozenset({gates.QUEUED, gates.RUNNING})
_UNPROVEN = frozenset({gates.INCONCLUSIVE, gates.ERRORED, gates.EXPIRED})


@dataclass(frozen=True)
class EntrySeen:
    """A ready launch without traffic. `gate`: state of the run that counts for it, empty without any."""

    custom_weight: int  # what the pool's custom gives it, percent of a full unit
    gate: str = ""
    gate_explanation: str = ""
    tries: int = 0  # runs that were begun for its entry
    others_open: int = 0  # gates of other entries that are open now


@dataclass(frozen=True)
class EntryMove:
    """`begins_gate`: a run is to be begun. `weight`: what it gets from now on; None: it waits."""

    explanation: str
    begins_gate: bool = False
    weight: int | None = None


def decide_entry(seen: EntrySeen) -> EntryMove:
    """Decide the next step of a launch into traffic."""
    if seen.custom_weight == 0:
        return EntryMove(
            say("Another release serves: its weight is for a person to give."), weight=0
        )
    if seen.gate == gates.PASSED:
        return EntryMove(say("Its gate passed."), weight=seen.custom_weight)
    if seen.gate in _OPEN:
        return EntryMove(say("It gets traffic when its gate has passed."))
    if not seen.gate or (seen.gate in _UNPROVEN and seen.tries < TRIES):
        return _begin(seen)
    if seen.gate == gates.FAILED:
        return EntryMove(
            say(
                "No traffic: its gate failed: %(why)s. Start a gate run again when that is mended, "
                "or end the unit.",
                why=seen.gate_explanation,
            )
        )
    return EntryMove(
        say(
            "No traffic: its gate proved nothing: %(why)s. Start a gate run again, or end the unit.",
            why=seen.gate_explanation,
        )
    )


def _begin(seen: EntrySeen) -> EntryMove:
    if seen.others_open >= AT_ONCE:
        return EntryMove(say("It waits for its gate: those of other units are open."))
    return EntryMove(say("It gets traffic when its gate has passed."), begins_gate=True)
