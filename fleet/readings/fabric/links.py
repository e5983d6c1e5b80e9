"""Reads `ip -br addr`, `ip -br link` and `ip -j link`: network interfaces."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from fleet.readings.text import number_lines

_STATES = ("UP", "DOWN", "UNKNOWN", "LOWERLAYERDOWN", "DORMANT", "NOTPRESENT", "TESTING")
_BRIEF = re.compile(rf"^(\S{{1,64}})\s+({'|'.join(_STATES)})\b\s*(.{{0,512}}?)\s*$")
_ADDRESS = re.compile(r"^(?:\d{1,3}(?:\.\d{1,3}){3}|[0-9a-f:]{2,39})/\d{1,3}$")


@dataclass(frozen=True)
class NetLink:
    """One interface; `addresses` stay empty for a bond's slave, which is no fault."""

    name: str
    state: str
    addresses: tuple[str, ...]
    mtu: int | None
    line: int


def parse_links(text: str) -> tuple[tuple[NetLink, ...], tuple[int, ...]]:
    """Read the brief or the JSON form; return interfaces and lines not understood."""
    if text.lstrip().startswith("["):
        return _parse_json(text)
    links: list[NetLink] = []
    unread: list[int] = []
    for line in number_lines(text):
        found = _BRIEF.match(line.text)
        if found is None:
            if line.text.strip() and "ip -" not in line.text:
                unread.append(line.number)
            continue
        addresses = tuple(w for w in found[3].split() if _ADDRESS.match(w))
        name = found[1].partition("@")[0]
        links.append(NetLink(name, found[2], addresses, None, line.number))
    return tuple(links), tuple(unread)


def _parse_json(text: str) -> tuple[tuple[NetLink, ...], tuple[int, ...]]:
    try:
        rows = json.loads(text)
    except (ValueError, RecursionError):
        return (), (1,)
    links = [_json_link(row) for row in rows if isinstance(row, dict) and "ifname" in row]
    return tuple(links), ()


def _json_link(row: dict[str, object]) -> NetLink:
    mtu = row.get("mtu")
    told = row.get("addr_info")
    addresses = tuple(
        f"{a.get('local')}/{a.get('prefixlen')}"
        for a in (told if isinstance(told, list) else [])
        if isinstance(a, dict)
    )
    state = str(row.get("operstate", "UNKNOWN"))[:32]
    return NetLink(
        str(row["ifname"])[:64], state, addresses, mtu if isinstance(mtu, int) else None, 1
    )
