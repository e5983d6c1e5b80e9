"""The transport of each channel: `Channel 00/0 : 3[3] -> 4[4] [send] via NET/IB/3/GDRDMA`."""

from __future__ import annotations

import re
from typing import NamedTuple

_ENDS = re.compile(
    r"Channel (\d{1,4})(?:/\d{1,4})? : (\d{1,6})\[[0-9a-fA-F]{1,16}\] -> (\d{1,6})\[[0-9a-fA-F]{1,16}\]"
)
_TAIL = re.compile(r" (?:comm|nRanks|busId) ")


class ChannelUse(NamedTuple):
    """One direction of one channel; ranks are those of its communicator."""

    channel: int
    source: int
    target: int
    transport: str

    @property
    def has_gdr(self) -> bool:
        """Whether the NIC reads and writes GPU memory itself."""
        return "/GDRDMA" in self.transport

    @property
    def is_network(self) -> bool:
        return self.transport.startswith("NET/")

    @property
    def family(self) -> str:
        """The transport without the number of its device: NET/IB, NET/Socket, P2P/CUMEM, SHM."""
        parts = self.transport.split("/")
        if parts[0] == "SHM":
            return "SHM"
        return "/".join(parts[:2])


def parse_channel(message: str) -> ChannelUse | None:
    """Read a channel line; the list of a ring and a torn line have no transport and give None."""
    head, via, transport = message.rpartition(" via ")
    ends = _ENDS.search(head) if via else None
    if ends is None:
        return None
    transport = _TAIL.split(transport, maxsplit=1)[0].strip()[:64]
    if not transport:
        return None
    return ChannelUse(int(ends[1]), int(ends[2]), int(ends[3]), transport)
