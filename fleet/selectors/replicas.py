"""Service units as their list shows them: one query for the units, one for their nodes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import OuterRef

from fleet.models import Member
from fleet.selectors.units import shown_state, units_present


@dataclass(slots=True)
class UnitRow:
    name: str
    state: str
    explanation: str
    generation: int
    state_at: datetime
    pool: str
    pool_name: str
    tone: str
    shape: str
    unit_gpus: int
    nodes: list[str]


def unit_rows() -> list[UnitRow]:
    """Return every unit with the nodes it has, in pool order. One query."""
    nodes = (
        Member.objects.filter(replica=OuterRef("pk"), released_at=None)
        .order_by("position")
        .values("node__host__name")
    )
    rows = (
        units_present()
        .order_by("pool__position", "pool__slug", "name")
        .values_list(
            "name",
            shown_state(),
            "explanation",
            "generation",
            "state_at",
            "pool__slug",
            "pool__name",
            "pool__tone",
            "pool__shape",
            "pool__unit_gpus",
            ArraySubquery(nodes),
        )
    )
    return sorted((UnitRow(*row) for row in rows), key=_order(rows))


def _order(rows):
    """Keep the pools' order and count r2 before r10."""
    pools = {row[5]: place for place, row in reversed(list(enumerate(rows)))}

    def key(unit: UnitRow) -> tuple[int, str, int]:
        stem = unit.name.rstrip("0123456789")
        return pools[unit.pool], stem, int(unit.name[len(stem) :] or 0)

    return key
