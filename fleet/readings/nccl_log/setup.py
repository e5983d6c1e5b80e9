"""What NCCL tells while it sets up: versions, networks, communicators, channels, settings."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_COMM = re.compile(
    r"comm (0x[0-9a-fA-F.]{1,16}) rank (\d{1,6}) n[rR]anks (\d{1,6})\b(?:.{0,120}?commId (0x\w{1,16}))?"
)
_WIDE = re.compile(
    r"rank \d{1,6} nRanks (\d{1,6}) nNodes (\d{1,6}) localRanks (\d{1,6}) localRank \d{1,6}"
    r"(?: MNNVL (\d))?"
)
_TIMING = re.compile(r"rank (\d{1,6}) nranks (\d{1,6}) total (\d{1,6}(?:\.\d{1,6})?)")
_HCAS = re.compile(r"\[\d{1,3}\](\w{1,64}):\d{1,3}/(\w{1,16})")
_OOB = re.compile(r"OOB (\w{1,64}):")
_INTERFACE = re.compile(
    r"(?<![\w.:-])(?:\[\d{1,3}\])?([\w.-]{1,64}):[0-9a-fA-F.:]{2,64}(?:%[\w.-]{1,64})?<\d{1,5}>"
)
_CHANNELS = re.compile(
    r"(\d{1,4}) coll channels, (?:(\d{1,4}) (?:collnet|nvls) channels, )?(?:(\d{1,4}) nvls channels, )?"
)
_NVLS_COUNT = re.compile(r"(\d{1,4}) nvls channels")
_TREES = re.compile(r"\[(\d{1,4})\] [-\d/]{1,24}->(-?\d{1,6})->")
_VERSION = re.compile(
    r"NCCL version (\d{1,3}\.\d{1,3}\.\d{1,3}[\w.-]{0,24})(?:\+cuda(\d{1,3}\.\d{1,3}))?"
)
_SETTING = re.compile(r"(NCCL_\w{1,64}) set (?:by environment )?to (\S{1,120})")
_ASSIGNED = re.compile(r"Assigned NET plugin (.{1,64}?) to comm")
_VENDOR_RANKS = re.compile(r"comm 0x[0-9a-fA-F]{1,16} nRanks (\d{1,6})")
_ODD_INTERFACES = ("veth", "docker", "virbr", "cni", "flannel", "br-")
_COMMS_CAP = 4096
_RANKS_CAP = 16_384


@dataclass
class CommState:
    """The ranks of one communicator that were seen to start, finish and leave."""

    nranks: int
    started: set[int] = field(default_factory=set)
    completed: set[int] = field(default_factory=set)
    destroyed: set[int] = field(default_factory=set)
    completed_order: list[int] = field(default_factory=list)
    destroyed_order: list[int] = field(default_factory=list)

    @property
    def missing(self) -> set[int]:
        """Ranks of the communicator that did not finish; those never seen included."""
        return set(range(min(self.nranks, _RANKS_CAP))) - self.completed


class SetupLog:
    """Collects set-up facts; sets are bounded whatever the log holds."""

    def __init__(self) -> None:
        self.comms: dict[str, CommState] = {}
        self.networks: dict[str, int] = {}
        self.hcas: list[str] = []
        self.links: set[str] = set()
        self.hosts_without_ib: set[str] = set()
        self.interfaces: list[str] = []
        self.bad_interface: str | None = None
        self.oob: str | None = None
        self.bootstrap_if: str | None = None
        self.plugin_error: str | None = None
        self.cuda_driver: str | None = None
        self.nccl: str | None = None
        self.cuda: str | None = None
        self.nvls: bool | None = None
        self.nvls_channels: int | None = None
        self.coll_channels: int | None = None
        self.channels: int | None = None
        self.rank_seen: int | None = None
        self.ring_gdr: bool | None = None
        self.nranks: int | None = None
        self.nnodes: int | None = None
        self.local_ranks: int | None = None
        self.mnnvl: int | None = None
        self.init_s: float | None = None
        self.settings: dict[str, str] = {}
        self.connect_retries = 0

    def take(self, message: str, host: str | None) -> bool:
        """Take one INFO message; return whether it told anything."""
        first = message.partition(" ")[0]
        if first in ("comm", "ncclCommInitRank", "ncclCommInitRankConfig", "ncclCommSplit"):
            return self.take_comm(message)
        if first.startswith("NET/") or first == "Bootstrap" or first == "Bootstrap:":
            return self._take_network(message, host)
        return self._take_other(message, first)

    def take_version(self, text: str) -> bool:
        """Take `NCCL version 2.28.9+cuda12.9`, which has no seat in front."""
        found = _VERSION.search(text)
        if found is not None:
            self.nccl, self.cuda = found[1], found[2] or self.cuda
        return found is not None

    def take_comm(self, message: str) -> bool:
        """Take the line of one rank of one communicator."""
        if wide := _WIDE.search(message):
            self.nranks, self.nnodes = int(wide[1]), int(wide[2])
            self.local_ranks = int(wide[3])
            self.mnnvl = int(wide[4]) if wide[4] else self.mnnvl
            return True
        found = _COMM.search(message)
        if found is None:
            return False
        rank, nranks = int(found[2]), int(found[3])
        self.nranks = max(self.nranks or 0, nranks)
        comm = self._comm(found[4] or f"of {nranks}", nranks)
        if comm is None or rank > _RANKS_CAP:
            return True
        if message.endswith("Init START"):
            comm.started.add(rank)
        elif message.endswith("Init COMPLETE") and rank not in comm.completed:
            comm.completed.add(rank)
            comm.completed_order.append(rank)
        elif message.endswith("Destroy COMPLETE") and rank not in comm.destroyed:
            comm.destroyed.add(rank)
            comm.destroyed_order.append(rank)
        return True

    def _comm(self, key: str, nranks: int) -> CommState | None:
        comm = self.comms.get(key)
        if comm is None and len(self.comms) < _COMMS_CAP:
            comm = self.comms[key] = CommState(nranks)
        return comm

    def _take_network(self, message: str, host: str | None) -> bool:
        if "No device found" in message and host and len(self.hosts_without_ib) < _COMMS_CAP:
            self.hosts_without_ib.add(host)
        elif message.startswith("NET/IB") and "Using" in message:
            self._take_hcas(message)
        elif message.startswith("NET/Socket") and "Using" in message:
            self.interfaces = _INTERFACE.findall(message)[:64]
            self._note_odd(self.interfaces)
            self.networks.setdefault("Socket", 0)
        elif message.startswith("Bootstrap") and (found := _INTERFACE.findall(message)):
            self.bootstrap_if = found[0]
            self._note_odd(found)
        elif message.startswith("NET/Plugin"):
            self._take_plugin(message)
        return True

    def _take_hcas(self, message: str) -> None:
        found = _HCAS.findall(message)[:64]
        self.hcas = [name for name, _ in found]
        self.links |= {link for _, link in found}
        if oob := _OOB.search(message):
            self.oob = oob[1]
            self._note_odd([oob[1]])

    def _take_plugin(self, message: str) -> None:
        if "symbol" in message and "Failed to find" in message:
            self.plugin_error = "symbol version"
        elif self.plugin_error is None and ("No plugin found" in message or "not find" in message):
            self.plugin_error = "no plugin"

    def _note_odd(self, names: list[str]) -> None:
        """An interface of containers cannot reach other nodes."""
        for name in names:
            if name.startswith(_ODD_INTERFACES) and self.bad_interface is None:
                self.bad_interface = name

    def _take_other(self, message: str, first: str) -> bool:
        if message.startswith("Using network "):
            self._add_network(message.removeprefix("Using network ").strip()[:64])
        elif assigned := _ASSIGNED.search(message):
            self._add_network(assigned[1])
        elif first == "NVLS" and "multicast support is" in message:
            # "not available" contains "available".
            self.nvls = "is not available" not in message
        elif first == "cudaDriverVersion" and message[18:26].strip().isdigit():
            number = int(message[18:26])
            self.cuda_driver = f"{number // 1000}.{number % 1000 // 10}"
        elif first == "Connected" and "GDR " in message:
            self.ring_gdr = "GDR 1" in message
        elif "coll channels" in message and (counts := _CHANNELS.search(message)):
            self.coll_channels = int(counts[1])
            if nvls := _NVLS_COUNT.search(message):
                self.nvls_channels = int(nvls[1])
        elif first == "Trees":
            self._take_trees(message)
        elif "Init timings" in message and (timing := _TIMING.search(message)):
            self.init_s = max(self.init_s or 0.0, float(timing[3]))
        elif first == "Call" and "retrying" in message:
            self.connect_retries += 1
        elif first == "NCCL" or "NCCL version" in message:
            return self.take_version(message)
        elif (setting := _SETTING.match(message)) and len(self.settings) < 128:
            self.settings[setting[1]] = setting[2].rstrip(".")
        else:
            return False
        return True

    def _take_trees(self, message: str) -> None:
        trees = _TREES.findall(message[:8192])
        if trees:
            self.channels = max(self.channels or 0, 1 + max(int(n) for n, _ in trees))
            self.rank_seen = int(trees[0][1])
        if ranks := _VENDOR_RANKS.search(message):
            self.nranks = max(self.nranks or 0, int(ranks[1]))

    def _add_network(self, name: str) -> None:
        if name in self.networks or len(self.networks) < 32:
            self.networks[name] = self.networks.get(name, 0) + 1
