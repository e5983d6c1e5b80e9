"""Reads the CSV of `nvidia-smi --query-...`: with or without header, units and blanks.

The caller who asked knows the fields and passes them; without them and without a header the
columns stay unnamed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from fleet.readings.nvidia_smi.cells import Cell, parse_cell
from fleet.readings.nvidia_smi.sentences import Sentence, read_sentence
from fleet.readings.text import Line, number_lines

# One field of drivers since 545 has a capital: ecc.errors.uncorrected.aggregate.sram.thresholdExceeded.
_FIELD = re.compile(r"([a-z][A-Za-z0-9_.]{0,79})(?: \[([A-Za-z%/]{1,8})\])?")
_PLAIN_FIELDS = frozenset(
    ("index", "name", "uuid", "serial", "count", "timestamp", "pstate", "pid", "process_name")
)
# One fact, several names: what drivers renamed, and the short forms of the manual page.
_ALIASES = {
    "gpu_name": "name",
    "gpu_uuid": "uuid",
    "gpu_serial": "serial",
    "gpu_bus_id": "pci.bus_id",
    "used_memory": "used_gpu_memory",
    "clocks.gr": "clocks.current.graphics",
    "clocks.sm": "clocks.current.sm",
    "clocks.mem": "clocks.current.memory",
    "clocks.video": "clocks.current.video",
    "clocks.max.gr": "clocks.max.graphics",
    "clocks.max.mem": "clocks.max.memory",
}
_REASONS_OLD, _REASONS_NEW = "clocks_throttle_reasons.", "clocks_event_reasons."


@dataclass(frozen=True)
class QueryRow:
    """One row; `index` is None when the card could not even tell its number."""

    line: int
    index: int | None
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class QueryTable:
    """The rows of one query. `fields` is empty when nobody named the columns."""

    fields: tuple[str, ...]
    rows: tuple[QueryRow, ...]
    sentences: tuple[Sentence, ...]
    torn: tuple[int, ...]
    unread: tuple[int, ...]
    header_line: int | None = None
    headers: int = 0

    @property
    def complete(self) -> bool:
        """Whether every row had all its cells and no sentence stands where rows should."""
        torn = self.torn or self.is_beheaded or self.headers > 1
        return bool(self.rows) and not torn and not self.sentences

    @property
    def is_beheaded(self) -> bool:
        """Whether the first title lost its beginning: `dex` is no field, but `index` ends with it."""
        first = self.fields[0] if self.header_line is not None and self.fields else ""
        known = first in _PLAIN_FIELDS or "." in first or "_" in first
        return bool(first) and not known and any(f.endswith(first) for f in _PLAIN_FIELDS)

    @property
    def missing(self) -> tuple[int, ...]:
        """Numbers below the highest one that neither a row nor a sentence has.

        Nothing is said while a row could not tell its own number.
        """
        if any(r.index is None for r in self.rows):
            return ()
        known = {r.index for r in self.rows} | {s.index for s in self.sentences}
        highest = max((r.index for r in self.rows if r.index is not None), default=-1)
        return tuple(n for n in range(highest) if n not in known)

    def cell(self, row: QueryRow, field: str) -> Cell | None:
        """Return one cell by field name or alias; None when the column was not asked for."""
        want = canonical_field(field)
        if want in self.fields:
            return row.cells[self.fields.index(want)]
        return None

    def column(self, field: str) -> list[Cell]:
        """Return one column, or nothing when it was not asked for."""
        return [c for row in self.rows if (c := self.cell(row, field)) is not None]


def has_header(text: str) -> bool:
    """Tell a text with a line of titles."""
    return any(_header_fields(line.text) for line in number_lines(text))


def canonical_field(field: str) -> str:
    """Return the present name of a field that has or had another."""
    if field.startswith(_REASONS_OLD):
        return _REASONS_NEW + field.removeprefix(_REASONS_OLD)
    return _ALIASES.get(field, field)


def parse_query(text: str, fields: Sequence[str] = ()) -> QueryTable:
    """Read a CSV answer. `fields` are those that were asked for, in their order."""
    lines = number_lines(text)
    sentences = {line.number: s for line in lines if (s := read_sentence(line)) is not None}
    header = next((line for line in lines if _header_fields(line.text)), None)
    named = _header_fields(header.text) if header else [(f, None) for f in fields]
    names = tuple(canonical_field(f) for f, _ in named)
    units = [unit for _, unit in named]
    rows: list[QueryRow] = []
    torn: list[int] = []
    unread: list[int] = []
    headers = 1 if header else 0
    for line in lines:
        if line is header or line.number in sentences or not line.text.strip():
            continue
        if header and line.number < header.number:
            unread.append(line.number)
            continue
        again = _header_fields(line.text) if header else []
        if again and (again == named or len(again) > 1):
            # A second answer in the same text: its titles are no row.
            headers += 1
            torn += [] if again == named else [line.number]
            continue
        row = _read_row(line, names, units)
        if row is not None:
            rows.append(row)
        elif "," in line.text:
            torn.append(line.number)
        else:
            unread.append(line.number)
    rows, odd = _same_width(rows, names)
    return QueryTable(
        names,
        tuple(rows),
        tuple(sentences.values()),
        tuple(sorted(torn + odd)),
        tuple(unread),
        header.number if header else None,
        headers,
    )


def _header_fields(text: str) -> list[tuple[str, str | None]]:
    """Return the named columns when a line is a header, else nothing."""
    matches = [_FIELD.fullmatch(cell.strip()) for cell in text.split(",")]
    found = [(m[1], m[2]) for m in matches if m is not None]
    if len(found) != len(matches):
        return []
    known = any(name in _PLAIN_FIELDS or "." in name or "_" in name for name, _ in found)
    return found if known else []


def _read_row(line: Line, names: tuple[str, ...], units: list[str | None]) -> QueryRow | None:
    parts = line.text.split(",")
    if names and len(parts) > len(names) and "process_name" in names:
        parts = _join_process_name(parts, names)
    if names and len(parts) != len(names):
        return None
    if not names and not _looks_like_row(parts):
        return None
    cells = tuple(parse_cell(p, units[i] if names else None) for i, p in enumerate(parts))
    if _has_cut_unit(cells, units):
        return None
    return QueryRow(line.number, _index_of(cells, names), cells)


def _has_cut_unit(cells: tuple[Cell, ...], units: list[str | None]) -> bool:
    """Find a cell that was cut: in one row all measured cells carry their unit, or none does."""
    if not cells[-1].text:
        return True
    measured = [
        (cell, unit)
        for cell, unit in zip(cells, units, strict=False)
        if unit and cell.state == "ok"
    ]
    carried = any(cell.has_unit for cell, _ in measured)
    return carried and not all(c.has_unit and c.unit == unit for c, unit in measured)


def _join_process_name(parts: list[str], names: tuple[str, ...]) -> list[str]:
    """A process name may hold commas; all other columns cannot."""
    at = names.index("process_name")
    spare = len(parts) - len(names)
    return [*parts[:at], ",".join(parts[at : at + spare + 1]), *parts[at + spare + 1 :]]


def _looks_like_row(parts: list[str]) -> bool:
    cells = [parse_cell(p) for p in parts]
    told = [c for c in cells if c.number is not None or c.state != "ok"]
    return bool(told) and (len(cells) > 1 or cells[0].state != "ok")


def _index_of(cells: tuple[Cell, ...], names: tuple[str, ...]) -> int | None:
    if names and "index" not in names:
        return None
    cell = cells[names.index("index") if names else 0]
    value = cell.value
    return value if isinstance(value, int) and 0 <= value < 1024 and cell.unit is None else None


def _same_width(rows: list[QueryRow], names: tuple[str, ...]) -> tuple[list[QueryRow], list[int]]:
    """Without names, rows that are narrower than the widest are torn."""
    if names or not rows:
        return rows, []
    width = max(len(r.cells) for r in rows)
    odd = [r.line for r in rows if len(r.cells) != width]
    return [r for r in rows if len(r.cells) == width], odd
