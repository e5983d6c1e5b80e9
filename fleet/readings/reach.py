"""Reads `ping` and `ip route get`: how many packets came back, and by which way a packet would go.

Missing is not zero: an output without its statistics line has no loss that could be told.
Source: iputils ping(8) and iproute2 ip-route(8), as of Ubuntu 24.04.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from fleet.readings.text import number_lines

_STATS = re.compile(
    r"(\d{1,9}) packets transmitted, (\d{1,9}) (?:packets )?received,(?: \+\d{1,9} \w+,)*"
    r" (\d{1,3}(?:\.\d{1,6})?)% packet loss"
)
_RTT = re.compile(r"^rtt min/avg/max/mdev = ([\d.]{1,12})/([\d.]{1,12})/([\d.]{1,12})/")
_TOO_LONG = re.compile(r"[Mm]essage too long(?:, mtu=(\d{1,6}))?|Frag needed .*mtu = (\d{1,6})")
_ROUTE = re.compile(r"^(?:\w+ )?([0-9a-fA-F.:]{2,45}) (.*\bdev (\S{1,32}).*)$")
_WORD = re.compile(r"\b(via|src|mtu) (\S{1,45})")


@dataclass(frozen=True)
class Ping:
    """What a ping told. `too_long`: the packet did not fit; `mtu` is the one that was named."""

    sent: int | None = None
    received: int | None = None
    loss_pct: float | None = None
    rtt_avg_ms: float | None = None
    too_long: bool = False
    mtu: int | None = None


@dataclass(frozen=True)
class Route:
    """The way to an address; None where a word was not there."""

    address: str
    device: str
    via: str | None = None
    source: str | None = None


def parse_ping(text: str) -> Ping:
    """Read one run of ping; fields that it does not tell are None. Times in milliseconds."""
    sent = received = mtu = None
    loss = average = None
    too_long = False
    for line in number_lines(text):
        if found := _STATS.search(line.text):
            sent, received, loss = int(found[1]), int(found[2]), float(found[3])
        elif found := _RTT.match(line.text):
            average = _number(found[2])
        elif found := _TOO_LONG.search(line.text):
            too_long = True
            mtu = int(found[1] or found[2]) if found[1] or found[2] else mtu
    return Ping(sent, received, loss, average, too_long, mtu)


def parse_route(text: str) -> Route | None:
    """Read the first line of `ip route get ADDRESS`; None when it names no way."""
    for line in number_lines(text):
        if found := _ROUTE.match(line.text.strip()):
            words = dict(_WORD.findall(found[2]))
            return Route(found[1], found[3], words.get("via"), words.get("src"))
    return None


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
