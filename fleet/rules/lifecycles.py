"""State tables of nodes, units and launches: what each may become, and who moves it. Pure data.

Source: design, states and transitions. Holds, reachability and host keys are not states (see placement in selectors).
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

_DOWN = frozenset({"stopping", "failed", "lost"})

REPLICA_MOVES: dict[str, frozenset[str]] = {
    "planned": frozenset({"reserved"}),
    "reserved": frozenset({"launching", "planned"}) | _DOWN,
    "launching": frozenset({"warming"}) | _DOWN,
    "warming": frozenset({"ready"}) | _DOWN,
    "ready": frozenset({"serving"}) | _DOWN,
    "serving": frozenset({"draining"}) | _DOWN,
    "draining": _DOWN,
    "stopping": frozenset({"stopped", "failed", "lost"}),
    # a unit that failed is stopped whole before it may be launched anew
    "failed": frozenset({"stopping", "stopped", "lost"}),
    "lost": frozenset({"stopping", "stopped", "failed"}),
    "stopped": frozenset({"reserved", "planned"}),
}

LAUNCH_MOVES: dict[str, frozenset[str]] = {
    "created": frozenset({"preflight", "freezing", "stopping", "failed", "stopped"}),
    "preflight": frozenset({"starting", "freezing", "stopping", "failed"}),
    "starting": frozenset({"loading", "freezing", "stopping"}),
    "loading": frozenset({"warming", "freezing", "stopping"}),
    "warming": frozenset({"ready", "freezing", "stopping"}),
    "ready": frozenset({"freezing", "stopping"}),
    "freezing": frozenset({"stopping"}),
    "stopping": frozenset({"failed", "stopped"}),
    "failed": frozenset(),
    "stopped": frozenset(),
}

MACHINES = {"node": NODE_MOVES, "replica": REPLICA_MOVES, "launch": LAUNCH_MOVES}


def is_move(machine: str, now: str, to: str) -> bool:
    """Tell whether a machine's table has the move."""
    return to in MACHINES[machine].get(now, frozenset())
