"""Reads Xid lines of the NVIDIA driver and SXid lines of its switches.

The number counts, not the text behind it. `SXid (PCI` contains `Xid (PCI`. One burst prints many
lines; a second code in a line names what came before.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

_XID = re.compile(
    r"NVRM: Xid \((?:PCI:)?([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}(?:\.[0-9])?)"
    r"(?: GPU-I:\w{1,4})?\): (\d{1,5})\b,?\s?(.*)"
)
_SXID = re.compile(
    r"(nvidia-nvswitch\d{1,3}): SXid \(PCI:([0-9A-Fa-f:.]{7,20})\): (\d{1,6}), "
    r"(?:(Fatal|Non-fatal), )?(?:Link (\d{1,4}))?"
)
_PID = re.compile(r"\bpid=(?:'<unknown>'|(\d{1,10}))")
_NAME = re.compile(r"\bname=([^,]{1,64})")
_CHANNEL = re.compile(r"\bCh ([0-9a-fA-F]{1,16})\b")
_LINK = re.compile(r"(?:on link |Link )(\d{1,3})\b")
_REGISTERS = re.compile(r"on link \d{1,3}\(((?:0x[0-9a-f]{1,16}(?:, )?){1,16})\)")
_ACTION = re.compile(r"action changed from \S{1,8} \([^)]{1,64}\) to \S{1,8} \(([^)]{1,64})\)")
_SEVERITY = re.compile(r"\b(Fatal|Non-?fatal)\b", re.IGNORECASE)
_COUNTERS = re.compile(r"\b(DRAM|LTC|MMU|PCIE):(\d{1,9})")
_BECAUSE = re.compile(r"previous Xid (\d{1,5})")


@dataclass
class XidGroup:
    """All lines of one code on one card."""

    code: int
    bus: str
    first_line: int
    last_line: int = 0
    lines: int = 0
    pid: int | None = None
    process: str | None = None
    channel: str | None = None
    severity: str | None = None
    action: str | None = None
    because: int | None = None
    text: str = ""
    links: list[int] = field(default_factory=list)
    registers: dict[int, list[str]] = field(default_factory=dict)
    counters: dict[str, int] = field(default_factory=dict)


class SxidLine(NamedTuple):
    """One line of a switch; a fault of a switch concerns the node, not one card."""

    code: int
    switch: str
    bus: str
    severity: str | None
    link: int | None
    line: int


class XidLog:
    """Collects Xid by code and card, and SXid; both are bounded."""

    _CAP = 1024

    def __init__(self) -> None:
        self.groups: dict[tuple[int, str], XidGroup] = {}
        self.switches: list[SxidLine] = []
        self.torn: list[int] = []

    def by_code(self) -> list[XidGroup]:
        """Return the groups code by code, in the order in which codes and cards were first seen."""
        codes = list(dict.fromkeys(group.code for group in self.groups.values()))
        order = {code: place for place, code in enumerate(codes)}
        return sorted(self.groups.values(), key=lambda group: order[group.code])

    def take(self, text: str, line: int) -> bool:
        """Take one message; return whether it was one of either."""
        if found := _SXID.search(text):
            if len(self.switches) < self._CAP:
                link = int(found[5]) if found[5] else None
                self.switches.append(
                    SxidLine(int(found[3]), found[1], found[2], found[4], link, line)
                )
            return True
        found = _XID.search(text)
        if found is None:
            return self._note_torn(text, line)
        code, bus = int(found[2]), found[1].partition(".")[0].lower()
        group = self.groups.get((code, bus))
        if group is None:
            if len(self.groups) >= self._CAP:
                return True
            group = self.groups[code, bus] = XidGroup(code, bus, line, text=found[3][:200])
        group.last_line = line
        _add(group, found[3])
        return True

    def _note_torn(self, text: str, line: int) -> bool:
        """A line of an Xid or SXid without its code tells that something happened, and not what."""
        is_torn = "NVRM: Xid" in text or ": SXid (" in text
        if is_torn and len(self.torn) < self._CAP:
            self.torn.append(line)
        return is_torn


def _add(group: XidGroup, rest: str) -> None:
    group.lines += 1
    if (pid := _PID.search(rest)) and pid[1]:
        group.pid = int(pid[1])
    if (name := _NAME.search(rest)) and name[1] != "<unknown>":
        group.process = name[1].strip()
    if channel := _CHANNEL.search(rest):
        group.channel = channel[1]
    if because := _BECAUSE.search(rest):
        group.because = int(because[1])
    if group.code == 154 and (action := _ACTION.search(rest)):
        group.action = action[1]
    if severity := _SEVERITY.search(rest):
        group.severity = severity[1]
    if group.code == 140:
        group.counters = {name.lower(): int(count) for name, count in _COUNTERS.findall(rest)}
    _add_link(group, rest)


def _add_link(group: XidGroup, rest: str) -> None:
    if group.code not in (74, *range(144, 151)):
        return
    link = _LINK.search(rest)
    if link is None or len(group.links) >= 64:
        return
    number = int(link[1])
    if number not in group.links:
        group.links.append(number)
    if registers := _REGISTERS.search(rest):
        group.registers[number] = registers[1].split(", ")
