"""One row of the table of nccl-tests, in any of its layouts.

    size count type [redop] [root] | time algbw busbw #wrong | the same in place | [#iters] [stamp]

Layouts differ in what they leave out: before 2.11 there is no root unless the collective has one and
the last cell is an error in the values' own unit; redop is empty for copies; 2.17 adds #iters.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

_WORDS_CAP = 48
_TYPE = re.compile(r"(?:u?int|char|half|float|double|bfloat|bf|fp|f8)\w{0,12}")
_COUNT = re.compile(r"\d{1,20}", re.ASCII)
_ROOT = re.compile(r"-?\d{1,6}", re.ASCII)
_NUMBER = re.compile(r"\d{1,24}(?:\.\d{1,12})?(?:e[+-]\d{1,3})?|N/A|-?nan|inf", re.ASCII)
_WRONG = re.compile(r"\d{1,20}|\d(?:\.\d{1,12})?e[+-]\d{1,3}|N/A|-?nan|inf", re.ASCII)
# A launcher's mark may touch a size that fills its column.
_GLUED = re.compile(r"(\[\d{1,6},\d{1,6}\]<\w{1,8}>:|\d{1,6}:)(\d{1,20})", re.ASCII)
_CELLS = 8


class Cells(NamedTuple):
    """One direction of a row: time in microseconds, bandwidths in GB/s (10^9 bytes a second)."""

    time_us: float | None
    algbw: float | None
    busbw: float | None
    wrong: int | float | None


class Row(NamedTuple):
    """One size of the table. `size` in bytes; `redop` and `root` are None where they are empty."""

    line: int
    tag: str
    size: int
    elements: int
    type: str
    redop: str | None
    root: int | None
    oop: Cells
    ip: Cells

    @property
    def group(self) -> tuple[str, str | None, int | None]:
        """What one sweep over the sizes is made of."""
        return self.type, self.redop, self.root

    def as_object(self) -> dict[str, Any]:
        told: dict[str, Any] = {"size": self.size, "count": self.elements, "type": self.type}
        told |= {"redop": self.redop, "root": self.root}
        return told | {"oop": self.oop._asdict(), "ip": self.ip._asdict()}


def find_row(words: list[str]) -> int | None:
    """Return the place of the type in a line that begins like a row, None for other lines."""
    for at in range(2, min(len(words), 10)):
        if _TYPE.fullmatch(words[at]) and _COUNT.fullmatch(words[at - 1]):
            head = words[at - 2]
            return at if _COUNT.fullmatch(head) or _GLUED.fullmatch(head) else None
    return None


def parse_row(words: list[str], at: int, line: int, *, has_root: bool | None) -> Row | None:
    """Read the row whose type stands at a place; None when it is torn. `has_root` is the header's."""
    if len(words) > _WORDS_CAP:
        return None
    head = words[at - 2]
    glued = _GLUED.fullmatch(head)
    size, count = int(glued[2] if glued else head), int(words[at - 1])
    # A size whose first digits were cut is no multiple of its count any more.
    if (size % count if count else size) != 0:
        return None
    rest = words[at + 1 :]
    redop = rest.pop(0) if rest and rest[0][:1].isalpha() and rest[0] != "N/A" else None
    root, cells = _split_root(rest, has_root)
    if cells is None:
        return None
    tag = " ".join([*words[: at - 2], glued[1] if glued else ""])
    oop, ip = _cells(cells[:4]), _cells(cells[4:])
    return Row(line, tag, size, count, words[at], redop, root, oop, ip)


def _split_root(rest: list[str], has_root: bool | None) -> tuple[int | None, list[str] | None]:
    """Tell the root from a time without decimals: by the header, else by what fits."""
    if has_root is not False and rest and _ROOT.fullmatch(rest[0]):
        cells = rest[1 : _CELLS + 1]
        if _are_cells(cells) and len(rest) - 1 - _CELLS <= 3:
            return int(rest[0]), cells
    if has_root is not True and len(rest) == _CELLS and _are_cells(rest):
        return None, rest
    return None, None


def _are_cells(cells: list[str]) -> bool:
    return len(cells) == _CELLS and all(
        (_WRONG if place % 4 == 3 else _NUMBER).fullmatch(cell) for place, cell in enumerate(cells)
    )


def _cells(cells: list[str]) -> Cells:
    time, algbw, busbw, wrong = map(_float, cells)
    whole = wrong is not None and wrong.is_integer()
    return Cells(time, algbw, busbw, int(wrong) if whole and wrong is not None else wrong)


def _float(cell: str) -> float | None:
    return float(cell) if cell[0].isdigit() else None
