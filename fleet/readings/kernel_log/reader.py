"""Streams a kernel log: bytes in, text only for lines that could matter."""

from __future__ import annotations

import re
from collections.abc import Iterable

from fleet.readings.kernel_log.host import HostLog
from fleet.readings.kernel_log.stamps import read_stamp
from fleet.readings.kernel_log.xid import XidLog
from fleet.readings.text import clean_line, decode

_HINTS = (
    b"Xid", b"NVRM", b"oom", b"Out of memory", b"out of memory", b"segfault", b"mlx5_core",
    b"EDAC MC", b"file-max", b"PCIe bandwidth", b"BUG:", b"panic", b"protection", b"ys",
    b" PID: ", b"nvidia",
)  # fmt: skip
_ANSIBLE = re.compile(r"^(\S{1,253}) \| (?:CHANGED|SUCCESS|FAILED)")
_LINE_CHARS = 2048


class KernelReader:
    """Reads lines of one host's kernel log in order."""

    def __init__(self) -> None:
        self.xids = XidLog()
        self.host = HostLog()
        self.lines = 0
        self.formed = 0
        self.forms: dict[str, int] = {}
        self.host_name: str | None = None
        self.first_seq: int | None = None
        self.is_pstore = False

    def feed(self, lines: Iterable[bytes]) -> None:
        """Read the next lines, without their line ends."""
        for line in lines:
            self.lines += 1
            # The first lines tell the form; later ones matter only with one of the hints.
            if self.lines > 64 and not any(hint in line for hint in _HINTS):
                continue
            self._read(clean_line(decode(line[:_LINE_CHARS])))

    def _read(self, text: str) -> None:
        stamped = read_stamp(text)
        if stamped.form:
            self.formed += 1
            self.forms[stamped.form] = self.forms.get(stamped.form, 0) + 1
        if stamped.seq is not None and self.first_seq is None:
            self.first_seq = stamped.seq
        if stamped.host and self.host_name is None:
            self.host_name = stamped.host
        if (head := _ANSIBLE.match(text)) and self.host_name is None:
            self.host_name = head[1]
        if text.startswith(("<", "Panic#")) or "dmesg-erst" in text:
            self.is_pstore = True
        if self.xids.take(stamped.text, self.lines):
            return
        self.host.take(stamped.text, self.lines)

    @property
    def form(self) -> str:
        """The stamps most lines carry."""
        if self.is_pstore:
            return "pstore"
        if not self.forms:
            return "bare" if self.xids.groups or self.xids.switches else "none"
        return max(self.forms, key=lambda form: self.forms[form])
