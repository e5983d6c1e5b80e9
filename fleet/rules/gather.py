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
# A bundle asks tools that answer at once, in one shell: a section of its own costs as much as its tool.
# Each answer stands between two lines that no tool prints; NODE_SYSROOT is empty on a real node.
PART_BEGINS, PART_ENDS = "#> part ", "#< part "
_BUNDLE = (
    "r=${NODE_SYSROOT:-}; "
    "part() { printf '#> part %s\\n' \"$1\"; shift; \"$@\" 2>&1; printf '\\n#< part %s\\n' $?; }; "
    'show() { while IFS= read -r line; do printf \'%s\\n\' "$line"; done <"$1"; }; '
)
# A driver counts a thousand things for each port; these tell of pauses and of what was lost.
_ETHTOOL = (
    'pauses() { for one in "$r"/sys/class/infiniband/*/device/net/*; do [ -e "$one" ] || continue; '
    'echo "# ${one##*/}"; ethtool -S "${one##*/}" 2>&1; done | '
    "grep -E '^#|statistics|_pause|pause_storm|discards_phy|_crc_errors|symbol_err|link_down'; }; "
)
# The newest lines: a ring that is full of old ones would not fit into a section.
_KERNEL = "log() { dmesg --time-format iso 2>&1 | tail -c 200000; }; "
_COUNTERS = (
    '"$r"/sys/class/infiniband/*/ports/*/counters "$r"/sys/class/infiniband/*/ports/*/hw_counters'
)


@dataclass(frozen=True)
class Ask:
    """One command of a probe and the name of its part of the output."""

    section: str
    argv: tuple[str, ...]
    timeout_s: float = _HOST_S
    # A bundle's answers: name of each, and its command as a person would type it.
    parts: tuple[tuple[str, str], ...] = ()

    @property
    def text(self) -> str:
        """The command as a person would type it, for pages and findings."""
        return "; ".join(text for _, text in self.parts) or " ".join(self.argv)


@dataclass(frozen=True)
class _Part:
    """One answer of a bundle: its name, what a person would type, what the shell runs."""

    name: str
    text: str
    words: str = ""


def _bundle(section: str, parts: tuple[_Part, ...], functions: str = "") -> Ask:
    script = "; ".join(f"part {part.name} {part.words or part.text}" for part in parts)
    argv = ("sh", "-c", f"{_BUNDLE}{functions}{script}")
    return Ask(section, argv, parts=tuple((part.name, part.text) for part in parts))


_LSBLK = "lsblk -J -b -o NAME,SIZE,TYPE,MOUNTPOINT,FSTYPE"
_DEPTH = (
    Ask("gpu-report", ("nvidia-smi", "-q"), _CARD_S),
    _bundle(
        "rdma",
        (
            _Part("rdma-ports", "ibstat"),
            _Part("rdma-netdevs", "ibdev2netdev"),
            _Part("rdma-mtu", "ibv_devinfo"),
            _Part("gids", "show_gids"),
            _Part("links", "ip -j addr"),
            _Part("rdma-counters", "grep -r . {hw_,}counters", f"grep -rHs . {_COUNTERS}"),
            _Part("ethtool", "ethtool -S", "pauses"),
        ),
        _ETHTOOL,
    ),
    _bundle(
        "host",
        (
            _Part("fabric-manager", "systemctl is-active nvidia-fabricmanager"),
            _Part("disks", _LSBLK),
            _Part("numa", "numactl -H"),
            _Part("memlock", "cat /proc/self/limits", 'show "$r"/proc/self/limits'),
            _Part("os", "cat /etc/os-release", 'show "$r"/etc/os-release'),
            _Part(
                "hostname", "cat /proc/sys/kernel/hostname", 'show "$r"/proc/sys/kernel/hostname'
            ),
            _Part("kernel-log", "dmesg --time-format iso", "log"),
        ),
        _KERNEL,
    ),
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
    """Return the command of each answer, a bundle's parts one by one, as a person would type it."""
    told: dict[str, str] = {}
    for ask in plan_probe(model_root):
        told.update(ask.parts or ((ask.section, ask.text),))
    return told


def bundles_of() -> dict[str, tuple[str, ...]]:
    """Return the sections that hold several answers, with the names of these."""
    return {ask.section: tuple(name for name, _ in ask.parts) for ask in _DEPTH if ask.parts}
