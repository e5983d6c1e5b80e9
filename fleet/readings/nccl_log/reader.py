"""Streams logs of many ranks: counts transports by host and card, collects set-up and errors.

It is made for gigabytes: bytes in, substrings first, text only for lines that matter. Memory is
bounded whatever comes; a line that is wrapped inside a message is put together again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from fleet.readings.log_prefix import parse_nccl_seat
from fleet.readings.nccl_log.channels import ChannelUse, parse_channel
from fleet.readings.nccl_log.events import NcclEvent, name_event, read_event
from fleet.readings.nccl_log.glued import split_glued
from fleet.readings.nccl_log.ras import RasLog
from fleet.readings.nccl_log.seats import SeatTable, SeatTally
from fleet.readings.nccl_log.setup import SetupLog
from fleet.readings.nccl_log.watchdog import WatchdogLog, is_open_message
from fleet.readings.text import LINE_CAP_BYTES, clean_line, decode

_CACHE_CAP = 16_384
_EVENTS_OF_A_KIND = 64
_EDGES_CAP = 16_384
_UNREAD_CAP = 200
_JOIN_LINES = 4
_HOSTS_TRIED = 256
_MARK_BYTES = 64
_TIMEOUTS_OF_A_RANK = 64
# Without the blank behind it: a needle that ends in a blank is searched much more slowly.
_TAG = b" NCCL"
_COLLECTIVES = frozenset(
    (b"AllReduce:", b"AllGather:", b"ReduceScatter:", b"Broadcast:", b"Reduce:", b"Send:", b"Recv:",
     b"AlltoAll:", b"AllToAll:", b"Gather:", b"Scatter:")
)  # fmt: skip
_ENGINE_STARTS = frozenset((b"INFO ", b"(APIS", b"(ApiS", b"(Engi", b"(Work"))
_COUNTED = (b"retrying", b"No device found.", b"retrying\r", b"No device found.\r")
# A line without NCCL's tag matters only with one of these.
_HINTS = (
    b"NCCL", b"NET/", b"P2P/", b"Watchdog", b"last ", b"nccl", b"PEER_DEAD", b"missing rank",
    b"Encountered", b"managing GPU", b"PGID", b"RUNNING", b"Got completion",
    b"No space left on device",
)  # fmt: skip
_TORN = re.compile(r"(?:^|\s)(?:P2P|SHM|NET)/[A-Z][\w/]{1,40}$")
_SOCKET_LINES_CAP = 8
_TAG_ONLY = re.compile(r"^\[(\d{1,4})\] (?:\S{1,80}:\d{1,6} )?$")


class NcclReader:
    """Reads lines of one or many ranks in any order."""

    def __init__(self) -> None:
        self.setup = SetupLog()
        self.watchdog = WatchdogLog()
        self.ras = RasLog()
        self.events: list[NcclEvent] = []
        self.event_counts: dict[str, int] = {}
        self.edges: dict[tuple[int, int, str], None] = {}
        self.rings = 0
        self.lines = 0
        self.nccl_lines = 0
        self.socket_lines: list[int] = []  # the first that show sockets as the network
        self.torn_lines: list[int] = []
        self.torn_count = 0
        self.unread: list[int] = []
        self.unread_count = 0
        self.table = SeatTable()
        self._by_channel: dict[bytes, str] = {}
        self._known: set[bytes] = set()
        self._timeouts_by_mark: dict[bytes, int] = {}
        self._trees: set[bytes] = set()
        self._held: tuple[str, int] | None = None
        self._held_left = 0

    def feed(self, lines: Iterable[bytes]) -> None:
        """Read the next lines, without their line ends."""
        by_prefix, by_channel, known = self.table.by_prefix, self._by_channel, self._known
        trees = self._trees
        number = self.lines
        tagged = rings = 0
        for number, line in enumerate(lines, number + 1):  # noqa: B020 - continues the count
            prefix, tag, rest = line.partition(_TAG)
            if not tag:
                # Requests and throughput are the mass of an engine's log; they are not ours.
                head = line[:5]
                if head == b"INFO:" and b" HTTP/1" in line:
                    continue
                if head in _ENGINE_STARTS and (b"throughput" in line or b" HTTP/1" in line):
                    continue
                self._read_untagged(line, number)
                continue
            tagged += 1
            if rest[:13] == b" INFO Channel":
                transport = by_channel.get(rest)
                if transport:
                    if (seat := by_prefix.get(prefix)) is not None:
                        counts = seat.transports
                        counts[transport] = counts.get(transport, 0) + 1
                        continue
                elif transport is not None or (b"via" not in rest and b" : " in rest):
                    # A ring has no transport; the same one is told by every rank.
                    rings += 1
                    if transport is None and len(by_channel) < _CACHE_CAP:
                        by_channel[rest] = ""
                    continue
            elif (
                rest in known
                or (rest[:12] == b" INFO Trees " and prefix in trees)
                or (rest[:11] == b" INFO comm " and rest[rest.find(b" nRanks ") :] in known)
            ):
                if prefix not in by_prefix:
                    self.table.find(prefix)
                continue
            elif rest[6 : rest.find(b" ", 6)] in _COLLECTIVES:
                seat = by_prefix.get(prefix) or self.table.find(prefix)
                seat.collectives += 1
                continue
            self._read_tagged(line, prefix, rest, number)
        self.lines = number
        self.nccl_lines += tagged
        self.rings += rings

    def finish(self) -> None:
        """Read what was held back because its message seemed to go on."""
        self._release()

    def _read_tagged(self, line: bytes, prefix: bytes, rest: bytes, number: int) -> None:
        if self._held is not None:
            self._release()
        if b" nNodes " in rest and len(self._known) < _CACHE_CAP:
            self._known.add(rest[rest.find(b" nRanks ") :])
        if b" NCCL " in rest:
            self._read_glued(line, number)
            return
        seat = self.table.find(prefix)
        if rest.startswith(b" INFO Channel"):
            self._read_channel(seat, rest, number)
            return
        if rest.startswith((b" INFO comm ", b" INFO ncclComm")):
            message = rest[6:257].decode("utf-8", "replace").rstrip("\r")
            self.setup.take_comm(message)
            seat.note_init(message)
            return
        text = clean_line(decode(line[:LINE_CAP_BYTES]))
        level, _, message = text.partition(" NCCL ")[2].partition(" ")
        self._take_message(text, level, message, seat, number)
        self._note_known(prefix, rest)

    def _note_known(self, prefix: bytes, rest: bytes) -> None:
        """Remember what the next rank will repeat, unless each telling counts for itself."""
        if rest.startswith(b" INFO Trees "):
            if len(self._trees) < _CACHE_CAP:
                self._trees.add(prefix)
        elif rest.startswith(b" INFO ") and len(rest) < 2048 and not rest.endswith(_COUNTED):
            if len(self._known) >= _CACHE_CAP:
                self._known.clear()
            self._known.add(rest)

    def _take_message(
        self, text: str, level: str, message: str, seat: SeatTally, number: int
    ) -> None:
        if level == "INFO" or level == "TRACE":
            seat.note_init(message)
            if "Socket" in message:
                self._note_socket(number)
            if not self.setup.take(message, seat.host) and "version" in message:
                self.setup.take_version(message)
            return
        if level in ("WARN", "ERROR"):
            seat.warnings += 1
            if _is_wrapped(text):
                self._hold(text, number)
                return
            self._add_event(text, number, is_warning=True)
        elif not self.setup.take_version(text) and not self._take_untagged(text, number):
            self._note_unread(number)

    def _read_channel(self, seat: SeatTally, rest: bytes, number: int) -> None:
        message = clean_line(decode(rest[:LINE_CAP_BYTES]))
        use = parse_channel(message)
        if use is None:
            self._note_torn(number)
            return
        seat.count(use.transport)
        self._note_edge(use)
        if use.transport.startswith("NET/Socket"):
            self._note_socket(number)
        if len(self._by_channel) >= _CACHE_CAP:
            self._by_channel.clear()
        self._by_channel[rest] = use.transport

    def _note_edge(self, use: ChannelUse) -> None:
        if len(self.edges) < _EDGES_CAP:
            self.edges[use.source, use.target, use.transport] = None

    def _read_glued(self, line: bytes, number: int) -> None:
        """Read a line into which several processes wrote without a line end between."""
        text = clean_line(decode(line[:LINE_CAP_BYTES]))
        for part in split_glued(text, self.table.hosts(_HOSTS_TRIED)):
            prefix, tag, rest = part.partition(" NCCL ")
            if not tag:
                continue
            seat = self.table.find(prefix.encode())
            level, _, message = rest.partition(" ")
            use = parse_channel(message) if message.startswith("Channel") else None
            if use is not None:
                seat.count(use.transport)
                self._note_edge(use)
            else:
                self._take_message(part, level, message, seat, number)

    def _read_untagged(self, line: bytes, number: int) -> None:
        if self._held is not None and self._join(line, number):
            return
        for hint in _HINTS:
            if hint in line:
                break
        else:
            if line and not line.isspace():
                self._note_unread(number)
            return
        if hint == b"NCCL" and self._is_repeated_timeout(line):
            return
        text = clean_line(decode(line[:LINE_CAP_BYTES]))
        if self.watchdog.take(text, number):
            return
        if _is_wrapped(text):
            self._hold(text, number)
        elif not self._take_untagged(text, number):
            self._note_unread(number)

    def _is_repeated_timeout(self, line: bytes) -> bool:
        """Tell a rank that has timed out many times: only its first lines matter."""
        mark, found, _ = line.partition(b"]:[E")
        if not found or len(mark) > _MARK_BYTES or b"Watchdog caught" not in line:
            return False
        count = self._timeouts_by_mark.get(mark, 0)
        if count < _TIMEOUTS_OF_A_RANK and len(self._timeouts_by_mark) < _CACHE_CAP:
            self._timeouts_by_mark[mark] = count + 1
        return count >= _TIMEOUTS_OF_A_RANK

    def _take_untagged(self, text: str, number: int) -> bool:
        if self.watchdog.take(text, number):
            return True
        has_version = self.setup.take_version(text)
        if self.ras.take(text, number):
            return True
        if self._add_event(text, number, is_warning=False):
            return True
        if _TORN.search(text):
            self._note_torn(number)
            return True
        return has_version

    def _add_event(self, text: str, number: int, *, is_warning: bool) -> bool:
        name = name_event(text, is_warning=is_warning)
        if name is None:
            return False
        self.event_counts[name] = self.event_counts.get(name, 0) + 1
        if self.event_counts[name] > _EVENTS_OF_A_KIND:
            return True
        place = parse_nccl_seat(text.partition(" NCCL ")[0][-512:])
        bare = _TAG_ONLY.match(text.partition("NCCL ")[0]) if place is None else None
        self.events.append(
            read_event(
                name,
                text,
                number,
                host=place.host if place else None,
                gpu=place.device if place else int(bare[1]) if bare else None,
                at=place.said_at if place else None,
            )
        )
        return True

    def _hold(self, text: str, number: int) -> None:
        self._release()
        self._held, self._held_left = (text, number), _JOIN_LINES

    def _join(self, line: bytes, number: int) -> bool:
        """Add a line to the message held; return False when the line begins something else."""
        assert self._held is not None
        text, first = self._held
        more = clean_line(decode(line[:2048])).strip()
        if not more or more.startswith("["):
            self._release()
            return False
        joined = f"{text} {more}"
        self._held = (joined, first)
        self._held_left -= 1
        if self._held_left <= 0 or not _is_wrapped(joined):
            self._release()
        return True

    def _release(self) -> None:
        if self._held is None:
            return
        (text, number), self._held = self._held, None
        is_warning = " NCCL WARN " in text
        if is_warning:
            self._add_event(text, number, is_warning=True)
        elif not self._take_untagged(text, number) and not self.watchdog.take_cut(text, number):
            self._note_unread(number)

    def _note_socket(self, number: int) -> None:
        if len(self.socket_lines) < _SOCKET_LINES_CAP:
            self.socket_lines.append(number)

    def _note_torn(self, number: int) -> None:
        self.torn_count += 1
        if len(self.torn_lines) < _UNREAD_CAP:
            self.torn_lines.append(number)

    def _note_unread(self, number: int) -> None:
        self.unread_count += 1
        if len(self.unread) < _UNREAD_CAP:
            self.unread.append(number)


def _is_wrapped(text: str) -> bool:
    """Tell a message whose second half must stand on the next line."""
    if "Got completion from peer" in text:
        return "status=" not in text or "vendor err" not in text
    return is_open_message(text)
