"""The cards that speak in an NCCL log: who a prefix belongs to, and what each one printed."""

from __future__ import annotations

import re
from itertools import islice

from fleet.readings.log_prefix import parse_nccl_seat
from fleet.readings.text import clean_line, decode

_SEATS_CAP = 4096
_CACHE_CAP = 16_384
_PREFIX_BYTES = 512
_COMMS_OF_A_SEAT = 64
_COMM = re.compile(r"\bcomm (0x[0-9a-fA-F]{1,16}) ")


class SeatTally:
    """What one card of one host printed."""

    __slots__ = ("begun", "collectives", "completed", "gpu", "host", "transports", "warnings")

    def __init__(self, host: str, gpu: int | None) -> None:
        self.host = host
        self.gpu = gpu
        self.transports: dict[str, int] = {}
        self.begun: set[str] = set()
        self.completed: set[str] = set()
        self.collectives = 0
        self.warnings = 0

    def count(self, transport: str) -> None:
        """Count one channel line."""
        self.transports[transport] = self.transports.get(transport, 0) + 1

    def note_init(self, message: str) -> None:
        """Note that a communicator of this card began or ended its set-up."""
        told = self.begun if message.endswith("Init START") else self.completed
        if told is self.completed and not message.endswith("Init COMPLETE"):
            return
        if (comm := _COMM.search(message)) and len(told) < _COMMS_OF_A_SEAT:
            told.add(comm[1])

    @property
    def is_complete(self) -> bool:
        """Whether each communicator that began was set up; none seen is not complete."""
        return bool(self.begun) and self.begun <= self.completed


class SeatTable:
    """All cards; a flood of different prefixes empties only the cache."""

    def __init__(self) -> None:
        self.seats: dict[tuple[str, int | None], SeatTally] = {}
        self.by_prefix: dict[bytes, SeatTally] = {}

    def find(self, prefix: bytes) -> SeatTally:
        """Return the tally of the card that a line's prefix names."""
        seat = self.by_prefix.get(prefix)
        if seat is not None:
            return seat
        place = parse_nccl_seat(clean_line(decode(prefix[-_PREFIX_BYTES:])))
        key = (place.host, place.device) if place else ("", None)
        seat = self.seats.get(key)
        if seat is None:
            seat = SeatTally(*key)
            if len(self.seats) < _SEATS_CAP:
                self.seats[key] = seat
        if len(self.by_prefix) >= _CACHE_CAP:
            self.by_prefix.clear()
        self.by_prefix[prefix] = seat
        return seat

    def hosts(self, most: int | None = None) -> list[str]:
        """Return hosts in the order in which they were first seen; `most` bounds the search."""
        seats = islice(self.seats.values(), most)
        return list(dict.fromkeys(seat.host for seat in seats if seat.host))

    def transport_counts(self) -> dict[str, int]:
        """Return how many channel lines named each transport."""
        total: dict[str, int] = {}
        for seat in self.seats.values():
            for name, count in seat.transports.items():
                total[name] = total.get(name, 0) + count
        return total
