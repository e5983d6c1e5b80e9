"""State tables of nodes and service units: what each may become. Pure data that tests iterate over.

Holds, reachability and host keys are not states. Launches have their table in releases/rules/launch.py.
"""

from __future__ import annotations

NODE_MOVES: dict[str, frozenset[str]] = {
    "registered": frozenset({"probing", "quarantined", "retired"}),
    # back to registered when the node could not be asked at all
    "probing": frozenset({"acceptance", "registered", "quarantined", "retired"}),
    "acceptance": frozenset({"ready", "probing", "quarantined", "retired"}),
    "ready": frozenset({"acceptance", "quarantined", "retired"}),
    "quarantined": frozenset({"acceptance", "retired"}),  # a person only, never by itself
    "retired": frozenset(),
}

# A probe passes through these at one go: it begins in the first and ends in, or behind, the second.
_PASSED_THROUGH = ("probing", "acceptance")


def node_path(
    state: str, to: str, through: tuple[str, ...] = _PASSED_THROUGH
) -> tuple[str, ...] | None:
    """Return the states a node passes on its way to `to`, `to` the last; None when its table has no way."""
    if to in NODE_MOVES[state]:
        return (to,)
    for position, middle in enumerate(through):
        if middle in NODE_MOVES[state]:
            rest = node_path(middle, to, through[position + 1 :])
            if rest:
                return (middle, *rest)
    return None


_DOWN = frozenset({"stopping", "failed", "lost"})
_RUNNING = ("ready", "serving", "draining")  # in this order wherever the table is gone through

REPLICA_MOVES: dict[str, frozenset[str]] = {
    "planned": frozenset({"reserved"}),
    # a launch that ended before its first start command leaves nothing behind
    "reserved": frozenset({"launching", "stopped"}) | _DOWN,
    "launching": frozenset({"warming"}) | _DOWN,
    "warming": frozenset({"ready"}) | _DOWN,
    # what the gateway gives a running unit, as it was read back: traffic, none, or the rest of its sessions
    **{state: frozenset(_RUNNING) - {state} | _DOWN for state in _RUNNING},
    "stopping": frozenset({"stopped", "failed", "lost"}),
    "failed": frozenset({"reserved", "stopping", "stopped", "lost"}),
    # its nodes may still run something: whole again only through a proved stop
    "lost": frozenset({"stopping", "stopped", "failed"}),
    "stopped": frozenset({"reserved"}),
}
