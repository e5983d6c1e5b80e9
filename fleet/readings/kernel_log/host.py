"""Reads what the kernel says of the host: memory, NICs, PCIe, crashes, limits, driver mismatch."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

_CAP = 512
_KILLED = re.compile(r"Out of memory: Kill(?:ed)? process (\d{1,10})")
_CGROUP_KILLED = re.compile(r"Memory cgroup out of memory: Kill(?:ed)? process (\d{1,10})")
_REAPED = re.compile(r"oom_reaper: reaped process (\d{1,10})")
# `traps:` lines are of programs too: a general protection fault there is no crash of the kernel.
_SEGFAULT = re.compile(
    r"(\S{1,64})\[(\d{1,10})\]:? (?:segfault at|general protection fault ip|trap [a-z ]{4,32} ip)"
    r".{1,160}? in ([^\[\s]{1,128})\["
)
_FILE_MAX = re.compile(r"VFS: file-max limit (\d{1,15}) reached")
_EDAC = re.compile(r"EDAC MC(\d{1,3}): (\d{1,9}) (UE|CE) (?:.{0,64}? )?on (\S{1,128})")
# Older drivers and some modules name no memory module.
_EDAC_BARE = re.compile(r"EDAC (?:\S{1,16} )?MC(\d{1,3}): (?:(\d{1,9}) )?(UE|CE)\b")
_PCIE = re.compile(
    r"(?:mlx5_core|nvidia) (\S{1,16}): (\d{1,6}\.\d{1,6}) Gb/s available PCIe bandwidth, limited by "
    r"\S{1,8} GT/s PCIe (x\d{1,2}) link .{0,80}?PCIe (x\d{1,2}) link\)"
)
_BDF = re.compile(r"mlx5_core[: ].{0,32}?([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f])", re.I)
_WATTS = re.compile(r"insufficient power on the PCIe slot \((\d{1,4})W\)")
_MODULE = re.compile(r"module (\d{1,3}), High Temperature")
_FIRMWARE = re.compile(r"firmware version: (\S{1,32})")
_ERRNO = re.compile(r"failed with error (?:code )?(-\d{1,5})")
_DRIVER = re.compile(
    r"NVRM: loading NVIDIA .{0,60}?Kernel Module\s+(\d{1,4}\.\d{1,4}(?:\.\d{1,4})?)"
)
_CLIENT = re.compile(r"NVRM: API mismatch: the client has the version (\S{1,24}?),? but")
_MODULE_VERSION = re.compile(r"NVRM: this kernel module has the version (\d[\d.]{1,20}\d)")
_OOPS = re.compile(
    r"CPU: \d{1,5} PID: (\d{1,10}) Comm: (\S{1,64}) .{0,64}?(\d{1,3}\.\d{1,3}\S{0,64}) #"
)
_SYSRQ = re.compile(r"(?:[Ss]ys[Rr]q: )?([Ss]ys[Rr]q ?: .{0,40}crash.{0,60})")
_PEER = re.compile(r"peer(\d{1,4})'s postRxDetLinkMask failed")
_LOST = re.compile(
    r"NVRM: .{0,60}?(?:GPU |NVIDIA GPU )?(?:at )?(?:PCI:)?([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}"
    r"(?:\.[0-9a-f])?)?.{0,60}?(?:has )?fallen off the bus", re.I,
)  # fmt: skip
# The first of three lines that together say that this card has fallen off the bus.
_NAMED = re.compile(
    r"NVRM: (?:The )?(?:NVIDIA )?GPU (?:at )?(?:PCI:)?([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}(?:\.[0-9a-f])?)$",
    re.I,
)
_NAMED_LINES = 3
# The last two are those of Arm processors.
_CRASHES = (
    "BUG: unable to handle", "Kernel panic", "kernel BUG at", "Unable to handle kernel", "Internal error: Oops",
)  # fmt: skip
_LINK_STATES = ("Cable unplugged", "Link up", "Link down", "Cable plugged")


@dataclass
class HostLog:
    """What was told; lists hold the first ones only, counters count all."""

    oom_events: int = 0
    oom_killed: list[int] = field(default_factory=list)
    oom_reaped: int | None = None
    oom_lines: list[int] = field(default_factory=list)
    segfaults: dict[tuple[str, int, str], list[int]] = field(default_factory=dict)
    file_max: tuple[int, list[int]] | None = None
    edac: list[dict[str, Any]] = field(default_factory=list)
    edac_lines: list[int] = field(default_factory=list)
    pcie: list[dict[str, Any]] = field(default_factory=list)
    pcie_lines: list[int] = field(default_factory=list)
    nics: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    nic_lines: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    firmware: dict[str, str] = field(default_factory=dict)
    driver: str | None = None
    mismatch: dict[str, str] = field(default_factory=dict)
    mismatch_lines: list[int] = field(default_factory=list)
    crash: dict[str, Any] = field(default_factory=dict)
    crash_lines: list[int] = field(default_factory=list)
    is_sysrq: bool = False
    nvlink_failures: int = 0
    nvlink_peer: int | None = None
    nvlink_lines: list[int] = field(default_factory=list)
    lost: list[tuple[str | None, int]] = field(default_factory=list)
    init_failures: list[int] = field(default_factory=list)
    named: tuple[str, int] | None = None
    # The last state of each NIC that went up or down, and its line.
    links: dict[str, tuple[str, int]] = field(default_factory=dict)
    _place: int = 0

    def take(self, text: str, line: int, place: int | None = None) -> bool:
        """Take one message; return whether it told anything. `place`: the number among the host's own lines."""
        self._place = line if place is None else place
        return (
            self._take_oom(text, line)
            or self._take_driver(text, line)
            or self._take_memory(text, line)
            or self._take_nic(text, line)
            or self._take_crash(text, line)
        )

    def _take_oom(self, text: str, line: int) -> bool:
        killed = _CGROUP_KILLED.search(text) or _KILLED.search(text)
        reaped = _REAPED.search(text)
        if not killed and not reaped and "oom-kill:" not in text:
            return False
        self.oom_events += 1
        _keep(self.oom_lines, line)
        if killed:
            _keep(self.oom_killed, int(killed[1]))
        if reaped:
            self.oom_reaped = int(reaped[1])
        return True

    def _take_driver(self, text: str, line: int) -> bool:
        if "NVRM" not in text:
            return False
        if found := _DRIVER.search(text):
            self.driver = found[1]
        elif found := _CLIENT.search(text):
            self.mismatch["client"] = found[1]
            _keep(self.mismatch_lines, line)
        elif found := _MODULE_VERSION.search(text):
            self.mismatch["module"] = found[1]
            _keep(self.mismatch_lines, line)
        elif "Failed to update Rx Detect Link mask" in text:
            self.nvlink_failures += 1
            _keep(self.nvlink_lines, line)
        elif found := _PEER.search(text):
            self.nvlink_peer = int(found[1])
        elif "fallen off the bus" in text:
            _keep(self.lost, (self._lost_bus(text), line))
        elif found := _NAMED.search(text.rstrip()):
            self.named = found[1].lower(), self._place
        elif "RmInitAdapter failed" in text:
            _keep(self.init_failures, line)
        else:
            return False
        return True

    def _lost_bus(self, text: str) -> str | None:
        found = _LOST.search(text)
        if found and found[1]:
            return found[1].lower()
        if self.named and self._place - self.named[1] < _NAMED_LINES:
            return self.named[0]
        return None

    def _take_memory(self, text: str, line: int) -> bool:
        if found := _EDAC.search(text) or _EDAC_BARE.search(text):
            dimm = found[4] if found.re is _EDAC else None
            count = int(found[2] or 1)
            _keep(self.edac, {"mc": int(found[1]), "type": found[3], "count": count, "dimm": dimm})
            _keep(self.edac_lines, line)
        elif found := _SEGFAULT.search(text):
            key = (found[1], int(found[2]), found[3])
            if key in self.segfaults or len(self.segfaults) < _CAP:
                _keep(self.segfaults.setdefault(key, []), line)
        elif found := _FILE_MAX.search(text):
            lines = self.file_max[1] if self.file_max else []
            _keep(lines, line)
            self.file_max = int(found[1]), lines
        else:
            return False
        return True

    def _take_nic(self, text: str, line: int) -> bool:
        if found := _PCIE.search(text):
            bdf, gbps, width, capable = found.groups()
            row = {"bdf": bdf, "width": width, "capable": capable, "gbps": float(gbps)}
            _keep(self.pcie, row)
            _keep(self.pcie_lines, line)
            return True
        bdf_found = _BDF.search(text) if "mlx5_core" in text else None
        if bdf_found is None:
            return False
        bdf = bdf_found[1].lower()
        if firmware := _FIRMWARE.search(text):
            self.firmware[bdf] = firmware[1]
            return True
        event = _nic_event(text)
        if event is None:
            return False
        self._add_nic(bdf, event, text, line)
        return True

    def fallen_links(self) -> list[tuple[str, int]]:
        """Return NICs whose link went down and did not come back, with the line of it.

        A port that was never seen up while its driver loaded is one that nobody uses.
        """
        return [
            (bdf, line)
            for bdf, (event, line) in self.links.items()
            if event == "Link down" and ((bdf, "Link up") in self.nics or bdf not in self.firmware)
        ]

    def _add_nic(self, bdf: str, event: str, text: str, line: int) -> None:
        key = (bdf, event)
        if event in ("Link up", "Link down") and (bdf in self.links or len(self.links) < _CAP):
            self.links[bdf] = event, line
        if key not in self.nics and len(self.nics) >= _CAP:
            return
        row = self.nics.setdefault(key, {"bdf": bdf, "event": event})
        _keep(self.nic_lines.setdefault(key, []), line)
        if watts := _WATTS.search(text):
            row.setdefault("watts", []).append(int(watts[1]))
        if module := _MODULE.search(text):
            row["module"] = int(module[1])
        if errno := _ERRNO.search(text):
            row["errno"] = int(errno[1])
            if bdf in self.firmware:
                row["fw"] = self.firmware[bdf]

    def _take_crash(self, text: str, line: int) -> bool:
        if told := _SYSRQ.search(text):
            self.is_sysrq = True
            self.crash["cause"] = told[1].strip()
        elif any(words in text for words in _CRASHES) or (
            "general protection" in text and not text.startswith("traps:")
        ):
            self.crash.setdefault("text", text.strip()[:160])
        elif self.crash and (found := _OOPS.search(text)):
            self.crash |= {"pid": int(found[1]), "process": found[2], "kernel": found[3]}
        elif "sysrq_handle_crash" in text:
            self.is_sysrq = True
        else:
            return False
        _keep(self.crash_lines, line)
        return True


def _nic_event(text: str) -> str | None:
    if "insufficient power on the PCIe slot" in text:
        return "insufficient PCIe slot power"
    if "ACCESS_REG" in text and "failed" in text:
        return "ACCESS_REG failed"
    if "High Temperature" in text:
        return "module high temperature"
    if "probe of" in text and "failed" in text:
        return "probe failed"
    return next((state for state in _LINK_STATES if state in text), None)


def _keep(kept: list[Any], item: Any) -> None:
    if len(kept) < _CAP:
        kept.append(item)
