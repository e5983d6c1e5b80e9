"""What a network acceptance run may become, and which step of a pair follows which. Pure."""

from __future__ import annotations

from collections.abc import Collection

from fleet.rules import netverdict as layers

PAIRING, REPAIRING, LOADING = "pairing", "repairing", "loading"
DONE, CANCELLED = "done", "cancelled"
# The first results of all pairs, then suspects with known-good partners, then all pairs at once.
NETRUN_MOVES: dict[str, frozenset[str]] = {
    PAIRING: frozenset({REPAIRING, LOADING, DONE, CANCELLED}),
    REPAIRING: frozenset({LOADING, DONE, CANCELLED}),
    LOADING: frozenset({DONE, CANCELLED}),
    DONE: frozenset(),
    CANCELLED: frozenset(),
}
OPEN = (PAIRING, REPAIRING, LOADING)

FIRST, REPAIR, RUNG, TOGETHER = "first", "repair", "rung", "together"
# The rows of layer 4: rungs of the curve under load, and the loop of all pairs.
LOADED = (RUNG, TOGETHER)
# What a pair does, one after the other. `before` and `after` read the counters of both nodes.
WAITING, BEFORE, REACH, AFTER = "waiting", "before", "reach", "after"
RAILS, CURVE, LOOP = "rails", "curve", "loop"
# Steps in which a pair loads the network.
BUSY = (RAILS, CURVE, LOOP)
STEP_OF_LAYER = {layers.REACH: REACH, layers.RAILS: RAILS, layers.COLLECTIVE: CURVE}


def steps_of(kind: str, wanted: Collection[str]) -> tuple[str, ...]:
    """Return the steps of a pair; the load of all pairs runs nothing but the loop between two readings."""
    if kind == RUNG:
        return (LOOP,)
    if kind == TOGETHER:
        return BEFORE, LOOP, AFTER
    inner = tuple(STEP_OF_LAYER[name] for name in layers.LAYERS[:3] if name in wanted)
    return (BEFORE, *inner, AFTER) if {*inner} - {REACH} else (BEFORE, *inner)


def layers_of(kind: str, wanted: Collection[str]) -> tuple[str, ...]:
    """Return the layers that a pair of this kind is judged by."""
    if kind in LOADED:
        return (layers.TOGETHER,)
    return tuple(name for name in layers.LAYERS if name in wanted and name != layers.TOGETHER)


def step_after(step: str, kind: str, wanted: Collection[str]) -> str:
    """Return the next step of a pair, DONE behind the last."""
    steps = (WAITING, *steps_of(kind, wanted), DONE)
    return steps[steps.index(step) + 1]
