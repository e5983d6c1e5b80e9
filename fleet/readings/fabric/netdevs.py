"""Reads `ibdev2netdev` and `show_gids`: the network device and the GIDs behind an RDMA device.

Device numbers differ between sister nodes, so a list of HCAs cannot be copied from one to another.
The index of the RoCEv2 IPv4 GID is 3 on many nodes and another one on others; in a container it is
missing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from fleet.readings.text import number_lines

_NETDEV = re.compile(r"^\s*([A-Za-z]\S{0,63})\s+port (\d{1,3}) ==> (\S{0,64})\s+\((Up|Down)\)")
# With -v the PCI address, the card's name and its firmware come first.
_VERBOSE = re.compile(
    r"^\s*[0-9a-f]{4}:[0-9a-f:.]{6,8} (\S{1,64}) \(.{0,300}? port (\d{1,3}) \(.{1,24}\)\s?==> "
    r"(\S{0,64}) \((Up|Down)\)"
)
# `rdma link` of iproute2; the state of a port is the whole word ACTIVE.
_RDMA = re.compile(
    r"^(?:\d{1,4}/\d{1,3}: |link )([A-Za-z][^\s/]{0,63})/(\d{1,3}):? .{0,200}?\bstate (\w{1,16})"
    r" physical_state \w{1,24}"
    r"(?: netdev (\S{1,64}))?(?: netdev_index \d{1,9})?\s*$",
    re.ASCII,
)
_GID_HEAD = re.compile(r"^\s*DEV\s+PORT\s+INDEX\s+GID\b")
_GID = re.compile(r"^[0-9a-f]{4}(?::[0-9a-f]{4}){7}$")
_FOUND = re.compile(r"^n_gids_found=(\d{1,6})$", re.ASCII)
_IPV4 = re.compile(r"^\d{1,3}(?:\.\d{1,3}){3}$", re.ASCII)
_NATURAL = re.compile(r"\d{1,9}|\D{1,64}")


@dataclass(frozen=True)
class NetDev:
    """One line: an RDMA port and its network device. What people write behind it is ignored."""

    device: str
    port: int
    netdev: str
    is_up: bool
    line: int

    @property
    def is_bond(self) -> bool:
        return self.netdev.startswith("bond") or "_bond" in self.device


@dataclass(frozen=True)
class Gid:
    """One GID of one port."""

    device: str
    port: int
    index: int
    gid: str
    ipv4: str | None
    version: str
    netdev: str
    line: int

    @property
    def is_rocev2_ipv4(self) -> bool:
        return self.version == "v2" and self.ipv4 is not None


@dataclass(frozen=True)
class GidTable:
    """All GIDs, and how many the tool says there are; without that number the table is cut."""

    gids: tuple[Gid, ...]
    found: int | None
    unread: tuple[int, ...]
    is_table: bool = False

    @property
    def complete(self) -> bool:
        counted = self.found is not None and self.found == len(self.gids)
        return counted and not self.unread and not self.is_mixed

    @property
    def is_mixed(self) -> bool:
        """Whether an index of a port stands twice, as when two nodes' tables run into one text."""
        return len({(g.device, g.port, g.index) for g in self.gids}) != len(self.gids)

    def rocev2_ipv4_index(self) -> dict[str, int]:
        """Return by device the first index of a RoCEv2 IPv4 GID; a device without one is absent."""
        indexes: dict[str, int] = {}
        for gid in self.gids:
            if gid.is_rocev2_ipv4:
                indexes.setdefault(gid.device, gid.index)
        return indexes


def parse_netdevs(text: str) -> tuple[tuple[NetDev, ...], tuple[int, ...]]:
    """Read `ibdev2netdev`; return devices and the lines that were not understood."""
    devices: list[NetDev] = []
    unread: list[int] = []
    for line in number_lines(text):
        if found := _NETDEV.match(line.text) or _VERBOSE.match(line.text):
            devices.append(NetDev(found[1], int(found[2]), found[3], found[4] == "Up", line.number))
        elif found := _RDMA.match(line.text):
            up = found[3] == "ACTIVE"
            devices.append(NetDev(found[1], int(found[2]), found[4] or "", up, line.number))
        elif line.text.strip() and not re.search(r"ibdev2netdev|rdma link", line.text):
            unread.append(line.number)
    return tuple(devices), tuple(unread)


def parse_gids(text: str) -> GidTable:
    """Read `show_gids`. The IPv4 cell is empty for link-local GIDs; two columns are called DEV."""
    gids: list[Gid] = []
    unread: list[int] = []
    found: int | None = None
    is_table = False
    for line in number_lines(text):
        words = line.text.split()
        if told := _FOUND.match(line.text.strip()):
            found = int(told[1])
            is_table = True
        elif len(words) >= 5 and _GID.match(words[3]) and (gid := _gid(words, line.number)):
            gids.append(gid)
        elif _GID_HEAD.match(line.text):
            is_table = True
        elif words and words[0] != "---" and "show_gids" not in line.text:
            unread.append(line.number)
    return GidTable(tuple(gids), found, tuple(unread), is_table)


def _gid(words: list[str], line: int) -> Gid | None:
    if not re.fullmatch(r"[0-9]{1,3}", words[1]) or not re.fullmatch(r"[0-9]{1,4}", words[2]):
        return None
    rest = words[4:]
    ipv4 = rest.pop(0) if _IPV4.match(rest[0]) else None
    if not rest or rest[0] not in ("v1", "v2"):
        return None
    netdev = rest[1] if len(rest) > 1 else ""
    return Gid(words[0], int(words[1]), int(words[2]), words[3], ipv4, rest[0], netdev, line)


def is_beheaded(devices: tuple[NetDev, ...]) -> bool:
    """Tell a first name that lost its beginning: `lx5_0` or `5_0` where all others are `mlx5_N`."""
    stems = [d.device.rstrip("0123456789") for d in devices]
    return (
        len(stems) > 1
        and stems[0] not in stems[1:]
        and any(stem.endswith(stems[0]) for stem in stems[1:])
    )


def natural_order(name: str) -> list[tuple[int, str]]:
    """Sort key that puts mlx5_2 before mlx5_10, which the tools do not."""
    return [(int(p), "") if p.isdigit() else (-1, p) for p in _NATURAL.findall(name[:128])]
