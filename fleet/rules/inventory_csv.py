"""Reads the nodes of an inventory from CSV: a head line with the names of the fields, then a line a node. Pure."""

from __future__ import annotations

import csv
import io

from fleet.rules.inventory import BadRow
from fleet.rules.inventory_rows import Row
from fleet.rules.message import foreign, say

COLUMNS = (
    "name",
    "address",
    "ssh_port",
    "user",
    "leaf",
    "rack",
    "node_class",
    "model_root",
    "gpus",
    "host_key",
)
NEEDED = ("name", "address", "user", "leaf", "rack")
_MARKS = ",;\t"


def is_csv(text: str) -> bool:
    """Tell by its first line whether a text is CSV: its fields are names of columns."""
    fields = set(_fields(_first_line(text)))
    return {"name", "address"} <= fields


def read_csv(text: str) -> list[Row]:
    """Return the rows with their lines; an empty cell is a field that was left out. Raises BadRow."""
    head = _first_line(text)
    mark = max(_MARKS, key=head.count)
    reader = csv.reader(io.StringIO(text), delimiter=mark, strict=True, skipinitialspace=True)
    rows: list[Row] = []
    columns: list[str] = []
    try:
        begun = 0
        for cells in reader:
            line, begun = begun + 1, reader.line_num
            if not any(cell.strip() for cell in cells):
                continue
            if not columns:
                columns = _columns(cells, line)
            else:
                rows.append(_row(columns, cells, line))
    except csv.Error as error:
        raise BadRow(
            say(
                "line %(line)s: expected CSV, found something else: %(found)s",
                line=reader.line_num,
                found=foreign(str(error)),
            )
        ) from None
    return rows


def _first_line(text: str) -> str:
    return next((line for line in text.splitlines() if line.strip()), "")[:2000]


def _fields(line: str) -> list[str]:
    mark = max(_MARKS, key=line.count)
    return [field.strip().strip('"').lower() for field in line.split(mark)]


def _columns(cells: list[str], line: int) -> list[str]:
    found = [cell.strip().lower() for cell in cells]
    if strange := [name for name in found if name not in COLUMNS]:
        raise BadRow(
            say(
                "line %(line)s: expected columns %(columns)s; found %(found)s",
                line=line,
                columns=", ".join(COLUMNS),
                found=repr(strange[0][:40]),
            )
        )
    if missing := [name for name in NEEDED if name not in found]:
        raise BadRow(
            say(
                "line %(line)s: expected a column %(column)s, found none; add it to the head",
                line=line,
                column=missing[0],
            )
        )
    if len(set(found)) != len(found):
        raise BadRow(say("line %(line)s: expected each column once", line=line))
    return found


def _row(columns: list[str], cells: list[str], line: int) -> Row:
    if len(cells) != len(columns):
        raise BadRow(
            say(
                "line %(line)s: expected %(wanted)s cells, as the head says, found %(found)s",
                line=line,
                wanted=len(columns),
                found=len(cells),
            )
        )
    row = Row(
        {name: cell.strip() or None for name, cell in zip(columns, cells, strict=True)}, line=line
    )
    row.lines = dict.fromkeys(columns, line)
    return row
