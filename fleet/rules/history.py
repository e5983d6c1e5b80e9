"""What a probe's answer changes in the history: where each card sits, and facts of a node that should not drift. Pure.

Only what was read counts: a card without its UUID and a fact without a value change nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

# Facts whose change explains a node that behaves otherwise than yesterday: versions, firmware, modes, what is built in,
# and the boot. Counters and free space change by themselves.
WATCHED = frozenset(
    (
        "driver_version",
        "cuda_version",
        "kernel",
        "os",
        "docker_version",
        "vbios",
        "inforom",
        "gsp_firmware",
        "ecc_mode",
        "mig_mode",
        "cpu_count",
        "memory_total",
        "boot_id",
        "nic_firmware",
    )
)
NIC_PORTS, NIC_FIRMWARE = "rdma_ports", "nic_firmware"
# a torn line may end within a UUID; such a card is nobody
_UUID = re.compile(r"GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)


Place = tuple[int, str]


@dataclass(frozen=True)
class SeatSeen:
    """A card at its place, as one probe found it."""

    node: int
    index: int
    uuid: str


@dataclass(frozen=True)
class SeatMoves:
    """Seats that end, by their key, and those that begin. A seat in neither goes on."""

    ended: frozenset[int]
    begun: tuple[SeatSeen, ...]


def is_uuid(text: str) -> bool:
    """Tell whether a text is a whole UUID of a card, as nvidia-smi writes it."""
    return _UUID.fullmatch(text) is not None


def watched_fact(key: str, value: Any) -> tuple[str, Any] | None:
    """Return the watched key and value that a fact stands for, or None; a NIC's firmware is a part of its ports."""
    if value is None:
        return None
    if key == NIC_PORTS:
        found = (
            {
                str(port.get("device")): port.get("firmware")
                for port in value
                if isinstance(port, dict) and port.get("firmware")
            }
            if isinstance(value, list)
            else {}
        )
        return (NIC_FIRMWARE, found) if found else None
    return (key, value) if key in WATCHED else None


def seat_moves(seen: Iterable[SeatSeen], open_seats: Mapping[int, SeatSeen]) -> SeatMoves:
    """Compare the cards of probed nodes with the seats that are open, by key.

    A seat ends when another card sits at its place, or when its own card was found somewhere else. A card that merely
    does not answer keeps its seat: it is lost, not moved. A UUID that is seen twice in one batch is believed nowhere.
    """
    rows = list(seen)
    places: dict[str, list[SeatSeen]] = {}
    for row in rows:
        places.setdefault(row.uuid, []).append(row)
    believed = {uuid: found[0] for uuid, found in places.items() if uuid and len(found) == 1}
    at = {(row.node, row.index): row for row in believed.values()}
    ended, kept = set(), set()
    for key, seat in open_seats.items():
        now = believed.get(seat.uuid)
        other = at.get((seat.node, seat.index))
        if now is not None and (now.node, now.index) == (seat.node, seat.index):
            kept.add(seat.uuid)
        elif now is not None or (other is not None and other.uuid != seat.uuid):
            ended.add(key)
    begun = tuple(row for uuid, row in believed.items() if uuid not in kept)
    return SeatMoves(frozenset(ended), begun)


def facts_changed(seen: Mapping[Place, Any], known: Mapping[Place, Any]) -> list[Place]:
    """Return the places (node, key) whose value is another than the last known one. A first value is no change."""
    return [place for place, value in seen.items() if place in known and known[place] != value]
