"""Reads a sequential read test of a disk: fio as JSON or as text, or the last lines of dd.

Which tool it was is part of the answer: dd has one request in flight, fio many, so their rates are not alike.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Any

_DD = re.compile(
    r"^(\d{1,19}) bytes(?: \([^)\n]{1,40}\))? copied, (\d{1,9}(?:\.\d{1,12})?(?:e-?\d{1,3})?) s, ",
    re.M,
)
# The line of all jobs together, and each job's own with the errno it ended with. Source: fio(1), as of 3.35.
_FIO_READ = re.compile(
    r"^ {0,8}READ: bw=\d{1,9}(?:\.\d{1,6})?[KMGT]?iB/s \((\d{1,9}(?:\.\d{1,6})?)([kMGT]?)B/s\), .{0,200}"
    r"run=(\d{1,12})(?:-(\d{1,12}))?msec\s*$",
    re.M,
)
_FIO_JOB = re.compile(r"^[^\s:]{1,80}: \(groupid=\d{1,6}, jobs=\d{1,6}\): err= *(\d{1,5})\b", re.M)
_BYTES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_FIO_CAP = 4 * 1024 * 1024


@dataclass(frozen=True)
class DiskRead:
    """Bytes read, the seconds it took, and the rate in GB/s (10^9 bytes)."""

    tool: str
    size_bytes: int
    seconds: float
    gbs: float


@dataclass(frozen=True)
class FioText:
    """What fio printed for people: the rate in GB/s (10^9 bytes, rounded by the tool), its time, its errno."""

    gbs: float | None
    seconds: float | None
    error: int
    line: int


def parse_fio_text(text: str) -> FioText | None:
    """Read the text form; a text with two sums of reading has no one rate. None for any other text."""
    jobs, sums = list(_FIO_JOB.finditer(text)), list(_FIO_READ.finditer(text))
    if not jobs and not sums:
        return None
    bad = next((job for job in jobs if int(job[1])), None)
    line = text.count("\n", 0, bad.start()) + 1 if bad else 0
    error = int(bad[1]) if bad else 0
    if len(sums) != 1 or not jobs:
        return FioText(None, None, error, line)
    found = sums[0]
    longest = int(found[4] or found[3])
    return FioText(float(found[1]) * _BYTES[found[2]] / 1e9, longest / 1000, error, line)


def parse_disk_read(text: str) -> DiskRead | None:
    """Return what either tool measured; None for any other text, a failed or a torn one."""
    return _fio(text) or _dd(text)


def _fio(text: str) -> DiskRead | None:
    # notes of the tool may stand around its object
    start, end = text.find("{"), text.rfind("}")
    if start < 0 or end < start or end - start > _FIO_CAP:
        return None
    try:
        told = json.loads(text[start : end + 1])
        job = told["jobs"][0]
        read = job["read"]
        error, size, ms, rate = job["error"], read["io_bytes"], read["runtime"], read["bw_bytes"]
    except (ValueError, KeyError, IndexError, TypeError, RecursionError):
        return None
    if error != 0 or not all(map(_is_positive, (size, ms, rate))):
        return None
    return DiskRead("fio", int(size), ms / 1000, rate / 1e9)


def _dd(text: str) -> DiskRead | None:
    found = list(_DD.finditer(text))
    if len(found) != 1:  # two ends in one text are of two runs
        return None
    size, seconds = int(found[0][1]), float(found[0][2])
    if not size or not _is_positive(seconds):
        return None
    return DiskRead("dd", size, seconds, size / seconds / 1e9)


def _is_positive(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and math.isfinite(value) and value > 0
