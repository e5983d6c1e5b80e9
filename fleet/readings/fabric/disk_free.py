"""Reads `df` in its forms: -h, -k, -P, -B1, with a type column, and -i, which counts inodes.

A device name that is too long stands on a line of its own; a file system that does not count prints
a dash, which is not zero.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_NUMBER = r"(-|\d[\d.,]{0,18}[KMGTPE]?i?B?)"
_ROW = re.compile(
    rf"^(\S{{1,200}})(?:\s+([a-z][\w.-]{{0,24}}))?\s+{_NUMBER}\s+{_NUMBER}\s+{_NUMBER}"
    r"\s+(?:(\d{1,3})%|-)\s+(/.{0,255}?)\s*$",
    re.ASCII,
)
_HEAD = re.compile(r"^Filesystem\s.*\sMounted on\s*$")


@dataclass(frozen=True)
class FileSystem:
    """One row, sizes as printed; `used_percent` is None for a file system that does not count."""

    source: str
    fstype: str | None
    size: str | None
    used: str | None
    available: str | None
    used_percent: int | None
    mountpoint: str
    line: int
    counts_inodes: bool = False

    @property
    def can_fill(self) -> bool:
        """Whether being full is a fault: images such as snaps are always full."""
        is_image = self.source.startswith("/dev/loop") or self.fstype in ("squashfs", "iso9660")
        real = self.source.startswith("/") or ":" in self.source or self.mountpoint == "/dev/shm"
        return real and not is_image


def is_df_head(row: str) -> bool:
    """Tell the line of titles."""
    return _HEAD.match(row) is not None


def read_df_row(row: str, line: int, head: str, wrapped: str = "") -> FileSystem | None:
    """Read one row below a head; `wrapped` is the device name of the line before, when it stood alone."""
    if wrapped and row[:1].isspace():
        row = f"{wrapped} {row.strip()}"
    found = _ROW.match(row)
    if found is None:
        return None
    size, used, available = (None if cell == "-" else cell for cell in found.group(3, 4, 5))
    percent = int(found[6]) if found[6] else None
    inodes = "IUse%" in head
    return FileSystem(
        found[1], found[2], size, used, available, percent, found[7], line, counts_inodes=inodes
    )
