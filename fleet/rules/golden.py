"""Compares what was read of a node with a golden profile: equal, at least a share, within a range, or ignored.

Pure. A missing or expired reading is unknown, never a pass and never a failure. Which keys a profile takes by
itself, and how they are compared, is golden_defaults.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fleet.rules.message import foreign, say

EQUAL, RATIO, RANGE, IGNORE = "equal", "ratio", "range", "ignore"
TOLERANCES = (EQUAL, RATIO, RANGE, IGNORE)
FAIL, UNKNOWN = "fail", "unknown"
_TEXT_SHOWN = 60


@dataclass(frozen=True)
class Wanted:
    """One key of a profile. `ratio`: least share of `value`; `low`, `high`: bounds in the unit of the key, both
    inclusive, None leaves that side open.
    """

    key: str
    value: Any
    tolerance: str
    ratio: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Found:
    """What was read of one key; `value` None when it could not be read."""

    value: Any
    is_expired: bool


@dataclass(frozen=True)
class Difference:
    """One place where a node is not as its profile says. `path` leads into a matrix or a list, "3.5" is row 3,
    column 5; `text` is a stored sentence.
    """

    key: str
    path: str
    expected: Any
    found: Any
    tolerance: str
    verdict: str
    text: str


def compare(wanted: Iterable[Wanted], found: Mapping[str, Found]) -> list[Difference]:
    """Return where the readings differ, in the order of the profile; nothing for what agrees or is ignored."""
    differences: list[Difference] = []
    for want in wanted:
        if want.tolerance != IGNORE:
            differences.extend(_of_key(want, found.get(want.key)))
    return differences


def is_number(value: Any) -> bool:
    """Tell whether a value is a finite number; true and false are none."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _of_key(want: Wanted, found: Found | None) -> Iterator[Difference]:
    if found is None or _is_empty(found.value):
        text = say("%(key)s: no reading. Probe the node.", key=want.key)
        yield _difference(want, "", want.value, None, UNKNOWN, text)
    elif found.is_expired:
        text = say("%(key)s: the reading has expired. Probe the node again.", key=want.key)
        yield _difference(want, "", want.value, found.value, UNKNOWN, text)
    elif want.tolerance not in TOLERANCES:
        text = say("%(key)s: the profile does not say how to compare it.", key=want.key)
        yield _difference(want, "", want.value, found.value, UNKNOWN, text)
    else:
        yield from _top(want, found.value)


def _top(want: Wanted, found: Any) -> Iterator[Difference]:
    """Compare matrices by their cells, other values part by part."""
    # most values of a fleet are as gold; this is ten times as quick as a walk and just as strict about kinds
    if want.tolerance == EQUAL and repr(want.value) == repr(found):
        return
    one, other = _matrix_of(want.value), _matrix_of(found)
    if one is None or other is None:
        yield from _walk(want, "", want.value, found)
        return
    (heads, cells), (other_heads, other_cells) = one, other
    if _shape(cells) != _shape(other_cells):
        yield _unequal_shape(want, "", cells, other_cells)
        return
    yield from _walk(want, "", heads, other_heads)
    yield from _walk(want, "", cells, other_cells)


def _matrix_of(value: Any) -> tuple[dict[str, Any], list[Any]] | None:
    """Return heads and rows of a matrix, or None for what is none.

    A matrix is {"cells": [[...]], heads}, or a table as the reading of `nvidia-smi topo -m` gives it:
    {"columns": [...], "rows": [{"links": [...], ...}]}.
    """
    if not isinstance(value, dict):
        return None
    cells = value.get("cells")
    if isinstance(cells, list) and all(isinstance(row, list) for row in cells):
        return {key: part for key, part in value.items() if key != "cells"}, cells
    rows = value.get("rows")
    if isinstance(rows, list) and all(
        isinstance(row, dict) and isinstance(row.get("links"), list) for row in rows
    ):
        heads = {key: part for key, part in value.items() if key != "rows"}
        return heads, [_Row(row) for row in rows]
    return None


class _Row(dict[str, Any]):
    """A row of a topology: its links are cells 0, 1, ..., its other columns keep their names."""

    def __init__(self, row: dict[str, Any]) -> None:
        cells = {str(at): link for at, link in enumerate(row["links"])}
        super().__init__(cells | {key: part for key, part in row.items() if key != "links"})
        self.width = len(cells)


def _width(row: Any) -> int | None:
    if isinstance(row, _Row):
        return row.width
    return len(row) if isinstance(row, list) else None


def _shape(value: list[Any]) -> list[int]:
    """Return the width of each row of a matrix, or the length of a list."""
    widths = [_width(row) for row in value]
    rows = [width for width in widths if width is not None]
    return rows if rows and len(rows) == len(widths) else [len(value)]


def _shape_text(value: list[Any]) -> str:
    if not value or _width(value[0]) is None or len(set(_shape(value))) > 1:
        return str(len(value))
    return f"{len(value)} × {_width(value[0])}"


def _unequal_shape(want: Wanted, path: str, expected: Any, found: Any) -> Difference:
    text = say(
        "%(where)s: expected a shape of %(expected)s, found %(found)s.",
        where=_where(want.key, path),
        expected=_shape_text(expected),
        found=_shape_text(found),
    )
    return _difference(want, path, _shape_text(expected), _shape_text(found), FAIL, text)


def _walk(want: Wanted, path: str, expected: Any, found: Any) -> Iterator[Difference]:
    if isinstance(expected, dict) and isinstance(found, dict):
        for key in dict.fromkeys([*expected, *found]):
            if key not in found or key not in expected:
                yield _gone(want, _join(path, key), expected.get(key), found.get(key))
            else:
                yield from _walk(want, _join(path, key), expected[key], found[key])
    elif isinstance(expected, list) and isinstance(found, list):
        # a matrix of one row and a list of two have shapes that look alike
        if len(expected) != len(found) or _shape(expected) != _shape(found):
            yield _unequal_shape(want, path, expected, found)
            return
        for at, (one, other) in enumerate(zip(expected, found, strict=True)):
            yield from _walk(want, _join(path, at), one, other)
    else:
        yield from _leaf(want, path, expected, found)


def _gone(want: Wanted, path: str, expected: Any, found: Any) -> Difference:
    """A part that only one side has: a port that is gone, a link that is new."""
    return _difference(
        want, path, expected, found, FAIL, _expected_found(want, path, expected, found)
    )


def _leaf(want: Wanted, path: str, expected: Any, found: Any) -> Iterator[Difference]:
    if _is_empty(expected) and _is_empty(found):
        return
    if _is_empty(expected) or _is_empty(
        found
    ):  # empty affinity cells are a torn capture, not drift
        text = say("%(where)s: no reading. Probe the node.", where=_where(want.key, path))
        yield _difference(want, path, expected, found, UNKNOWN, text)
    elif want.tolerance == EQUAL:
        if not _is_same(expected, found):
            text = _expected_found(want, path, expected, found)
            yield _difference(want, path, expected, found, FAIL, text)
    else:
        yield from _measured(want, path, expected, found)


def _measured(want: Wanted, path: str, expected: Any, found: Any) -> Iterator[Difference]:
    where = _where(want.key, path)
    needs = (want.ratio,) if want.tolerance == RATIO else (want.low, want.high)
    if all(number is None for number in needs):
        text = say("%(where)s: the profile does not say how to compare it.", where=where)
        yield _difference(want, path, expected, found, UNKNOWN, text)
    elif not is_number(found) or (want.tolerance == RATIO and not is_number(expected)):
        text = say(
            "%(where)s: expected a number, found %(found)s.", where=where, found=_show(found)
        )
        yield _difference(want, path, expected, found, UNKNOWN, text)
    elif want.tolerance == RATIO:
        bar = (want.ratio or 0) * expected
        if found < bar:
            text = say(
                "%(where)s: expected at least %(bar)s (%(ratio)s of %(expected)s), found %(found)s.",
                where=where,
                bar=_show(bar),
                ratio=_show(want.ratio),
                expected=_show(expected),
                found=_show(found),
            )
            yield _difference(want, path, expected, found, FAIL, text)
    else:
        low, high = want.low, want.high
        if (low is not None and found < low) or (high is not None and found > high):
            text = say(
                "%(where)s: expected %(low)s to %(high)s, found %(found)s.",
                where=where,
                low="−∞" if low is None else _show(low),
                high="∞" if high is None else _show(high),
                found=_show(found),
            )
            yield _difference(want, path, expected, found, FAIL, text)


def _is_same(one: Any, other: Any) -> bool:
    """Equal in kind and value: true is not 1, but 8 is 8.0."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    return bool(one == other)


def _is_empty(value: Any) -> bool:
    return value is None or value == ""


def _expected_found(want: Wanted, path: str, expected: Any, found: Any) -> str:
    return say(
        "%(where)s: expected %(expected)s, found %(found)s.",
        where=_where(want.key, path),
        expected=_show(expected),
        found=_show(found),
    )


def _difference(
    want: Wanted, path: str, expected: Any, found: Any, verdict: str, text: str
) -> Difference:
    return Difference(want.key, path, expected, found, want.tolerance, verdict, text)


def _join(path: str, part: object) -> str:
    return f"{path}.{part}" if path else str(part)


def _where(key: str, path: str) -> str:
    return foreign(f"{key} {path}") if path else key


def _show(value: Any) -> str:
    if _is_empty(value):
        return "–"
    if isinstance(value, float):
        value = f"{value:.6g}"
    text = foreign(str(value))
    return text if len(text) <= _TEXT_SHOWN else f"{text[:_TEXT_SHOWN]}…"
