"""Reads what perftest prints on one side or on both: settings, addresses, tables, failures.

A capture may hold the client's and the server's output, one behind the other or mixed; both
print the same test. Not in charge of what a figure is worth: that is a matter of comparing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from fleet.readings.ib_write_bw.rows import Header, Row, looks_like_row, read_cells, read_header
from fleet.readings.ib_write_bw.sentences import (
    Failure,
    NoteKind,
    read_failure,
    read_note,
)
from fleet.readings.open_end import has_open_end
from fleet.readings.text import Line, number_lines

_TITLE = re.compile(
    r"^\s*(RDMA_\w{2,20}|Send|Atomic [A-Z_]{3,20}|Raw Ethernet)\s((?:[A-Za-z][\w-]{1,20} ){0,4})"
    r"(BW|Latency|Rate)(?: Limit)? Test\s*$"
)
_RULER = re.compile(r"^\s*-{20,}\s*$")
_ADDRESS = re.compile(r"\b(local|remote) address:\s+LID (\S{1,12})\s+QPN (\S{1,12})\s+PSN (\S+)")
_PROMPT = re.compile(r"^\s*$|[#$>%]\s?$")
_PART = re.compile(r"^\s*(Local|Remote) results:\s*$")
# The tool's name of a setting, ours, and how its value is read.
_SETTINGS = {
    "Device": "device",
    "Number of qps": "qps",
    "Transport type": "transport",
    "Connection type": "connection",
    "Using SRQ": "srq",
    "TX depth": "tx_depth",
    "RX depth": "rx_depth",
    "CQ Moderation": "cq_moderation",
    "Mtu": "mtu",
    "Link type": "link",
    "GID index": "gid_index",
    "Max inline data": "max_inline",
    "rdma_cm QPs": "rdma_cm",
    "Data ex. method": "exchange",
    "PCIe relax order": "relaxed_order",
    "Dual-port": "dual_port",
}
_NUMBERS = {"qps", "tx_depth", "rx_depth", "cq_moderation", "mtu", "gid_index", "max_inline"}
_SETTING = re.compile(rf"(?:^|\s)({'|'.join(map(re.escape, _SETTINGS))})\s{{0,20}}:\s{{0,20}}(\S+)")
_LEADING_NUMBER = re.compile(r"(\d{1,9})(?:\[[A-Za-z]{1,4}\])?", re.ASCII)
# Lines that say nothing to us, without the blanks around them.
_KNOWN = re.compile(
    r"\*+$|\* Waiting |GID: |ibv_wr\*|CPU freq|CQE Poll|Outstand reads|Connected: "
    r"|Using sampled CPU|s?cnt=|rcnt=|Post List|Mcast "
)


@dataclass
class Block:
    """What stands under one title: one side of one test."""

    line: int
    verb: str
    measure: str
    is_bidirectional: bool
    settings: dict[str, Any] = field(default_factory=dict)
    ends: set[tuple[str, ...]] = field(default_factory=set)


@dataclass
class Perftest:
    """All of one capture. `open_tables`: tables whose closing ruler was not seen."""

    blocks: list[Block] = field(default_factory=list)
    headers: list[Header] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    torn_rows: list[int] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    notes: dict[NoteKind, list[int]] = field(default_factory=dict)
    unread: list[int] = field(default_factory=list)
    open_tables: int = 0
    has_torn_end: bool = False

    @cached_property
    def tests(self) -> list[list[int]]:
        """The blocks that share an address, grouped: the two sides of each test."""
        groups: list[list[int]] = []
        group_of: dict[tuple[str, ...], list[int]] = {}
        for number, block in enumerate(self.blocks):
            if not block.ends:
                continue
            group = next((group_of[end] for end in block.ends if end in group_of), None)
            if group is None:
                group = []
                groups.append(group)
            group.append(number)
            for end in block.ends:
                group_of.setdefault(end, group)
        return groups


def parse_perftest(text: str) -> Perftest:
    """Read one capture of any tool of perftest.

    Units: bandwidths as printed (MB/sec are 2^20 bytes), times in microseconds. What a torn last
    line may have lost is not read.
    """
    return _Reader(number_lines(text), text).read()


class _Reader:
    """The state between two lines of one capture."""

    def __init__(self, lines: list[Line], text: str) -> None:
        self._lines = lines
        self._is_cut = has_open_end(text)
        self._found = Perftest()
        self._header: Header | None = None
        self._part: str | None = None
        self._has_rows = False
        # A table is closed by the ruler directly behind its rows. Where two sides are mixed, their
        # rulers stand together at the end: those are spare, and close the tables that are open.
        self._is_closed = False
        self._closed_by_last = False
        self._spare = 0

    def read(self) -> Perftest:
        for at, line in enumerate(self._lines):
            self._line(line, self._is_cut and at == len(self._lines) - 1)
        found = self._found
        found.open_tables = max(0, found.open_tables - self._spare)
        if self._is_cut and self._lines:
            last = self._lines[-1].text
            found.has_torn_end = not (_RULER.match(last) or _PROMPT.search(last))
        return found

    def _line(self, line: Line, is_cut: bool) -> None:
        if _RULER.match(line.text):
            self._ruler()
            return
        if not line.text.strip():
            return
        was_closed, self._closed_by_last = self._closed_by_last, False
        self._has_rows = False
        whole = Line(line.number, _without_last_word(line.text)) if is_cut else line
        if title := _TITLE.match(line.text):
            self._title(line, title, was_closed)
        elif header := read_header(line.number, line.text):
            self._open(header)
        elif self._header is not None and looks_like_row(line.text):
            self._row(line, is_cut)
        elif (part := _PART.match(line.text)) is not None:
            self._part = part[1].lower()
        elif self._settings(whole) or self._address(whole):
            return
        else:
            self._sentence(line, whole)

    def _ruler(self) -> None:
        self._closed_by_last = self._has_rows
        if self._has_rows:
            self._found.open_tables -= 1
            self._has_rows, self._is_closed = False, True
        elif self._is_closed:
            self._spare += 1

    def _title(self, line: Line, title: re.Match[str], was_closed: bool) -> None:
        # One ruler between a row and a title belongs to the title: the table before was torn.
        if was_closed:
            self._found.open_tables += 1
        self._found.blocks.append(Block(line.number, title[1], title[3], "Bidir" in title[2]))
        self._part = None

    def _open(self, header: Header) -> None:
        self._found.headers.append(header)
        self._found.open_tables += 1
        self._header, self._is_closed, self._spare = header, False, 0

    def _row(self, line: Line, is_cut: bool) -> None:
        assert self._header is not None
        cells = read_cells(self._header, line.text, is_cut)
        if cells is None:
            self._found.torn_rows.append(line.number)
            return
        block = len(self._found.blocks) - 1
        row = Row(line.number, block, self._part, self._header.unit, cells)
        self._found.rows.append(row)
        self._has_rows, self._is_closed, self._spare = True, False, 0

    def _settings(self, line: Line) -> bool:
        told = list(_SETTING.finditer(line.text))
        if not told or not self._found.blocks:
            return bool(told)
        settings = self._found.blocks[-1].settings
        for found in told:
            name = _SETTINGS[found[1]]
            value = _setting(name, found[2])
            if value is not None:
                settings.setdefault(name, value)
        return True

    def _address(self, line: Line) -> bool:
        found = _ADDRESS.search(line.text)
        if found is not None and self._found.blocks:
            self._found.blocks[-1].ends.add((found[2], found[3], found[4]))
        return found is not None

    def _sentence(self, line: Line, whole: Line) -> None:
        # A cut line still tells that something failed, but not with which number.
        failure = read_failure(whole)
        if failure is None and whole is not line and (failure := read_failure(line)) is not None:
            failure = Failure(failure.kind, failure.text, failure.line)
        if failure is not None:
            self._found.failures.append(failure)
        elif (note := read_note(line)) is not None:
            self._found.notes.setdefault(note, []).append(line.number)
        elif not _KNOWN.match(line.text.strip()):
            self._found.unread.append(line.number)


def _without_last_word(text: str) -> str:
    if text != text.rstrip():
        return text
    words = text.rstrip().rsplit(None, 1)
    return words[0] + " " if len(words) == 2 else ""


def _setting(name: str, word: str) -> int | str | None:
    if name not in _NUMBERS:
        return word[:80]
    found = _LEADING_NUMBER.fullmatch(word)
    return int(found[1]) if found else None


def completion(failures: Iterable[Failure]) -> Failure | None:
    """Return the failed completion that says most: one with its status."""
    told = [f for f in failures if f.kind == "completion_error"]
    return next((f for f in told if f.status is not None), told[0] if told else None)
