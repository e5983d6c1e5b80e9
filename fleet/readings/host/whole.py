"""What the parsers of a host share: lines that are whole, and words that are said only once."""

from __future__ import annotations

from collections.abc import Iterable

from fleet.readings.open_end import end_of
from fleet.readings.text import Line, number_lines


def whole_lines(text: str) -> tuple[list[Line], bool]:
    """Return the lines that end with a line feed, and whether all of them do.

    A last line without its end may have lost digits, so nothing is read from it.
    """
    end = end_of(text)
    return number_lines(end.text), end.cut is None


def only(words: Iterable[str]) -> str | None:
    """Return the word when all are the same; two outputs in one text leave none."""
    told = set(words)
    return told.pop() if len(told) == 1 else None


def count(word: str | None, cap: int = 2**63) -> int | None:
    """Return a count written in plain digits."""
    if word is None or not word.isascii() or not word.isdigit() or len(word) > 20:
        return None
    value = int(word)
    return value if value < cap else None
