"""Reads a host's memory: `free`, /proc/meminfo, and how much of it a process may lock."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fleet.readings.host.whole import count, only, whole_lines
from fleet.readings.text import number_lines

_ROW = re.compile(r"([A-Z][\w()]{1,40}):\s+(\d{1,16})(?: (kB))?\s*", re.ASCII)
_LOCKED_ROW = re.compile(r"max locked memory\s+\((?:kbytes, )?-l\)\s+(\S{1,24})\s*")
_FREE = re.compile(
    r"Mem:\s+(\d{1,19})\s+(\d{1,19})\s+(\d{1,19})\s+(\d{1,19})\s+(\d{1,19})\s+(\d{1,19})"
)
_LIMITS_ROW = re.compile(r"Max locked memory\s+(\S{1,24})\s+(\S{1,24})\s+bytes\s*")
_KIB = 1024


@dataclass(frozen=True)
class Memory:
    """Main memory in bytes; `available` is what can be taken without swapping."""

    total_bytes: int
    available_bytes: int


@dataclass(frozen=True)
class MemoryUse:
    """Main memory in bytes; what the kernel does not tell is None. Huge pages are counted."""

    total_bytes: int
    available_bytes: int
    free_bytes: int | None
    swap_total_bytes: int | None
    swap_free_bytes: int | None
    shared_bytes: int | None
    huge_pages: int | None
    huge_page_bytes: int | None


@dataclass(frozen=True)
class LockLimit:
    """How much memory a process may lock, as RDMA must: bytes, None only when not limited."""

    limit_bytes: int | None
    is_unlimited: bool


def parse_free(text: str) -> Memory | None:
    """Read `free -b`."""
    for line in number_lines(text):
        if found := _FREE.fullmatch(line.text.strip()):
            return Memory(int(found[1]), int(found[6]))
    return None


def parse_meminfo(text: str) -> MemoryUse | None:
    """Read /proc/meminfo; its kB are 1024 bytes. Source: proc_meminfo(5)."""
    told: dict[str, list[str]] = {}
    for line in whole_lines(text)[0]:
        if found := _ROW.fullmatch(line.text):
            # A row in kB and one without unit of the same name are not the same thing.
            told.setdefault(found[1] + (found[3] or ""), []).append(found[2])

    def sized(name: str) -> int | None:
        value = count(only(told.get(name + "kB", ())))
        return None if value is None else value * _KIB

    total, available = sized("MemTotal"), sized("MemAvailable")
    if not total or available is None or available > total:
        return None
    return MemoryUse(
        total,
        available,
        sized("MemFree"),
        sized("SwapTotal"),
        sized("SwapFree"),
        sized("Shmem"),
        count(only(told.get("HugePages_Total", ()))),
        sized("Hugepagesize"),
    )


def parse_memlock(text: str) -> LockLimit | None:
    """Read `ulimit -l`, or its row of `ulimit -a`; both count units of 1024 bytes."""
    lines, ends = whole_lines(text)
    filled = [line.text.strip() for line in lines if line.text.strip()]
    words = [found[1] for row in filled if (found := _LOCKED_ROW.fullmatch(row))]
    if not words and len(filled) == 1 and ends:
        words = filled
    word = only(words)
    if word == "unlimited":
        return LockLimit(None, True)
    kib = count(word, 2**53)
    return None if kib is None else LockLimit(kib * _KIB, False)


def parse_limits_memlock(text: str) -> LockLimit | None:
    """Read the soft limit in /proc/self/limits, which is in bytes. Source: proc(5)."""
    words = [
        found[1] for line in whole_lines(text)[0] if (found := _LIMITS_ROW.fullmatch(line.text))
    ]
    word = words[0] if len(words) == 1 else None
    if word == "unlimited":
        return LockLimit(None, True)
    size = count(word, 2**63)
    return None if size is None else LockLimit(size, False)
