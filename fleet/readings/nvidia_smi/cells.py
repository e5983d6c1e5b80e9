"""One cell of nvidia-smi: a number with its unit, a word, or a sentence in square brackets.

A cell that could not be read is never zero: `number` is None and `state` says why.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

CellState = Literal[
    "ok",
    "not_available",
    "not_supported",
    "deprecated",
    "no_permission",
    "unknown_error",
    "reset_required",
    "lost",
    "unreadable",
]
# States in which the card did not answer.
FAILED_STATES = frozenset({"unknown_error", "reset_required", "lost", "unreadable"})

_NUMBER = re.compile(r"(-?\d{1,19}(?:\.\d{1,9})?)(?: ?([A-Za-z%/]{1,8}))?", re.ASCII)
_HEX = re.compile(r"0x[0-9A-Fa-f]{1,16}")
_SENTENCES: tuple[tuple[str, CellState], ...] = (
    ("n/a", "not_available"),
    ("not supported", "not_supported"),
    ("not available", "not_available"),
    ("deprecated", "deprecated"),
    ("insufficient permissions", "no_permission"),
    ("requires reset", "reset_required"),
    ("gpu is lost", "lost"),
    ("fallen off the bus", "lost"),
    ("unknown error", "unknown_error"),
)


@dataclass(frozen=True)
class Cell:
    """One cell as printed, with what it means. `has_unit`: the unit stands in the cell itself."""

    text: str
    state: CellState = "ok"
    number: float | None = None
    unit: str | None = None
    has_unit: bool = False

    @property
    def has_failed(self) -> bool:
        """Whether the card did not answer this question."""
        return self.state in FAILED_STATES

    @property
    def value(self) -> int | float | str | None:
        """The number when there is one, else the word; None for a cell without an answer."""
        if self.state != "ok":
            return None
        if self.number is None:
            return self.text
        return int(self.number) if self.number.is_integer() else self.number

    @property
    def bits(self) -> int | None:
        """The value of a hexadecimal mask, or None."""
        if self.state == "ok" and _HEX.fullmatch(self.text):
            return int(self.text, 16)
        return None


def parse_cell(text: str, header_unit: str | None = None) -> Cell:
    """Read one cell; `header_unit` is the unit of the column when the cell carries none."""
    text = text.strip()
    inner = text[1:-1] if text.startswith("[") and text.endswith("]") else None
    if inner is not None or text in ("N/A", "ERR!", "Unknown Error", "Not Supported"):
        return Cell(text, _state_of((inner or text).lower()))
    if number := _NUMBER.fullmatch(text):
        return Cell(text, "ok", float(number[1]), number[2] or header_unit, number[2] is not None)
    return Cell(text)


def _state_of(sentence: str) -> CellState:
    for needle, state in _SENTENCES:
        if needle in sentence:
            return state
    return "unreadable"
