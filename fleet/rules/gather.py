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
# A driver or a daemon in trouble answers late or never; all that ask it must still end within the deadline.
_CARD_S, _DOCKER_S, _HOST_S = 5.5, 3.5, 4.0
# Scripts that go through files and devices; NODE_SYSROOT is empty on a real node.
_OS = 'exec cat "${NODE_SYSROOT:-}/etc/os-release"'
_RDMA_COUNTERS = (
    'exec grep -rHs . "${NODE_SYSROOT:-}"/sys/class/infiniband/*/ports/*/counters '
    '"${NODE_SYSROOT:-}"/sys/class/infiniband/*/ports/*/hw_counters'
)
# A driver counts a thousand things for each port; these tell of pauses and of what was lost.
_ETHTOOL_COUNTERS = (
    'for one in "${NODE_SYSROOT:-}"/sys/class/infiniband/*/device/net/*; do '
    '[ -e "$one" ] || continue; echo "# ${one##*/}"; ethtool -S "${one##*/}" 2>&1; done | '
    "grep -E '^#|statistics|_pause|pause_storm|discards_phy|_crc_errors|symbol_err|link_down'"
)
# The newest lines: a ring that is full of old ones would not fit into a section.
_KERNEL_LOG = "dmesg --time-format iso 2>&1 | tail -c 200000"


@dataclass(frozen=True)
class Ask:
    """One command of a probe and the name of its part of the output."""

    section: str
    argv: tuple[str, ...]
    timeout_s: float = _HOST_S
    # What a page calls a script; empty for a plain command.
    title: str = ""

    @property
    def text(self) -> str:
        """The command as a person would type it, for pages and findings."""
        return self.title or " ".join(self.argv)


_DEPTH = (
    Ask("gpu-report", ("nvidia-smi", "-q"), _CARD_S),
    Ask("fabric-manager", ("systemctl", "is-active", "nvidia-fabricmanager")),
    Ask("rdma-ports", ("ibstat",)),
    Ask("rdma-netdevs", ("ibdev2netdev",)),
    Ask("rdma-mtu", ("ibv_devinfo",)),
    Ask("gids", ("show_gids",)),
    Ask("links", ("ip", "-j", "addr")),
    Ask("rdma-counters", ("sh", "-c", _RDMA_COUNTERS), title="grep -r . …/ports/*/{hw_,}counters"),
    Ask("ethtool", ("sh", "-c", _ETHTOOL_COUNTERS), title="ethtool -S …"),
    Ask("disks", ("lsblk", "-J", "-b", "-o", "NAME,SIZE,TYPE,MOUNTPOINT,FSTYPE")),
    Ask("numa", ("numactl", "-H")),
    Ask("memlock", ("prlimit", "--memlock", "--noheadings", "--raw", "--output", "SOFT")),
    Ask("os", ("sh", "-c", _OS), title="cat /etc/os-release"),
    Ask("hostname", ("uname", "-n")),
    Ask("kernel-log", ("sh", "-c", _KERNEL_LOG), title="dmesg --time-format iso"),
)


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
        Ask("docker", ("docker", "version", "--format", "json"), _DOCKER_S),
        Ask("containers", ("docker", "ps", "-a", "--no-trunc", "--format", "json"), _DOCKER_S),
        Ask("models", ("grep", "-rHs", "--include=.ready", "", model_root)),
        *_DEPTH,
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
