"""Streams a kernel log: bytes in, text only for lines that could matter."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate

from fleet.readings.kernel_log.host import HostLog
from fleet.readings.kernel_log.stamps import read_stamp
from fleet.readings.kernel_log.trouble import TROUBLE_HINTS, TroubleLog
from fleet.readings.kernel_log.xid import XidLog
from fleet.readings.text import clean_line, decode

_HINTS = (
    b"Xid", b"NVRM", b"oom", b"Out of memory", b"out of memory", b"segfault", b"mlx5_core",
    b"EDAC ", b"file-max", b"PCIe bandwidth", b"BUG:", b"panic", b"protection",
    b"ysrq", b"ysRq",
    b" PID: ", b"nvidia", b"traps:", b"kernel BUG", b"Unable to handle",
)  # fmt: skip
# Known without a stamp: headers of pstore and journalctl, a driver's own prefix, lines that go on.
_AROUND = re.compile(r"^(?:dmesg-\S{1,80}:?$|Panic#\d|Oops#\d|-- |NVRM: |mlx5_core |nvidia|\s)")
_STARTS_CAP = 64
_UNREAD_CAP = 200
_ANSIBLE = re.compile(r"^(\S{1,253}) \| (?:CHANGED|SUCCESS|FAILED)")
_LINE_CHARS = 2048
# The first lines tell the form; later ones matter only with one of the hints.
_FORM_LINES = 64


def _hinted(batch: list[bytes]) -> set[int]:
    """Find the lines that could matter. One search over all of them is far faster than one a line."""
    text = b"\n".join(batch)
    ends = list(accumulate(len(line) + 1 for line in batch))
    found: set[int] = set()
    for hint in (*_HINTS, *TROUBLE_HINTS):
        at = text.find(hint)
        while at >= 0:
            place = bisect_right(ends, at)
            found.add(place)
            at = text.find(hint, ends[place])
    return found


class KernelReader:
    """Reads lines of one host's kernel log in order."""

    def __init__(self) -> None:
        self.xids = XidLog()
        self.host = HostLog()
        self.trouble = TroubleLog()
        self.lines = 0
        self.formed = 0
        self.forms: dict[str, int] = {}
        self.host_name: str | None = None
        self.first_seq: int | None = None
        self.is_pstore = False
        self.unread: list[int] = []
        self.unread_count = 0
        self._starts: set[bytes] = set()
        self._number = 0

    def feed(self, lines: Iterable[bytes], numbers: Sequence[int] | None = None) -> None:
        """Read the next lines, without their line ends; they are held until all are read.

        `numbers`: those of the lines in the whole text, where lines of other hosts stand between them.
        """
        batch = lines if isinstance(lines, list) else list(lines)
        begun = self.lines
        told = range(begun + 1, begun + len(batch) + 1) if numbers is None else numbers
        first = min(max(0, _FORM_LINES - begun), len(batch))
        for place in range(first):
            self._read_at(batch[place], begun + place + 1, told[place])
        # Only now is it known with what stamped lines begin.
        for place, is_hinted in self._telling(batch[first:]):
            at = first + place
            self._read_at(batch[at], begun + at + 1, told[at], is_hinted=is_hinted)
        self.lines = begun + len(batch)

    def _read_at(self, line: bytes, place: int, number: int, *, is_hinted: bool = True) -> None:
        self.lines, self._number = place, number
        self._read(clean_line(decode(line[:_LINE_CHARS])), is_hinted=is_hinted)

    def _telling(self, batch: list[bytes]) -> list[tuple[int, bool]]:
        """Return the places of lines that do not begin as stamped lines do, or hold a hint, and whether they do."""
        starts = self._starts
        odd = {n for n, line in enumerate(batch) if line[:1] not in starts and line.strip()}
        hinted = _hinted(batch)
        return [(place, place in hinted) for place in sorted(odd | hinted)]

    def _read(self, text: str, *, is_hinted: bool) -> None:
        stamped = read_stamp(text)
        if stamped.form:
            self.formed += 1
            if len(self._starts) < _STARTS_CAP:
                self._starts.add(text[:1].encode())
            self.forms[stamped.form] = self.forms.get(stamped.form, 0) + 1
        if stamped.seq is not None and self.first_seq is None:
            self.first_seq = stamped.seq
        if stamped.host and self.host_name is None:
            self.host_name = stamped.host
        head = _ANSIBLE.match(text)
        if head and self.host_name is None:
            self.host_name = head[1]
        if text.startswith(("<", "Panic#")) or "dmesg-erst" in text:
            self.is_pstore = True
        # Without a hint a line tells nothing; that it is no kernel's must still be known.
        told = is_hinted and (
            self.xids.take(stamped.text, self._number)
            or self.host.take(stamped.text, self._number, self.lines)
            or self.trouble.take(stamped.text, self._number)
        )
        if not (told or stamped.form or head or not text.strip() or _AROUND.match(text)):
            self._note_unread()

    def _note_unread(self) -> None:
        self.unread_count += 1
        if len(self.unread) < _UNREAD_CAP:
            self.unread.append(self._number)

    @property
    def form(self) -> str:
        """The stamps most lines carry."""
        if self.is_pstore:
            return "pstore"
        if not self.forms:
            return "bare" if self.xids.groups or self.xids.switches else "none"
        return max(self.forms, key=lambda form: self.forms[form])
