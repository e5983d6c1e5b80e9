"""One row of an inventory file with the lines it stands on, and rows that name many nodes at once. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fleet.rules.message import foreign, said, say
from fleet.rules.nodeset import NodesetError, parse_nodeset


class Row(dict[str, Any]):
    """The fields of one row. `line`: where it begins; `lines`: field to its line; 0 where nobody counted.

    `problem`, a stored sentence, says why a row that names many nodes could not be taken apart; such a row is refused.
    """

    line: int = 0
    problem: str = ""

    def __init__(self, *args: Any, line: int = 0) -> None:
        super().__init__(*args)
        self.line = line
        self.lines: dict[str, int] = {}


def line_of(row: Mapping[str, Any] | None, why: str = "") -> int:
    """Return the line that a refusal (`field: what was expected`) is about; 0 when it is not known."""
    if not isinstance(row, Row):
        return 0
    return row.lines.get(said(why).partition(":")[0], row.line)


def expand_rows(rows: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return one row for each node: `name: gpu[01-08]` with `address: 10.0.1.[1-8]` is eight.

    Everything else of such a row is said of each of its nodes. A range that cannot be read stays one row with its
    problem.
    """
    return [one for row in rows for one in _expand(row)]


def _expand(row: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    name, address = str(row.get("name") or ""), str(row.get("address") or "")
    if "[" not in name:
        return [row]
    try:
        names, addresses = parse_nodeset(name)[0], _addresses(address)
    except NodesetError as error:
        return [_refused(row, say("%(field)s: %(why)s", field="name", why=error.sentence))]
    if len(names) != len(addresses):
        return [
            _refused(
                row,
                say(
                    "address: expected a range of %(n)s addresses for the %(n)s names of %(name)s, found %(found)s",
                    n=len(names),
                    name=foreign(name[:40]),
                    found=len(addresses),
                ),
            )
        ]
    if row.get("host_key"):
        return [
            _refused(
                row,
                say("host_key: expected none, each machine has its own; name nodes one by one"),
            )
        ]
    return [
        _like(row, name=one, address=where) for one, where in zip(names, addresses, strict=True)
    ]


def _addresses(text: str) -> list[str]:
    try:
        return parse_nodeset(text)[0]
    except NodesetError as error:
        raise NodesetError(say("in address: %(why)s", why=error.sentence)) from None


def _like(row: Mapping[str, Any], **fields: Any) -> Row:
    one = Row({**row, **fields}, line=getattr(row, "line", 0))
    one.lines = dict(getattr(row, "lines", {}))
    return one


def _refused(row: Mapping[str, Any], why: str) -> Row:
    one = _like(row)
    one.problem = why
    return one
