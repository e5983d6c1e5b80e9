"""Reads `lsblk` as tree, pairs or JSON, and the file systems of `df`.

Snap loops come first and are no disks; an empty MOUNTPOINT leaves a hole in the middle of a row.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fleet.readings.text import Line, number_lines

_TYPES = ("disk", "part", "loop", "lvm", "crypt", "rom", "raid0", "raid1", "raid10", "md", "mpath")
_TREE = re.compile(rf"^[\s│├└─|`-]*(\S{{1,64}}?)\s+(.{{0,120}}?)\b({'|'.join(_TYPES)})\b(.*)$")
_SIZE = re.compile(r"(\d{1,6}(?:[.,]\d{1,3})?[KMGTPE]?|\d{1,19})\s*$")
_PAIRS = re.compile(r'([A-Z:%-]{2,24})="([^"]{0,256})"')
_DF = re.compile(
    r"^(\S{1,200})\s+(\d[\d.,]{0,18}[KMGTPE]?i?)\s+(\d[\d.,]{0,18}[KMGTPE]?i?)"
    r"\s+(\d[\d.,]{0,18}[KMGTPE]?i?)\s+(\d{1,3})%\s+(/\S{0,255})\s*$"
)
_DEPTH_CAP = 16
_ROWS_CAP = 4096


@dataclass(frozen=True)
class BlockDevice:
    """One device; `size` is as printed, in bytes with -b and with a unit without."""

    name: str
    kind: str
    size: str | None
    mountpoint: str | None
    fstype: str | None
    line: int

    @property
    def is_nvme(self) -> bool:
        return self.kind == "disk" and self.name.startswith("nvme")


@dataclass(frozen=True)
class FileSystem:
    """One row of `df`, sizes as printed."""

    source: str
    size: str
    used_percent: int
    mountpoint: str
    line: int


@dataclass(frozen=True)
class Storage:
    """What a capture tells of disks and file systems."""

    devices: tuple[BlockDevice, ...]
    file_systems: tuple[FileSystem, ...]
    is_broken: bool
    unread: tuple[int, ...]

    @property
    def disks(self) -> tuple[BlockDevice, ...]:
        """Real disks, without parts and loops; a stick without a medium has size 0."""
        return tuple(d for d in self.devices if d.kind == "disk")


def parse_storage(text: str) -> Storage:
    """Read any of the forms; several may stand in one capture."""
    if '"blockdevices"' in text:
        return _parse_json(text)
    devices: list[BlockDevice] = []
    systems: list[FileSystem] = []
    unread: list[int] = []
    for line in number_lines(text)[:_ROWS_CAP]:
        row = line.text[:1024]
        if system := _DF.match(row):
            systems.append(FileSystem(system[1], system[2], int(system[5]), system[6], line.number))
        elif device := _pairs(line) or _tree(line):
            devices.append(device)
        elif not _is_heading(row):
            unread.append(line.number)
    return Storage(tuple(devices), tuple(systems), False, tuple(unread))


def _is_heading(row: str) -> bool:
    words = row.split()
    return not words or words[0] in ("NAME", "Filesystem") or row.rstrip().endswith(":")


def _tree(line: Line) -> BlockDevice | None:
    found = _TREE.match(line.text[:1024])
    if found is None:
        return None
    size = _SIZE.search(found[2].rstrip())
    words = found[4].split()
    mounts = [w for w in words if w.startswith(("/", "["))]
    types = [w for w in words if w not in mounts]
    return BlockDevice(
        found[1],
        found[3],
        size[1] if size else None,
        mounts[0] if mounts else None,
        types[0] if types else None,
        line.number,
    )


def _pairs(line: Line) -> BlockDevice | None:
    told = {name: value.strip() for name, value in _PAIRS.findall(line.text[:2048])}
    if "NAME" not in told or "TYPE" not in told:
        return None
    name = told["NAME"].rsplit("/", 1)[-1]
    return BlockDevice(
        name,
        told["TYPE"],
        told.get("SIZE") or None,
        told.get("MOUNTPOINT") or None,
        told.get("FSTYPE") or None,
        line.number,
    )


def _parse_json(text: str) -> Storage:
    try:
        rows = json.loads(text[text.index("{") :])["blockdevices"]
        devices = tuple(_json_devices(rows, 0))[:_ROWS_CAP]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return Storage((), (), True, (1,))
    return Storage(devices, (), False, ())


def _json_devices(rows: list[dict[str, Any]], depth: int) -> Iterator[BlockDevice]:
    for row in rows if depth < _DEPTH_CAP else ():
        size, mount, kind = row.get("size"), row.get("mountpoint"), row.get("fstype")
        yield BlockDevice(
            str(row["name"]).rsplit("/", 1)[-1][:64],
            str(row["type"])[:16],
            None if size is None else str(size)[:24],
            None if mount is None else str(mount)[:255],
            None if kind is None else str(kind)[:32],
            1,
        )
        yield from _json_devices(row.get("children") or [], depth + 1)
