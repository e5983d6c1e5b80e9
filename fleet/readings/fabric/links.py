"""Reads network interfaces from `ip`: `-br addr`, `-br link`, `-j`, and the long form.

UNKNOWN is the normal state of the loopback and of tunnels; only an answer that shows addresses can
say that an interface has none.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace

from fleet.readings.fabric.sentences import read_tool_sentence
from fleet.readings.text import Line, number_lines

_STATES = ("UP", "DOWN", "UNKNOWN", "LOWERLAYERDOWN", "DORMANT", "NOTPRESENT", "TESTING")
_BRIEF = re.compile(rf"^(\S{{1,64}})\s+({'|'.join(_STATES)})(?!\S)\s*(.{{0,4096}}?)\s*$")
_LONG = re.compile(
    r"^\d{1,9}: (\S{1,64}?)(?:@\S{1,64})?: <([A-Z0-9_,-]{0,200})> mtu (\d{1,6})\b.{0,200}?"
    rf" state ({'|'.join(_STATES)})(?!\S)",
    re.ASCII,
)
_BELOW = re.compile(r"^\s+(?:link/|inet6? |valid_lft |altname |RX|TX|\d|vf |bridge|prog)")
_INET = re.compile(r"^\s+inet6? (\S{2,64}/\d{1,3}) ", re.ASCII)
_ADDRESS = re.compile(r"^(?:\d{1,3}(?:\.\d{1,3}){3}|[0-9a-f:]{2,39})/\d{1,3}$", re.ASCII)
_MAC = re.compile(r"^[0-9a-f]{2}(?::[0-9a-f]{2}){5}(?:(?::[0-9a-f]{2}){14})?$")
_FLAGS = re.compile(r"^<([A-Z0-9_,-]{0,200})>$")
_JSON = re.compile(r"^\s*\[\s*(?:\{|\])")
_PROMPT = re.compile(r"(?:^|[$#>] )\s*(?:sudo )?ip (?:-|a|l)")


@dataclass(frozen=True)
class NetLink:
    """One interface; `addresses` stay empty for a bond's slave, which is no fault. `mtu` in bytes."""

    name: str
    state: str
    addresses: tuple[str, ...]
    mtu: int | None
    line: int
    mac: str | None = None
    flags: tuple[str, ...] = ()

    @property
    def has_no_carrier(self) -> bool:
        """Whether it is switched on and hears nobody: a cable or its other end."""
        return "NO-CARRIER" in self.flags


@dataclass(frozen=True)
class NetLinks:
    """All interfaces of an answer."""

    links: tuple[NetLink, ...]
    unread: tuple[int, ...]
    form: str

    @property
    def is_mixed(self) -> bool:
        """Whether an interface stands twice, as when the answers of two nodes run into one text."""
        return len({n.name for n in self.links}) != len(self.links)

    @property
    def shows_addresses(self) -> bool:
        return any(n.addresses for n in self.links)

    @property
    def is_partial(self) -> bool:
        """Whether a list lacks the loopback that the tool prints first; JSON is closed by itself."""
        return bool(self.links) and self.form != "ip-json" and self.links[0].name != "lo"

    @property
    def complete(self) -> bool:
        torn = self.unread or self.is_mixed or self.is_partial
        return bool(self.links) and not torn


def is_links_json(text: str) -> bool:
    """Tell the JSON form; a prompt may begin with a bracket too."""
    return _JSON.match(text) is not None and '"ifname"' in text


def parse_links(text: str) -> NetLinks:
    """Read any of the forms."""
    if is_links_json(text):
        return _parse_json(text)
    links: list[NetLink] = []
    unread: list[int] = []
    form = "ip-br-addr"
    for line in number_lines(text):
        if found := _LONG.match(line.text):
            flags = tuple(found[2].split(","))
            links.append(NetLink(found[1], found[4], (), int(found[3]), line.number, None, flags))
            form = "ip"
        elif brief := _brief(line):
            links.append(brief)
            form = "ip-br-link" if brief.mac else form
        elif form == "ip" and _BELOW.match(line.text):
            links[-1] = _with_address(links[-1], line.text)
        elif line.text.strip() and not (_PROMPT.search(line.text) or read_tool_sentence(line)):
            unread.append(line.number)
    return NetLinks(tuple(links), tuple(unread), form)


def _brief(line: Line) -> NetLink | None:
    found = _BRIEF.match(line.text)
    if found is None:
        return None
    words = found[3].split()
    name = found[1].partition("@")[0]
    mac = words[0] if words and _MAC.match(words[0]) else None
    flags = _FLAGS.match(words[-1]) if words else None
    told = tuple(flags[1].split(",")) if flags else ()
    addresses = tuple(w for w in words if _ADDRESS.match(w))
    return NetLink(name, found[2], addresses, None, line.number, mac, told)


def _with_address(link: NetLink, text: str) -> NetLink:
    found = _INET.match(text[:256])
    return replace(link, addresses=(*link.addresses, found[1])) if found else link


def _parse_json(text: str) -> NetLinks:
    try:
        rows = json.loads(text)
    except (ValueError, RecursionError):
        return NetLinks((), (1,), "ip-json")
    links = [_json_link(row) for row in rows if isinstance(row, dict) and "ifname" in row]
    return NetLinks(tuple(links), (), "ip-json")


def _json_link(row: dict[str, object]) -> NetLink:
    mtu, told, flags, mac = (row.get(k) for k in ("mtu", "addr_info", "flags", "address"))
    addresses = tuple(
        f"{a.get('local')}/{a.get('prefixlen')}"
        for a in (told if isinstance(told, list) else [])
        if isinstance(a, dict)
    )
    return NetLink(
        str(row["ifname"])[:64],
        str(row.get("operstate", "UNKNOWN"))[:32],
        addresses,
        mtu if isinstance(mtu, int) else None,
        1,
        mac[:64] if isinstance(mac, str) else None,
        tuple(str(f)[:32] for f in flags[:64]) if isinstance(flags, list) else (),
    )
