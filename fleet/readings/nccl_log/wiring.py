"""What each card's NCCL lines say of its network: cards, interface, GID and transport, each with its line.

Cheap for logs of a whole start: a line is looked at only when it holds one of four words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from fleet.readings.log_prefix import parse_nccl_seat
from fleet.readings.nccl_log.channels import parse_channel

_TAG = " NCCL INFO "
_HINTS = ("NET/", "Bootstrap", "NCCL_IB_GID_INDEX", "NCCL_SOCKET_IFNAME")
_HCA = re.compile(r"\[\d{1,3}\](\w{1,64}):\d{1,3}/")
_OOB = re.compile(r"OOB (\w[\w.-]{0,63}):")
_BOOTSTRAP = re.compile(r"^Bootstrap ?: Using (?:\[\d{1,3}\])?([\w.-]{1,64}):")
_GID = re.compile(r"^NCCL_IB_GID_INDEX set (?:by environment )?to (-?\d{1,5})\b")
_SEATS_CAP, _TRANSPORTS_CAP = 4096, 64
_SHOWN = 200


class Said(NamedTuple):
    """A value as a line told it, with the number and the text of that line."""

    value: str
    line: int
    text: str


@dataclass
class CardWiring:
    """What one card of one host said: each its last word, and the first line of each transport."""

    host: str
    card: int
    hcas: Said | None = None
    interfaces: dict[str, Said] = field(default_factory=dict)
    gid: Said | None = None
    transports: dict[str, Said] = field(default_factory=dict)


class WiringReader:
    """Collects what cards say of their network; memory is bounded whatever comes."""

    def __init__(self) -> None:
        self.cards: dict[tuple[str, int], CardWiring] = {}

    def feed(self, lines: Iterable[tuple[int, str]]) -> None:
        """Read numbered lines."""
        for number, line in lines:
            if any(hint in line for hint in _HINTS):
                self._read(number, line)

    def _read(self, number: int, line: str) -> None:
        prefix, tag, message = line.partition(_TAG)
        seat = parse_nccl_seat(prefix[-512:]) if tag else None
        card = self._card(seat.host, seat.device) if seat else None
        if card is None:
            return
        message = message.strip()
        text = line.strip()[:_SHOWN]
        if message.startswith("NET/IB") and "Using" in message:
            card.hcas = Said(",".join(_HCA.findall(message)), number, text)
            if found := _OOB.search(message):
                card.interfaces.setdefault(found[1], Said(found[1], number, text))
        elif found := _BOOTSTRAP.match(message):
            card.interfaces.setdefault(found[1], Said(found[1], number, text))
        elif found := _GID.match(message):
            card.gid = Said(found[1], number, text)
        elif (use := parse_channel(message)) and len(card.transports) < _TRANSPORTS_CAP:
            card.transports.setdefault(use.transport, Said(use.transport, number, text))

    def _card(self, host: str, device: int) -> CardWiring | None:
        card = self.cards.get((host, device))
        if card is None and len(self.cards) < _SEATS_CAP:
            card = self.cards[host, device] = CardWiring(host, device)
        return card
