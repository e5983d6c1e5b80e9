"""Rows of the fleet table: finished words for each node, sorted and cut into pages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from math import ceil
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from fleet.marks import Mark, mark_of
from fleet.models import Hold
from fleet.selectors.fleet import NodeRow

PAGE_ROWS = 150
_HOLDS = dict(Hold.Kind.choices)

SORTS: dict[str, Callable[[NodeRow], Any]] = {
    "name": lambda row: row.name,
    "state": lambda row: (row.state, row.name),
    "place": lambda row: (row.leaf, row.rack, row.name),
    "unit": lambda row: (row.seat.unit if row.seat else "~", row.seat.position if row.seat else 0),
    "reach": lambda row: (row.reach, row.name),
    "probed": lambda row: (row.probed_at is not None, row.probed_at or 0, row.name),
}
COLUMNS = (
    ("name", gettext_lazy("Node")),
    ("state", gettext_lazy("State")),
    ("unit", gettext_lazy("Unit")),
    ("place", gettext_lazy("Leaf, rack")),
    ("reach", gettext_lazy("Reachable")),
    ("", gettext_lazy("GPUs")),
    ("", gettext_lazy("Holds")),
    ("probed", gettext_lazy("Probed")),
)


@dataclass(slots=True)
class TableRow:
    name: str
    address: str
    mark: Mark
    unit: str
    tone: str
    stage: str
    place: str
    reach: Mark
    gpus: str
    gpus_bad: bool
    hold: Any
    probed_at: datetime | None


def page_of(rows: list[NodeRow], sort: str, page: str) -> tuple[list[NodeRow], int, int]:
    """Return the rows of a page, how many pages there are, and which one this is."""
    ordered = sorted(rows, key=SORTS[sort])
    pages = max(1, ceil(len(ordered) / PAGE_ROWS))
    is_number = page.isascii() and page.isdigit() and len(page) < 9
    number = min(pages, max(1, int(page) if is_number else 1))
    return ordered[(number - 1) * PAGE_ROWS : number * PAGE_ROWS], pages, number


def table_rows(rows: list[NodeRow]) -> list[TableRow]:
    """Return the rows of the table with finished words."""
    return [_row(row) for row in rows]


def _row(row: NodeRow) -> TableRow:
    well = sum(1 for gpu in row.gpus if gpu.health == "ok")
    seat = row.seat
    return TableRow(
        name=row.name,
        address=row.address,
        mark=mark_of("node", row.state),
        unit=seat.unit if seat else "",
        tone=seat.tone if seat else "psp",
        stage=_("stage %(n)d") % {"n": seat.position} if seat and seat.nodes > 1 else "",
        place=_("leaf %(leaf)d, %(rack)s") % {"leaf": row.leaf, "rack": row.rack},
        reach=mark_of("reach", row.reach),
        gpus=_("%(well)d of %(all)d") % {"well": well, "all": row.gpu_count} if row.gpus else "",
        gpus_bad="failed" in row.healths or well < len(row.gpus),
        hold=_HOLDS.get(row.hold, ""),
        probed_at=row.probed_at,
    )
