"""The fleet as the map and the table show it: one query for all nodes, one for all pools, whatever their number.

Node output comes out as plain values; a missing reading is None, never 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import F, Func, OuterRef, Subquery, TextField
from django.db.models.functions import JSONObject

from fleet.models import Gpu, Hold, Member, Node, Pool
from fleet.selectors.control import ControlState, control_of, control_parts
from fleet.selectors.units import shown_state, units_present


@dataclass(slots=True)
class Seat:
    """The place of a node in its unit."""

    unit: str
    state: str
    position: int
    nodes: int
    pool: str
    tone: str
    pool_name: str


class GpuCell(NamedTuple):
    """One card of the map; None where there is no reading."""

    health: str
    used_mib: float | None
    total_mib: float | None
    clock_mhz: float | None


@dataclass(slots=True)
class NodeRow:
    """One node as the fleet pages need it."""

    name: str
    address: str
    leaf: int
    rack: str
    node_class: str
    origin: str
    state: str
    explanation: str
    reach: str
    key_state: str
    gpu_count: int
    probed_at: datetime | None
    seat: Seat | None
    hold: str
    gpus: list[GpuCell]
    trouble: str
    healths: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        self.healths = frozenset(cell.health for cell in self.gpus)


@dataclass(slots=True)
class UnitSeen:
    name: str
    state: str
    explanation: str
    generation: int


@dataclass(slots=True)
class PoolSeen:
    slug: str
    name: str
    tone: str
    shape: str
    unit_nodes: int
    unit_gpus: int
    is_spare: bool
    spare_floor: int
    promised_units: int
    units: list[UnitSeen]


_NODE_FIELDS = (
    "host__name",
    "host__address",
    "rack__leaf__number",
    "rack__name",
    "node_class",
    "origin",
    "state",
    "explanation",
    "host__reach",
    "host__key_state",
    "gpu_count",
    "probed_at",
)


def node_rows() -> list[NodeRow]:
    """Return every node but the retired, by leaf, rack and name, with its unit, hold and cards. One query."""
    seat = Member.objects.filter(node=OuterRef("pk"), released_at=None).values(
        row=JSONObject(
            unit="replica__name",
            state=shown_state("replica__"),
            position="position",
            nodes="replica__pool__unit_nodes",
            pool="replica__pool__slug",
            tone="replica__pool__tone",
            pool_name="replica__pool__name",
        )
    )
    hold = Hold.objects.filter(node=OuterRef("pk"), lifted_at=None).order_by("created_at")
    gpus = Gpu.objects.filter(node=OuterRef("pk")).order_by("index")
    told = gpus.exclude(health="ok").exclude(explanation="").values("explanation")
    rows = (
        Node.objects.exclude(state=Node.State.RETIRED)
        .order_by("rack__leaf__number", "rack__name", "host__name")
        .values_list(
            *_NODE_FIELDS,
            Subquery(seat[:1]),
            Subquery(hold.values("kind")[:1]),
            ArraySubquery(gpus.values(row=_CELL)),
            Subquery(told[:1]),
        )
    )
    return [_node_row(*row) for row in rows]


def _node_row(*row: Any) -> NodeRow:
    *plain, seat, hold, cells, trouble = row
    found = Seat(**seat) if seat else None
    parts = [*plain, found, hold or "", [_cell(text) for text in cells], trouble or ""]
    return NodeRow(*parts)


# Thousands of cards come as one short text each: objects of the database driver would cost ten times as much.
_CELL = Func(
    F("health"),
    F("memory_used_mib"),
    F("memory_total_mib"),
    F("sm_clock_mhz"),
    function="concat",
    arg_joiner=", ',', ",
    output_field=TextField(),
)


@lru_cache(maxsize=20_000)
def _cell(text: str) -> GpuCell:
    health, used, total, clock = text.split(",")
    return GpuCell(health, *(float(part) if part else None for part in (used, total, clock)))


def pools_seen() -> tuple[list[PoolSeen], ControlState | None]:
    """Return every pool with its units in order, and the state of the console; None of it without pools. One query."""
    units = (
        units_present()
        .filter(pool=OuterRef("pk"))
        .order_by("name")
        .values(row=JSONObject(n="name", s=shown_state(), e="explanation", g="generation"))
    )
    rows = Pool.objects.values_list(
        "slug",
        "name",
        "tone",
        "shape",
        "unit_nodes",
        "unit_gpus",
        "is_spare",
        "spare_floor",
        "promised_units",
        ArraySubquery(units),
        *control_parts(),
    ).order_by("position", "slug")
    pools = [_pool_seen(*row[:10]) for row in rows]
    return pools, control_of(rows[0][10:]) if rows else None


def _pool_seen(*row: Any) -> PoolSeen:
    *plain, units = row
    parts = [*plain, sorted(map(_unit, units), key=_natural)]
    return PoolSeen(*parts)


def _unit(row: dict[str, Any]) -> UnitSeen:
    return UnitSeen(row["n"], row["s"], row["e"], row["g"])


def _natural(unit: UnitSeen) -> tuple[str, int, str]:
    stem = unit.name.rstrip("0123456789")
    number = unit.name[len(stem) :]
    return stem, int(number or 0), unit.name
