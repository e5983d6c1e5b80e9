"""Reads the tables of perftest by the names of their columns, never by their place.

Columns and rows are those of perftest_parameters.h (RESULT_FMT*, REPORT_FMT*), 2009 to 2026.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_COLUMN = re.compile(
    r"#bytes|#sl|#iterations|(BW)[ _](peak|average)\[((?:MB|Gb)/sec)\]|MsgRate\[Mpps\]"
    r"|BW Port(\d)\[(?:MB|Gb)/sec\]|MsgRate Port(\d)\[Mpps\]|CPU_Util\[%\]"
    r"|t_(min|max|typical|avg|stdev)\[usec\]|(99(?:\.9{1,2})?)% percentile\[usec\]"
    r"|tps average"
)
_NUMBER = re.compile(r"\d{1,15}(?:\.\d{1,9})?", re.ASCII)
_COUNT = re.compile(r"\d{1,15}", re.ASCII)
# Decimals that a last cell has when it is whole; a cut cell has fewer.
_WHOLE_LAST = {"msg_rate": (6,), "cpu_util": (2,), "bw_avg": (2,), "t_avg_us": (2,)}
MIB = 1024 * 1024


@dataclass(frozen=True)
class Header:
    """The columns of a table in our names, and the unit of its bandwidth as printed."""

    columns: tuple[str, ...]
    unit: str | None
    line: int


@dataclass(frozen=True)
class Row:
    """One row. `bw_peak` and `bw_avg` in `unit`, `msg_rate` in millions a second, times in us."""

    line: int
    block: int
    part: str | None
    unit: str | None
    cells: Mapping[str, float]

    @property
    def size(self) -> int:
        """The message size in bytes."""
        return int(self.cells["size"])

    @property
    def average(self) -> float | None:
        """The average bandwidth in the unit of the table."""
        return self.cells.get("bw_avg")

    @property
    def gbps(self) -> float | None:
        """The average in Gb/s (10^9 bits). The tool's MB is 2^20 bytes, its Gb is 10^9 bits."""
        return to_gbps(self.average, self.unit)


def to_gbps(value: float | None, unit: str | None) -> float | None:
    """Turn a bandwidth of perftest into Gb/s (10^9 bits); None where there is no unit.

    Source: perftest_resources.c, format_factor 0x100000 bytes for MB and 125000000 for Gb.
    """
    if value is None or unit is None:
        return None
    return value * MIB * 8 / 1e9 if unit == "MB/sec" else value


def read_header(number: int, text: str) -> Header | None:
    """Return the columns that a line names; None for any other line."""
    if "#bytes" not in text:
        return None
    names: list[str] = []
    units: set[str] = set()
    for found in _COLUMN.finditer(text):
        names.append(_name(found))
        if found[3]:
            units.add(found[3])
    if names[:1] != ["size"] or "iterations" not in names or len(names) < 3:
        return None
    return Header(tuple(names), units.pop() if len(units) == 1 else None, number)


def _name(found: re.Match[str]) -> str:
    if found[2]:
        return "bw_peak" if found[2] == "peak" else "bw_avg"
    if found[4] or found[5]:
        return f"bw_port{found[4]}" if found[4] else f"msg_rate_port{found[5]}"
    if found[6]:
        return f"t_{found[6]}_us"
    if found[7]:
        return f"p{found[7].replace('.', '_')}_us"
    plain = {
        "#bytes": "size",
        "#sl": "sl",
        "#iterations": "iterations",
        "MsgRate[Mpps]": "msg_rate",
        "CPU_Util[%]": "cpu_util",
    }
    return plain.get(found[0], "tps")


def looks_like_row(text: str) -> bool:
    """Whether a line begins as a row does: with numbers and nothing else."""
    words = text.split(None, 24)
    return bool(words) and bool(_COUNT.fullmatch(words[0])) and not _has_letters(words[1:])


def _has_letters(words: list[str]) -> bool:
    return any(not set(word) <= set("0123456789.-+infa") for word in words)


def read_cells(header: Header, text: str, is_cut: bool) -> dict[str, float] | None:
    """Return the cells of a row; None when it is torn, has a cell too many, or one is no number."""
    words = text.split(None, len(header.columns))
    if len(words) != len(header.columns):
        return None
    if not all(_NUMBER.fullmatch(word.strip()) for word in words):
        return None
    if not _COUNT.fullmatch(words[0]) or (is_cut and _may_be_cut(header.columns[-1], words[-1])):
        return None
    return dict(zip(header.columns, (float(word) for word in words), strict=True))


def _may_be_cut(column: str, word: str) -> bool:
    decimals = len(word.strip().partition(".")[2])
    return decimals not in _WHOLE_LAST.get(column, ())
