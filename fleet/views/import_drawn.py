"""Draws one import: counts, differences with refused rows first, and the lines of the file that were refused."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy

from fleet.marks import Mark, mark_of
from fleet.models import InventoryImport
from fleet.rules.hostkeys import fingerprint
from fleet.rules.message import said
from fleet.rules.missing import PROPOSED
from fleet.rules.nodeset import fold_nodeset
from fleet.services.inventory import ADDED, CHANGED, EQUAL, HELD, REFUSED

ROWS_SHOWN = 400
CONTEXT_LINES = 2
LINES_SHOWN = 200
_KINDS = {"node": _lazy("node"), "pool": _lazy("pool"), "replica": _lazy("unit")}
_IN_FILE = {"port": "ssh_port", "gpu_count": "gpus", "is_spare": "spare"}
# the state of a key goes with the key; what it is for is no word of a file
_HIDDEN = frozenset({"key_state", "origin"})
_ORDER = (REFUSED, HELD, CHANGED, ADDED, PROPOSED, "blocked", "kept", EQUAL)


@dataclass(frozen=True)
class Row:
    """One field of one change, in finished words."""

    mark: Mark
    name: str
    kind: Any
    field: str
    now: str
    file: str
    result: str
    line: int = 0


def draw(found: InventoryImport, known: int, *, show_all: bool = False) -> dict[str, Any]:
    """Return all that the page of an import shows; `known` is the number of nodes in the fleet now."""
    rows = rows_drawn(found)
    shown = [row for row in rows if show_all or row.mark.state != EQUAL]
    nodes = [change for change in found.changes if change["kind"] == "node"]
    added = sum(1 for change in nodes if change["outcome"] == ADDED)
    proposed = [one for one in found.missing if one["outcome"] == PROPOSED]
    return {
        "rows": shown[:ROWS_SHOWN],
        "rows_left": max(0, len(shown) - ROWS_SHOWN),
        "rows_all": len(rows),
        "strip": _strip(found),
        "equal": _names(found, EQUAL),
        "writes": sum(1 for change in found.changes if change["outcome"] in (ADDED, CHANGED)),
        "refused": sum(1 for change in found.changes if change["outcome"] == REFUSED),
        "held": sum(1 for change in found.changes if change["outcome"] == HELD),
        "nodes_in_file": len(nodes),
        "proposed": [{**one, "why": said(one["why"], _)} for one in proposed],
        "missing": len(found.missing),
        "known": known,
        "known_after": known + added,
        "lines": _lines(found),
    }


def rows_drawn(found: InventoryImport) -> list[Row]:
    """Return every row of an import, refused ones first."""
    return sorted(_rows(found), key=lambda row: _ORDER.index(row.mark.state))


def diff_text(found: InventoryImport, *, with_equal: bool = False) -> str:
    """Return the differences as CSV with a head line, in the words and the order of the page.

    A cell that a spreadsheet would take for a formula is written as text.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["row", "kind", "name", "field", "now", "in_file", "result", "line"])
    for row in rows_drawn(found):
        if with_equal or row.mark.state != EQUAL:
            cells = (row.mark.word, row.kind, row.name, row.field, row.now, row.file, row.result)
            writer.writerow([*(_cell(str(cell)) for cell in cells), row.line or ""])
    return out.getvalue()


def _cell(text: str) -> str:
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


def _rows(found: InventoryImport) -> Iterable[Row]:
    for change in found.changes:
        yield from _change_rows(change, found.state == InventoryImport.State.APPLIED)
    for one in found.missing:
        place = _("leaf %(leaf)d, %(rack)s") % one["place"]
        yield Row(
            mark_of("row", one["outcome"]),
            one["name"],
            _KINDS["node"],
            "",
            place,
            _("not in the file"),
            said(one["why"], _),
        )


def _change_rows(change: dict[str, Any], is_applied: bool) -> Iterable[Row]:
    mark, kind = mark_of("row", change["outcome"]), _KINDS[change["kind"]]
    if change["outcome"] == REFUSED:
        whole = said(change["why"], _)
        field, colon, why = whole.partition(": ")
        is_field = colon and " " not in field.replace(", ", "")
        yield Row(
            mark, change["name"], kind, field if is_field else "", "", "",
            why if is_field else whole, change["line"],
        )  # fmt: skip
        return
    result = _("applied") if is_applied else _("will apply")
    if change["outcome"] == HELD:
        result = said(change["why"], _)
    if change["outcome"] in (CHANGED, HELD):
        for name, value in change["after"].items():
            if name not in _HIDDEN:
                now = _text(name, change["before"].get(name))
                yield Row(
                    mark, change["name"], kind, _IN_FILE.get(name, name), now,
                    _text(name, value), result,
                )  # fmt: skip
        return
    words = ", ".join(
        f"{_IN_FILE.get(name, name)} {_text(name, value)}"
        for name, value in change["after"].items()
        if name not in _HIDDEN
    )
    is_equal = change["outcome"] == EQUAL
    yield Row(mark, change["name"], kind, "", "", words, _("nothing to do") if is_equal else result)


def _text(name: str, value: Any) -> str:
    if name == "host_key" and value:
        return fingerprint(str(value))
    if isinstance(value, list):
        return " + ".join(map(str, value))
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    return "" if value is None else str(value)


def _names(found: InventoryImport, *outcomes: str) -> str:
    """Fold the names of nodes, then of pools and units, that met with one of these outcomes."""
    met = [change for change in found.changes if change["outcome"] in outcomes]
    return ", ".join(
        part
        for kind in _KINDS
        if (part := fold_nodeset(change["name"] for change in met if change["kind"] == kind))
    )


def _strip(found: InventoryImport) -> list[dict[str, Any]]:
    counts = [change["outcome"] for change in found.changes]
    words = {
        EQUAL: _("%(n)d equal"),
        ADDED: _("%(n)d added"),
        CHANGED: _("%(n)d changed"),
        REFUSED: _("%(n)d refused"),
    }
    cells = [
        {
            "mark": mark_of("row", outcome) if counts.count(outcome) else mark_of("row", EQUAL),
            "text": words[outcome] % {"n": counts.count(outcome)},
            "names": _names(found, outcome),
        }
        for outcome in words
    ]
    gone = {
        "mark": mark_of("row", "kept" if found.missing else EQUAL),
        "text": _("%(n)d missing") % {"n": len(found.missing)},
        "names": fold_nodeset(one["name"] for one in found.missing),
    }
    held = {
        "mark": mark_of("row", HELD),
        "text": _("%(n)d left as they are") % {"n": counts.count(HELD)},
        "names": _names(found, HELD),
    }
    return [*cells[:3], *([held] if HELD in counts else []), gone, cells[3]]


def _lines(found: InventoryImport) -> list[dict[str, Any]]:
    """Return the refused lines of the file with their neighbours; what lies between is folded with its count."""
    refused = {
        change["line"]
        for change in found.changes
        if change["outcome"] == REFUSED and change.get("line")
    }
    if not refused:
        return []
    text = found.text.splitlines()
    near = sorted(
        {
            number
            for line in refused
            for number in range(line - CONTEXT_LINES, line + CONTEXT_LINES + 1)
            if 1 <= number <= len(text)
        }
    )[:LINES_SHOWN]
    drawn, before = [], 0
    for number in near:
        if number > before + 1:
            drawn.append({"folded": number - before - 1})
        words = text[number - 1][:300]
        drawn.append({"number": number, "text": words, "is_refused": number in refused})
        before = number
    if before < len(text):
        drawn.append({"folded": len(text) - before})
    return drawn
