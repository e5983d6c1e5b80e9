"""How each state looks: one tone, one shape, one word. Templates never choose a colour by themselves.

Warm tones mean trouble only: attention is `warn`, failure is `crit` (UI.md, principle 1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext_lazy as _

from fleet.execution.models import Host
from fleet.models import (
    Distribution,
    Holding,
    ImageHolding,
    InventoryImport,
    NetRun,
    Node,
    NodeAcceptance,
    Replica,
    WeightsArtefact,
)

OK, RUN, HOLD, WARN, CRIT, IDLE = "ok", "run", "hold", "warn", "crit", "idle"


@dataclass(frozen=True)
class Mark:
    """A state as it is drawn: tone (colour class), shape (icon id), word, and the state itself."""

    tone: str
    shape: str
    word: Any
    state: str = ""

    @property
    def is_turning(self) -> bool:
        return self.shape == "run"


UNKNOWN = Mark(IDLE, "unk", _("Unknown"), "unknown")
CORDONED = Mark(IDLE, "cordon", _("Held"), "held")

_LOOKS: dict[str, dict[str, tuple[str, str]]] = {
    "node": {
        "registered": (IDLE, "idle"),
        "probing": (RUN, "run"),
        "acceptance": (HOLD, "hold"),
        "ready": (OK, "ok"),
        "quarantined": (CRIT, "crit"),
        "retired": (IDLE, "skip"),
    },
    "replica": {
        "planned": (IDLE, "idle"),
        "reserved": (RUN, "run"),
        "launching": (RUN, "run"),
        "warming": (RUN, "run"),
        "ready": (OK, "ok"),
        "serving": (OK, "ok"),
        "draining": (RUN, "run"),
        "stopping": (RUN, "run"),
        "stopped": (IDLE, "skip"),
        "failed": (CRIT, "crit"),
        "lost": (CRIT, "crit"),
        "held": (WARN, "warn"),
        "unseen": (WARN, "unk"),
        "hung": (CRIT, "crit"),
    },
    "artefact": {
        "making": (RUN, "run"),
        "ready": (OK, "ok"),
        "failed": (CRIT, "crit"),
    },
    "holding": {
        "wanted": (IDLE, "idle"),
        "verifying": (RUN, "run"),
        "copying": (RUN, "run"),
        "paused": (HOLD, "hold"),
        "ready": (OK, "ok"),
        "failed": (CRIT, "crit"),
        "cancelled": (IDLE, "skip"),
    },
    "distribution": {
        "running": (RUN, "run"),
        "paused": (HOLD, "hold"),
        "done": (OK, "ok"),
        "failed": (CRIT, "crit"),
        "cancelled": (IDLE, "skip"),
    },
    "image": {
        "wanted": (IDLE, "idle"),
        "pulling": (RUN, "run"),
        "ready": (OK, "ok"),
        "failed": (CRIT, "crit"),
    },
    "reach": {
        "unknown": (IDLE, "unk"),
        "ok": (OK, "ok"),
        "suspect": (WARN, "warn"),
        "unreachable": (CRIT, "crit"),
    },
    "key": {
        "unset": (WARN, "warn"),
        "pinned": (OK, "ok"),
        "changed": (CRIT, "crit"),
    },
    "gpu": {
        "ok": (OK, "ok"),
        "attention": (WARN, "warn"),
        "failed": (CRIT, "crit"),
        "unknown": (IDLE, "unk"),
    },
    "verdict": {
        "pass": (OK, "ok"),
        "fail": (CRIT, "crit"),
        "unknown": (IDLE, "unk"),
        "": (RUN, "run"),
    },
    "acceptance": {
        "accepted": (OK, "ok"),
        "marginal": (WARN, "warn"),
        "rejected": (CRIT, "crit"),
        "not_measured": (IDLE, "unk"),
        "void": (IDLE, "skip"),
        "": (RUN, "run"),
    },
    "check": {
        "pass": (OK, "ok"),
        "marginal": (WARN, "warn"),
        "fail": (CRIT, "crit"),
        "unknown": (IDLE, "unk"),
    },
    "network": {
        "pairing": (RUN, "run"),
        "repairing": (RUN, "run"),
        "loading": (RUN, "run"),
        "done": (OK, "ok"),
        "cancelled": (IDLE, "skip"),
    },
    "netpair": {
        "pass": (OK, "ok"),
        "fail": (CRIT, "crit"),
        "unknown": (IDLE, "unk"),
        "": (IDLE, "idle"),
        "running": (RUN, "run"),
    },
    "agreement": {
        "ok": (OK, "ok"),
        "attention": (WARN, "warn"),
        "unknown": (IDLE, "unk"),
    },
    "import": {
        "dry": (HOLD, "hold"),
        "applied": (OK, "ok"),
        "discarded": (IDLE, "skip"),
    },
    "row": {
        "refused": (CRIT, "crit"),
        "changed": (OK, "ok"),
        "added": (OK, "ok"),
        "equal": (IDLE, "skip"),
        "held": (HOLD, "hold"),
        "kept": (HOLD, "hold"),
        "blocked": (HOLD, "hold"),
        "proposed": (WARN, "warn"),
    },
    "command": {
        "queued": (IDLE, "idle"),
        "claimed": (RUN, "run"),
        "running": (RUN, "run"),
        "stopping": (RUN, "run"),
        "succeeded": (OK, "ok"),
        "failed": (CRIT, "crit"),
        "timed_out": (CRIT, "crit"),
        "cancelled": (IDLE, "skip"),
        "unknown": (WARN, "unk"),
    },
}

_WORDS: dict[str, dict[str, Any]] = {
    "node": dict(Node.State.choices),
    "replica": dict(Replica.State.choices) | dict(Replica.Doubt.choices),
    "artefact": dict(WeightsArtefact.State.choices),
    "holding": dict(Holding.State.choices),
    "distribution": dict(Distribution.State.choices),
    "image": dict(ImageHolding.State.choices),
    "reach": {
        Host.Reach.UNKNOWN: _("Reachability unknown"),
        Host.Reach.OK: _("Reachable"),
        Host.Reach.SUSPECT: _("Answers are missing"),
        Host.Reach.UNREACHABLE: _("Unreachable"),
    },
    "key": {
        Host.Key.UNSET: _("No host key pinned"),
        Host.Key.PINNED: _("Host key pinned"),
        Host.Key.CHANGED: _("Host key changed"),
    },
    "gpu": {
        "ok": _("Healthy"),
        "attention": _("Attention"),
        "failed": _("Failed"),
        "unknown": _("No reading"),
    },
    "verdict": {
        "pass": _("Passed"),
        "fail": _("Failed"),
        "unknown": _("Unknown"),
        "": _("Probing"),
    },
    "acceptance": {
        **dict(NodeAcceptance.Verdict.choices),
        "void": _("No longer valid"),
        "": _("At work"),
    },
    "check": {
        "pass": _("Passed"),
        "marginal": _("Marginal"),
        "fail": _("Failed"),
        "unknown": _("Not measured"),
    },
    "network": dict(NetRun.State.choices),
    "netpair": {
        "pass": _("Passed"),
        "fail": _("Failed"),
        "unknown": _("Unknown"),
        "": _("Waiting"),
        "running": _("Testing"),
    },
    "agreement": {
        "ok": _("Agree"),
        "attention": _("Differs"),
        "unknown": _("Unknown"),
    },
    "import": dict(InventoryImport.State.choices),
    "row": {
        "refused": _("Refused"),
        "changed": _("Changed"),
        "added": _("Added"),
        "equal": _("Equal"),
        "held": _("Left as it is"),
        "kept": _("Missing, kept"),
        "blocked": _("Missing, kept"),
        "proposed": _("Missing, may be removed"),
    },
    "command": {
        "queued": _("Queued"),
        "claimed": _("Taken"),
        "running": _("Running"),
        "stopping": _("Stopping"),
        "succeeded": _("Done"),
        "failed": _("Failed"),
        "timed_out": _("Timed out"),
        "cancelled": _("Cancelled"),
        "unknown": _("Unconfirmed"),
    },
}


def machine_add(machine: str, looks: dict[str, tuple[str, str]], words: dict[str, Any]) -> None:
    """Let an upper app say how the states of its own machine look (a launch)."""
    _LOOKS[machine], _WORDS[machine] = looks, words


def has_machine(machine: str) -> bool:
    """Tell whether a machine of this name is drawn."""
    return machine in _LOOKS


def mark_of(machine: str, state: str) -> Mark:
    """Return how a state of a machine is drawn; a state that no table knows is unknown, never fine."""
    tone, shape = _LOOKS[machine].get(state, (UNKNOWN.tone, UNKNOWN.shape))
    word = _WORDS.get(machine, {}).get(state, state or UNKNOWN.word)
    return Mark(tone, shape, word, state)
