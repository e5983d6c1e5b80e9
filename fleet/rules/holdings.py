"""State tables of a revision on one node and of its distribution: what each may become. Pure data."""

from __future__ import annotations

WANTED, VERIFYING, COPYING, PAUSED, READY, FAILED, CANCELLED = (
    "wanted",
    "verifying",
    "copying",
    "paused",
    "ready",
    "failed",
    "cancelled",
)
RUNNING, DONE = "running", "done"  # of a distribution, beside paused, failed and cancelled

# A revision on a node is checked before it is copied, so that nothing verified is copied again.
HOLDING_MOVES: dict[str, frozenset[str]] = {
    WANTED: frozenset({VERIFYING, COPYING, PAUSED, FAILED, CANCELLED}),
    VERIFYING: frozenset({WANTED, READY, FAILED, CANCELLED}),
    COPYING: frozenset({VERIFYING, WANTED, PAUSED, FAILED, CANCELLED}),
    PAUSED: frozenset({WANTED, CANCELLED}),
    READY: frozenset({VERIFYING}),
    FAILED: frozenset({WANTED, VERIFYING}),
    CANCELLED: frozenset({WANTED, VERIFYING}),
}

DISTRIBUTION_MOVES: dict[str, frozenset[str]] = {
    RUNNING: frozenset({PAUSED, DONE, FAILED, CANCELLED}),
    PAUSED: frozenset({RUNNING, CANCELLED}),
    DONE: frozenset(),
    FAILED: frozenset({RUNNING}),  # its failed nodes are healed
    CANCELLED: frozenset(),
}
