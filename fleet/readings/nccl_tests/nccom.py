"""The table of nccom-test (AWS Neuron): it looks like nccl-tests, but has one direction only."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from fleet.readings.text import Line

_HEADER = ("size(B)", "algbw(GB/s)", "busbw(GB/s)")
_AVERAGE = re.compile(r"Avg bus bandwidth: {0,16}(\d{1,12}(?:\.\d{1,12})?) ?GB/s")
_NUMBER = re.compile(r"\d{1,20}(?:\.\d{1,12})?", re.ASCII)
_CELLS = 6


def is_nccom_header(words: Iterable[str]) -> bool:
    """Tell the header of nccom-test by its units without blanks."""
    there = set(words)
    return all(word in there for word in _HEADER)


class NccomTable:
    """Collects rows: size in bytes, bandwidths in GB/s."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, float]] = []
        self.average: float | None = None

    def take(self, line: Line, *, may_be_cut: bool) -> bool:
        """Take a row or the average; return whether it was one. Of a row that may be cut nothing is taken."""
        if found := _AVERAGE.search(line.text):
            self.average = float(found[1])
            return True
        if may_be_cut:
            return False  # a row ends with a number, which may be half of one
        words = line.text.split()
        numbers = [*words[:2], *words[3:]]
        if len(words) != _CELLS or not all(_NUMBER.fullmatch(w) for w in numbers):
            return False
        if not words[0].isdecimal():
            return False
        if len(self.rows) < 4096:
            self.rows.append((int(words[0]), float(words[5])))
        return True

    def values(self) -> dict[str, Any]:
        top = max(self.rows, default=None)
        return {
            "tool": "nccom-test",
            "rows": len(self.rows),
            "max_size": top[0] if top else None,
            "busbw_at_max": top[1] if top else None,
            "avg_busbw": self.average,
        }
