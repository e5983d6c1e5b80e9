"""Reads `ibstat` and `ibstatus`: the ports of RDMA devices.

A port that is down keeps printing a rate and sometimes a LID; neither is a sign of life. LID 0 is
normal on Ethernet. The tools list devices in lexical order.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from fleet.readings.text import Line, number_lines

_CA = re.compile(r"^CA '(\S{1,64})'\s*$")
_PORT = re.compile(r"^\s+Port (\d{1,3}):\s*$")
_STATUS = re.compile(r"^Infiniband device '(\S{1,64})' port (\d{1,3}) status:")
_PAIR = re.compile(r"^\s+([A-Za-z][A-Za-z _]{0,40}):\s*(\S.{0,120}?)?\s*$")
_NUMBERED = re.compile(r"^\d{1,2}: (.*)$")
_RATE = re.compile(
    r"^(\d{1,5}(?:\.\d{1,3})?)(?: Gb/sec)?(?: \((\d{1,2}X)(?: (\w{1,8}))?\))?", re.ASCII
)
_CLOSED = re.compile(
    r"\s+(?:[Ll]ink[ _]layer:\s+(?:Ethernet|InfiniBand)|State:\s+(?:Active|Down)|"
    r"[Ss]tate:\s+[14]: (?:ACTIVE|DOWN)|Phys\w* state:.*(?:LinkUp|Polling|Disabled))\s*$",
    re.I,
)
# What a tear leaves of a line, unlike a title that a script writes: `er: Ethernet`, `thernet`.
_FRAGMENT = re.compile(r"^[^\s=#$*-]{0,40}(?:\s+[^\s=#$*-]{1,40}){0,3}\s*$")
_PROMPT = re.compile(r"(?:^|[$#>] ?)(?:sudo )?(?:ibstat|ibstatus)(?: -\S{1,8})*$")
_DEVICES_CAP = 512


@dataclass(frozen=True)
class IbPort:
    """One port. `rate_gbs` is what it prints, in Gb/s; it is a speed only while the port is active."""

    device: str
    port: int
    line: int
    state: str | None
    physical: str | None
    rate_gbs: float | None
    link_layer: str | None
    width: str | None = None
    guid: str | None = None
    firmware: str | None = None

    @property
    def key(self) -> str:
        return f"{self.device}/{self.port}"

    @property
    def is_active(self) -> bool:
        return (self.state or "").lower() == "active"

    @property
    def is_whole(self) -> bool:
        """Whether the block was printed to its end: the link layer stands last."""
        told = (self.state, self.physical, self.rate_gbs)
        return None not in told and self.link_layer in ("Ethernet", "InfiniBand")


@dataclass(frozen=True)
class IbPorts:
    """All ports of an answer."""

    ports: tuple[IbPort, ...]
    devices: tuple[str, ...]
    unread: tuple[int, ...]
    promised: Mapping[str, int] = field(default_factory=dict)
    is_headless: bool = False

    @property
    def complete(self) -> bool:
        """Whether each device has its ports, each port its whole block, and nothing odd follows."""
        named = {p.device for p in self.ports}
        if not self.ports or named != {*self.devices} or self.is_headless:
            return False
        after = [n for n in self.unread if n > self.ports[0].line]
        whole = all(p.is_whole for p in self.ports) and not self.is_mixed
        return whole and not after and not self.missing

    @property
    def is_mixed(self) -> bool:
        """Whether a port stands twice, as when the answers of two nodes run into one text."""
        return len({p.key for p in self.ports}) != len(self.ports)

    @property
    def missing(self) -> tuple[str, ...]:
        """Devices with fewer blocks than the `Number of ports` that they print."""
        printed = Counter(p.device for p in self.ports)
        return tuple(d for d, count in self.promised.items() if printed[d] < count)


def is_ports(text: str) -> bool:
    """Tell either tool by the head of a block."""
    return any(
        _CA.match(line.text) or _STATUS.match(line.text) for line in number_lines(text[:65536])
    )


def parse_ports(text: str) -> IbPorts:
    """Read either tool; debug lines before the report do not matter."""
    blocks: list[tuple[str, int, int, dict[str, str]]] = []
    devices: dict[str, dict[str, str]] = {}
    unread: list[int] = []
    is_headless = False
    device = ""
    fields: dict[str, str] = {}
    for line in number_lines(text):
        if (ca := _CA.match(line.text)) and len(devices) < _DEVICES_CAP:
            device, fields = ca[1], {}
            devices[device] = fields
        elif (head := _STATUS.match(line.text)) and len(devices) < _DEVICES_CAP:
            device, fields = head[1], {}
            devices.setdefault(device, {})
            blocks.append((device, int(head[2]), line.number, fields))
        elif (port := _PORT.match(line.text)) and device and len(blocks) < 4 * _DEVICES_CAP:
            fields = {}
            blocks.append((device, int(port[1]), line.number, fields))
        elif device and (pair := _PAIR.match(line.text)):
            fields[pair[1].lower().replace("_", " ")] = pair[2] or ""
        elif _is_unread(line):
            unread.append(line.number)
            is_fragment = line.number == 1 and _FRAGMENT.match(line.text) is not None
            is_headless = is_headless or is_fragment or _PAIR.match(line.text) is not None
    ports = tuple(_port(d, n, at, f, devices[d]) for d, n, at, f in blocks)
    promised = {d: int(f["number of ports"]) for d, f in devices.items() if _is_count(f)}
    return IbPorts(ports, tuple(devices), tuple(unread), promised, is_headless)


def is_whole_line(text: str) -> bool:
    """Tell the line that ends a block, and states that are no part of a longer word."""
    return _CLOSED.match(text) is not None


def _is_count(fields: Mapping[str, str]) -> bool:
    return re.fullmatch(r"[0-9]{1,3}", fields.get("number of ports", "")) is not None


def _is_unread(line: Line) -> bool:
    text = line.text.strip()
    return bool(text) and not text.startswith("ibwarn:") and _PROMPT.search(text) is None


def _port(device: str, port: int, line: int, f: dict[str, str], ca: dict[str, str]) -> IbPort:
    rate = _RATE.match(f.get("rate", ""))
    return IbPort(
        device,
        port,
        line,
        _word(f.get("state")),
        _word(f.get("physical state") or f.get("phys state")),
        float(rate[1]) if rate else None,
        f.get("link layer"),
        rate[2] if rate else None,
        f.get("port guid") or f.get("default gid"),
        ca.get("firmware version"),
    )


def _word(text: str | None) -> str | None:
    """`ibstatus` numbers its states: `4: ACTIVE`."""
    if text is None:
        return None
    numbered = _NUMBERED.match(text)
    return numbered[1] if numbered else text
