"""Reads `df` in its forms: -h, -k, -P, -B1, with a type column, -i, which counts inodes, and --output.

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
_BLOCKS = re.compile(r"\d{1,9}[KMGTPE]?i?B?-blocks", re.ASCII)
# Titles of --output, which prints the columns that were asked for in that order. Source: df(1).
_FIELDS = {
    "Filesystem": "source", "Type": "fstype", "Size": "size", "Used": "used", "Avail": "available",
    "Available": "available", "Use%": "used_percent", "Capacity": "used_percent", "Inodes": "inodes",
    "IUsed": "iused", "IFree": "ifree", "IUse%": "inodes_percent", "File": "file", "Mounted_on": "mountpoint",
}  # fmt: skip
_USUAL = ("source", "size", "used", "available", "used_percent", "mountpoint")
_PERCENT = re.compile(r"(\d{1,3})%", re.ASCII)


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
    inodes_percent: int | None = None

    @property
    def can_fill(self) -> bool:
        """Whether being full is a fault: images such as snaps are always full."""
        is_image = self.source.startswith("/dev/loop") or self.fstype in ("squashfs", "iso9660")
        real = self.source.startswith("/") or ":" in self.source or self.mountpoint == "/dev/shm"
        return real and not is_image


def is_df_head(row: str) -> bool:
    """Tell the line of titles."""
    return _HEAD.match(row) is not None or bool(_fields(row))


def _fields(head: str) -> tuple[str, ...]:
    """Return the fields of a line of titles; nothing for any other line, and for one without a file system."""
    words = head.replace("Mounted on", "Mounted_on").split()
    found = ["size" if _BLOCKS.fullmatch(word) else _FIELDS.get(word, "") for word in words]
    named = "source" in found or "mountpoint" in found
    once = len(set(found)) == len(found) > 1 and "" not in found
    return tuple(found) if named and once else ()


def read_df_row(row: str, line: int, head: str, wrapped: str = "") -> FileSystem | None:
    """Read one row below a head; `wrapped` is the device name of the line before, when it stood alone."""
    fields = _fields(head)
    if fields and not _is_usual(fields):
        return _by_fields(row, line, fields)
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


def _is_usual(fields: tuple[str, ...]) -> bool:
    plain = tuple(f for f in fields if f != "fstype")
    inodes = ("source", "inodes", "iused", "ifree", "inodes_percent", "mountpoint")
    return plain in (_USUAL, inodes)


def _by_fields(row: str, line: int, fields: tuple[str, ...]) -> FileSystem | None:
    """Read a row of --output: one word for each title, blanks only in the last one."""
    words = row.split(None, len(fields) - 1)
    if len(words) != len(fields):
        return None
    told = dict(zip(fields, (word.strip() for word in words), strict=True))
    percents = {
        name: _PERCENT.fullmatch(told.get(name, "-")) for name in ("used_percent", "inodes_percent")
    }
    sizes = {name: _told_size(told.get(name, "-")) for name in ("size", "used", "available")}
    if any(found is None and told.get(name, "-") != "-" for name, found in percents.items()):
        return None
    if any(found is None and told.get(name, "-") != "-" for name, found in sizes.items()):
        return None
    space, inodes = (int(found[1]) if found else None for found in percents.values())
    return FileSystem(
        told.get("source", ""),
        told.get("fstype"),
        sizes["size"],
        sizes["used"],
        sizes["available"],
        space,
        told.get("mountpoint") or told.get("source", ""),
        line,
        inodes_percent=inodes,
    )


def _told_size(cell: str) -> str | None:
    return cell if cell != "-" and re.fullmatch(_NUMBER, cell, re.ASCII) else None
