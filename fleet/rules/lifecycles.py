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

_DOWN = frozenset({"stopping", "failed", "lost"})

REPLICA_MOVES: dict[str, frozenset[str]] = {
    "planned": frozenset({"reserved"}),
    # a launch that ended before its first start command leaves nothing behind
    "reserved": frozenset({"launching", "stopped"}) | _DOWN,
    "launching": frozenset({"warming"}) | _DOWN,
    "warming": frozenset({"ready"}) | _DOWN,
    "ready": frozenset({"serving"}) | _DOWN,
    "serving": frozenset({"draining"}) | _DOWN,
    "draining": _DOWN,
    "stopping": frozenset({"stopped", "failed", "lost"}),
    "failed": frozenset({"reserved", "stopping", "stopped", "lost"}),
    # its nodes may still run something: whole again only through a proved stop
    "lost": frozenset({"stopping", "stopped", "failed"}),
    "stopped": frozenset({"reserved"}),
}
