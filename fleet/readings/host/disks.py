"""Reads what a file system of a host holds: `df`. One row for one path; lists of disks are the fabric's."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fleet.readings.text import number_lines

_DF = re.compile(r"(\S{1,200})\s+(\d{1,19})\s+(\d{1,19})\s+(\d{1,19})\s+\d{1,3}%\s+(\S.{0,199})")
_KIB = 1024


@dataclass(frozen=True)
class Disk:
    """A file system: sizes in bytes."""

    device: str
    mount: str
    total_bytes: int
    used_bytes: int
    free_bytes: int


def parse_df(text: str) -> Disk | None:
    """Read `df -kP PATH`: one header, one row."""
    lines = [line.text for line in number_lines(text) if line.text.strip()]
    found = _DF.fullmatch(lines[1].strip()) if len(lines) == 2 else None
    if found is None:
        return None
    total, used, free = (int(found[n]) * _KIB for n in (2, 3, 4))
    return Disk(found[1], found[5], total, used, free)
