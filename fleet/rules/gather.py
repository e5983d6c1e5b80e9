"""What a probe asks a node, in one connection: read-only commands, each with its own deadline.

Not in charge of reading the answers (probe_reading.py) nor of judging them (probe_verdict.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

# Columns of the card table; the reading looks them up by name.
GPU_FIELDS = (
    "index",
    "uuid",
    "name",
    "serial",
    "pci.bus_id",
    "driver_version",
    "memory.total",
    "memory.used",
    "clocks.sm",
    "temperature.gpu",
    "power.draw",
    "pstate",
    "utilization.gpu",
    "ecc.errors.uncorrected.volatile.total",
    "clocks_event_reasons.active",
)
PROBE_DEADLINE_S = 30.0
# A driver in trouble answers late or never; the three of them must still end within the deadline.
_CARD_S, _HOST_S = 7.0, 4.0


@dataclass(frozen=True)
class Ask:
    """One command of a probe and the name of its part of the output."""

    section: str
    argv: tuple[str, ...]
    timeout_s: float = _HOST_S

    @property
    def text(self) -> str:
        """The command as a person would type it, for pages and findings."""
        return " ".join(self.argv)


def plan_probe(model_root: str) -> list[Ask]:
    """Return the commands for a node whose models lie under `model_root`."""
    return [
        Ask("gpu-list", ("nvidia-smi", "-L"), _CARD_S),
        Ask(
            "gpu-query",
            ("nvidia-smi", f"--query-gpu={','.join(GPU_FIELDS)}", "--format=csv"),
            _CARD_S,
        ),
        Ask("topo", ("nvidia-smi", "topo", "-m"), _CARD_S),
        Ask("shm", ("df", "-kP", "/dev/shm")),
        Ask("model-disk", ("df", "-kP", model_root)),
        Ask("memory", ("free", "-b")),
        Ask("kernel", ("uname", "-r")),
        Ask("cpus", ("nproc",)),
        Ask("boot", ("uptime", "-s")),
        Ask("clock", ("chronyc", "tracking")),
        Ask("docker", ("docker", "version", "--format", "json")),
        Ask("containers", ("docker", "ps", "-a", "--no-trunc", "--format", "json")),
        Ask("models", ("grep", "-rHs", "--include=.ready", "", model_root)),
    ]


def probe_payload(model_root: str) -> dict[str, Any]:
    """Return the payload of the probe command."""
    return {
        "sections": [
            {"name": ask.section, "timeout_s": ask.timeout_s, "argv": list(ask.argv)}
            for ask in plan_probe(model_root)
        ]
    }


def commands_of(model_root: str) -> dict[str, str]:
    """Return the command of each section as a person would type it."""
    return {ask.section: ask.text for ask in plan_probe(model_root)}
