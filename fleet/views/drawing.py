"""Turns fleet rows into what the map draws: classes, levels, words. No queries here and none in the template."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import groupby

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from fleet.marks import CORDONED, CRIT, Mark, mark_of
from fleet.selectors.fleet import BROKEN, CHANGING, RUNNING, GpuCell, NodeRow, PoolSeen

# The levels of the map's scales: share of the memory, share of the highest clock an H100 SXM reaches.
LEVELS = 6
TOP_CLOCK_MHZ = 1980
# Above this many nodes each row is one link with a drawn strip; cells would weigh more than the page may.
FULL_ROWS = 96
SPARE_TONE = "psp"


@dataclass(slots=True)
class Cell:
    look: str
    levels: str
    title: str


@dataclass(slots=True)
class MapRow:
    """One node line of the map."""

    name: str
    short: str
    url: str
    look: str
    unit: str
    stage: str
    sign: Mark | None
    cells: list[Cell]
    label: str
    strip: str = ""


@dataclass(slots=True)
class MapGroup:
    """A block of the map: a leaf with its racks, or a pool with its units."""

    key: str
    title: str
    detail: str
    count: str
    racks: list[list[MapRow]] = field(default_factory=list)


def map_groups(rows: list[NodeRow], group_by: str) -> list[MapGroup]:
    """Cut the rows into blocks by leaf (racks inside) or by pool."""
    cut = len(_common_prefix([row.name for row in rows]))
    is_full = len(rows) <= FULL_ROWS
    ordered = sorted(rows, key=_pool_key) if group_by == "pool" else rows
    key = _pool_key if group_by == "pool" else _leaf_key
    return [_group(list(some), group_by, cut, is_full) for _, some in groupby(ordered, key=key)]


def _leaf_key(row: NodeRow) -> tuple:
    return (row.leaf,)


def _pool_key(row: NodeRow) -> tuple:
    return (row.seat.pool if row.seat else "~",)


def _group(rows: list[NodeRow], group_by: str, cut: int, is_full: bool) -> MapGroup:
    first = rows[0]
    racks = list(dict.fromkeys(row.rack for row in rows))
    if group_by == "pool":
        key = first.seat.pool if first.seat else "spare"
        title, detail = (first.seat.pool_name if first.seat else _("Spare")), ""
        lines = [[_row(row, cut, is_full) for row in rows]]
    else:
        key, title = f"leaf-{first.leaf}", _("Leaf %(number)s") % {"number": first.leaf}
        detail = ngettext("rack %(names)s", "racks %(names)s", len(racks)) % {
            "names": ", ".join(racks)
        }
        lines = [
            [_row(row, cut, is_full) for row in some]
            for _rack, some in groupby(rows, key=lambda row: row.rack)
        ]
    return MapGroup(key, title, detail, _count(rows), lines)


def _count(rows: list[NodeRow]) -> str:
    held = sum(1 for row in rows if row.hold)
    if held:
        return ngettext("%(n)d node held", "%(n)d nodes held", held) % {"n": held}
    return ngettext("%(n)d node", "%(n)d nodes", len(rows)) % {"n": len(rows)}


def _row(row: NodeRow, cut: int, is_full: bool) -> MapRow:
    url = reverse("node", args=[row.name])
    cells = [_cell(row, cell) for cell in _all_cells(row)]
    seat = row.seat
    drawn = MapRow(
        name=row.name,
        short=row.name[cut:] or row.name,
        url=url,
        look=row_look(row),
        unit=seat.unit if seat else _("spare"),
        stage=f"s{seat.position}" if seat and seat.nodes > 1 else "",
        sign=row_sign(row),
        cells=cells,
        label=_("GPUs of %(node)s") % {"node": row.name},
    )
    if not is_full and len({(cell.look, cell.levels) for cell in cells}) == 1:
        drawn.strip, drawn.cells = cells[0].levels, []
    return drawn


def _all_cells(row: NodeRow) -> Iterable[GpuCell]:
    found = {cell.index: cell for cell in row.gpus}
    for index in range(max(row.gpu_count, len(row.gpus))):
        yield found.get(index) or GpuCell(index, "unknown", None, None, None, "")


def _cell(row: NodeRow, cell: GpuCell) -> Cell:
    look = {"failed": " crit", "attention": " warn", "unknown": " none"}.get(cell.health, "")
    hbm = _level(cell.used_mib, cell.total_mib)
    clock = _level(cell.clock_mhz, TOP_CLOCK_MHZ)
    return Cell(look, hbm + clock, _cell_title(row.name, cell))


def _level(value: float | None, top: float | None) -> str:
    if value is None or not top:
        return "-"
    return str(min(LEVELS - 1, int(value / top * LEVELS)))


def _cell_title(name: str, cell: GpuCell) -> str:
    words = [f"{name} GPU {cell.index}"]
    if cell.clock_mhz is not None:
        words.append(f"SM {cell.clock_mhz:,.0f} MHz")
    if cell.used_mib is not None:
        words.append(f"HBM {cell.used_mib / 1024:.1f} GiB")
    if len(words) == 1:
        words.append(_("no reading"))
    return " · ".join(words)


def row_look(row: NodeRow) -> str:
    """Classes of a node line: pool tone, pattern of what happens to it, bracket, failure."""
    seat = row.seat
    words = [seat.tone if seat else SPARE_TONE]
    if row.hold:
        words.append("cordon")
    elif seat and seat.state in CHANGING:
        words.append("build")
    elif seat and seat.state not in RUNNING:
        words.append("off")
    if seat and seat.nodes > 1:
        words.append("pair")
    sign = row_sign(row)
    if sign and sign.tone == CRIT:
        words.append("bad")
    return " ".join(words)


def row_sign(row: NodeRow) -> Mark | None:
    """The one sign at the end of a node line: the worst thing that is known of it, or nothing."""
    seat = row.seat
    for is_so, machine, state in (
        (row.key_state == "changed", "key", row.key_state),
        (row.reach == "unreachable", "reach", row.reach),
        (row.state == "quarantined", "node", row.state),
        (seat is not None and seat.state in BROKEN, "replica", seat.state if seat else ""),
        (any(gpu.health == "failed" for gpu in row.gpus), "gpu", "failed"),
        (row.reach == "suspect", "reach", row.reach),
        (row.key_state == "unset", "key", row.key_state),
        (any(gpu.health == "attention" for gpu in row.gpus), "gpu", "attention"),
        (row.state == "probing", "node", row.state),
        (seat is not None and seat.state in CHANGING, "replica", seat.state if seat else ""),
    ):
        if is_so:
            return mark_of(machine, state)
    if row.hold:
        return CORDONED
    return mark_of("reach", "unknown") if row.reach == "unknown" else None


def _common_prefix(names: list[str]) -> str:
    """What every name begins with, up to the digits that tell them apart."""
    if len(names) < 2:
        return ""
    first, last = min(names), max(names)
    same = next(
        (n for n, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first)
    )
    return first[:same].rstrip("0123456789")


@dataclass(slots=True)
class PoolCard:
    """A pool as its card shows it: the big number, one segment a unit, what else counts."""

    slug: str
    name: str
    tone: str
    gpus: int
    big: int
    total: int
    is_spare: bool
    shape: str
    nodes_each: int
    segments: list[str]
    facts: list[tuple[str, str]]
    label: str


def pool_cards(pools: list[PoolSeen], rows: list[NodeRow]) -> list[PoolCard]:
    return [_spare_card(pool, rows) if pool.is_spare else _card(pool) for pool in pools]


def _card(pool: PoolSeen) -> PoolCard:
    ready = sum(1 for unit in pool.units if unit.state in RUNNING)
    counts = {
        _("promised"): pool.promised_units,
        _("changing"): sum(1 for unit in pool.units if unit.state in CHANGING),
        _("failed"): sum(1 for unit in pool.units if unit.state in BROKEN),
    }
    facts = [(word, str(number)) for word, number in counts.items() if number]
    return PoolCard(
        pool.slug, pool.name, pool.tone, len(pool.units) * pool.unit_gpus, ready, len(pool.units), False,
        pool.shape, pool.unit_nodes, [_segment(unit.state) for unit in pool.units], facts,
        _("%(ready)d of %(total)d ready") % {"ready": ready, "total": len(pool.units)},
    )  # fmt: skip


def _segment(state: str) -> str:
    if state in RUNNING:
        return "on"
    if state in CHANGING:
        return "run"
    return "crit" if state in BROKEN else "off"


def _spare_card(pool: PoolSeen, rows: list[NodeRow]) -> PoolCard:
    spares = [row for row in rows if row.seat is None]
    free = [row for row in spares if not row.hold and row.state == "ready" and row.reach == "ok"]
    segments = ["free" if row in free else "held" if row.hold else "off" for row in spares]
    facts = [(_("floor"), str(pool.spare_floor))]
    unready = len(spares) - len(free)
    if unready:
        facts.append((_("not ready"), str(unready)))
    return PoolCard(
        pool.slug, pool.name, pool.tone, sum(row.gpu_count for row in spares), len(free), len(spares), True,
        "", 1, segments, facts,
        _("%(free)d of %(total)d free") % {"free": len(free), "total": len(spares)},
    )  # fmt: skip
