"""The shape and the tone of every state word, in one place, so that no template picks a colour.

Warm tones mean trouble only; what is simply not in service is idle (design: principles of the pages).
"""

from __future__ import annotations

# sign (shape) of each state of nodes, units, launches, probes, hosts, commands and verdicts
SIGNS: dict[str, str] = {
    # nodes
    "registered": "idle",
    "probing": "run",
    "acceptance": "hold",
    "ready": "ok",
    "quarantined": "crit",
    "retired": "skip",
    "cordoned": "cordon",
    # units
    "planned": "idle",
    "reserved": "run",
    "launching": "run",
    "warming": "run",
    "serving": "ok",
    "draining": "run",
    "stopping": "run",
    "stopped": "idle",
    "failed": "crit",
    "lost": "crit",
    # launches
    "created": "run",
    "preflight": "run",
    "starting": "run",
    "loading": "run",
    "freezing": "run",
    # reachability, keys
    "ok": "ok",
    "suspect": "warn",
    "unreachable": "crit",
    "unset": "hold",
    "pinned": "ok",
    "changed": "crit",
    # verdicts and readings
    "pass": "ok",
    "fail": "crit",
    "unknown": "unk",
    "attention": "warn",
    # commands
    "queued": "idle",
    "claimed": "run",
    "running": "run",
    "succeeded": "ok",
    "timed_out": "crit",
    "cancelled": "skip",
    # subjects
    "new": "idle",
    "live": "run",
    "done": "ok",
    "gone": "idle",
    # trail
    "refused": "warn",
}

TONES: dict[str, str] = {
    "ok": "ok",
    "run": "run",
    "hold": "hold",
    "warn": "warn",
    "crit": "crit",
    "idle": "idle",
    "cordon": "idle",
    "unk": "idle",
    "skip": "idle",
}


def sign_of(state: str) -> str:
    """Return the shape of a state; a word that is not known has the shape of unknown."""
    return SIGNS.get(state, "unk")


def tone_of(state: str) -> str:
    """Return the tone of a state's shape."""
    return TONES[sign_of(state)]
