"""Turns fleet rows into what the map draws: classes, levels, words. No queries here and none in the template."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from fleet.marks import CORDONED, CRIT, Mark, mark_of
from fleet.selectors.fleet import GpuCell, NodeRow, PoolSeen
from fleet.selectors.units import BROKEN, CHANGING, IN_DOUBT, RUNNING

# The levels of the map's scales: share of the memory, share of the highest clock an H100 SXM reaches.
LEVELS = 6
TOP_CLOCK_MHZ = 1980
# Above this many nodes each row is one link with a drawn strip; cells would weigh more than the page may.
FULL_ROWS = 96
SPARE_TONE = "psp"
NO_READING = GpuCell("unknown", None, None, None)


@dataclass(slots=True)
class Cell:
    look: str
    levels: str
    title: str = ""


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
    cells: list[Cell] = field(default_factory=list)
    label: str = ""
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
    """Cut the rows into blocks by leaf (racks inside), by rack or by pool."""
    pen = Pen(rows)
    key, draw = {
        "pool": (_pool_key, _pool_group),
        "rack": (_rack_key, _rack_group),
    }.get(group_by, (_leaf_key, _leaf_group))
    return [draw(list(some), pen) for _, some in groupby(sorted(rows, key=key), key=key)]


def _leaf_key(row: NodeRow) -> tuple:
    return (row.leaf,)


def _rack_key(row: NodeRow) -> tuple:
    return row.leaf, row.rack


def _pool_key(row: NodeRow) -> tuple:
    return (row.seat.pool if row.seat else "~",)


def _leaf_group(rows: list[NodeRow], pen: Pen) -> MapGroup:
    racks = [
        (rack, [pen.row(row) for row in some])
        for rack, some in groupby(rows, key=lambda row: row.rack)
    ]
    names = ngettext("rack %(names)s", "racks %(names)s", len(racks)) % {
        "names": ", ".join(rack for rack, _rows in racks)
    }
    number = rows[0].leaf
    title = _("Leaf %(number)s") % {"number": number}
    return MapGroup(f"leaf-{number}", title, names, _count(rows), [drawn for _rack, drawn in racks])


def _rack_group(rows: list[NodeRow], pen: Pen) -> MapGroup:
    first = rows[0]
    title = _("Rack %(name)s") % {"name": first.rack}
    detail = _("leaf %(number)s") % {"number": first.leaf}
    return MapGroup(
        f"rack-{first.rack}", title, detail, _count(rows), [[pen.row(row) for row in rows]]
    )


def _pool_group(rows: list[NodeRow], pen: Pen) -> MapGroup:
    seat = rows[0].seat
    key, title = (seat.pool, seat.pool_name) if seat else ("spare", _("Spare"))
    return MapGroup(key, title, "", _count(rows), [[pen.row(row) for row in rows]])


def _count(rows: list[NodeRow]) -> str:
    held = sum(1 for row in rows if row.hold)
    if held:
        return ngettext("%(n)d node held", "%(n)d nodes held", held) % {"n": held}
    return ngettext("%(n)d node", "%(n)d nodes", len(rows)) % {"n": len(rows)}


class Pen:
    """Draws node lines; what is the same for all of them is worked out once."""

    def __init__(self, rows: list[NodeRow]) -> None:
        self._cut = len(_common_prefix([row.name for row in rows]))
        self._is_full = len(rows) <= FULL_ROWS
        self._before, self._behind = reverse("node", args=["NODE"]).split("NODE")
        self._spare, self._label, self._none = _("spare"), _("GPUs of %(node)s"), _("no reading")

    def row(self, row: NodeRow) -> MapRow:
        seat, sign = row.seat, row_sign(row)
        cells = [*row.gpus, *[NO_READING] * (row.gpu_count - len(row.gpus))]
        drawn = MapRow(
            name=row.name,
            short=row.name[self._cut :] or row.name,
            url=f"{self._before}{row.name}{self._behind}",
            look=row_look(row, sign),
            unit=seat.unit if seat else self._spare,
            stage=f"s{seat.position}" if seat and seat.nodes > 1 else "",
            sign=sign,
        )
        looks = [cell_look(cell) for cell in cells]
        if self._is_full:
            drawn.label = self._label % {"node": row.name}
            drawn.cells = [
                Cell(look, levels, self._title(row.name, n, cells[n]))
                for n, (look, levels) in enumerate(looks)
            ]
            return drawn
        if len(set(looks)) == 1 and not looks[0][0]:
            drawn.strip = looks[0][1]
        else:
            drawn.cells = [Cell(*look) for look in looks]
        return drawn

    def _title(self, name: str, index: int, cell: GpuCell) -> str:
        words = [f"{name} GPU {index}"]
        if cell.clock_mhz is not None:
            words.append(f"SM {cell.clock_mhz:,.0f} MHz")
        if cell.used_mib is not None:
            words.append(f"HBM {cell.used_mib / 1024:.1f} GiB")
        return " · ".join(words if len(words) > 1 else [*words, self._none])


@lru_cache(maxsize=20_000)
def cell_look(cell: GpuCell) -> tuple[str, str]:
    """Return a cell's class and its two levels, of memory and of clock; a dash is no reading."""
    look = {"failed": " crit", "attention": " warn", "unknown": " none"}.get(cell.health, "")
    return look, _level(cell.used_mib, cell.total_mib) + _level(cell.clock_mhz, TOP_CLOCK_MHZ)


def _level(value: float | None, top: float | None) -> str:
    if value is None or not top:
        return "-"
    return str(min(LEVELS - 1, int(value / top * LEVELS)))


def row_look(row: NodeRow, sign: Mark | None) -> str:
    """Classes of a node line: pool tone, pattern of what happens to it, bracket, failure."""
    seat = row.seat
    words = [seat.tone if seat else SPARE_TONE]
    if row.hold:
        words.append("cordon")
    elif seat and seat.state in CHANGING:
        words.append("build")
    elif seat and seat.state not in RUNNING | IN_DOUBT:
        words.append("off")
    if seat and seat.nodes > 1:
        words.append("pair")
    if sign and sign.tone == CRIT:
        words.append("bad")
    return " ".join(words)


def row_sign(row: NodeRow) -> Mark | None:
    """The one sign at the end of a node line: the worst thing that is known of it, or nothing."""
    unit, healths = row.seat.state if row.seat else "", row.healths
    for is_so, machine, state in (
        (row.key_state == "changed", "key", row.key_state),
        (row.reach == "unreachable", "reach", row.reach),
        (row.state == "quarantined", "node", row.state),
        (unit in BROKEN, "replica", unit),
        ("failed" in healths, "gpu", "failed"),
        (unit in IN_DOUBT, "replica", unit),
        (row.reach == "suspect", "reach", row.reach),
        (row.key_state == "unset", "key", row.key_state),
        ("attention" in healths, "gpu", "attention"),
        (row.state in {"probing", "acceptance"}, "node", row.state),
        (unit in CHANGING, "replica", unit),
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
    pairs = enumerate(zip(first, last, strict=False))
    same = next((n for n, (a, b) in pairs if a != b), len(first))
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
    """Return the cards of all pools in their order; the spare pool's counts the nodes without a unit."""
    return [_spare_card(pool, rows) if pool.is_spare else _card(pool) for pool in pools]


def _card(pool: PoolSeen) -> PoolCard:
    ready = sum(1 for unit in pool.units if unit.state in RUNNING)
    counts = {
        _("promised"): pool.promised_units,
        _("changing"): sum(1 for unit in pool.units if unit.state in CHANGING),
        _("failed"): sum(1 for unit in pool.units if unit.state in BROKEN),
        _("in doubt"): sum(1 for unit in pool.units if unit.state in IN_DOUBT),
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
    if state in IN_DOUBT:
        return "warn"
    return "crit" if state in BROKEN else "off"


def _spare_segment(row: NodeRow) -> str:
    if row.hold:
        return "held"
    return "free" if row.state == "ready" and row.reach == "ok" else "off"


def _spare_card(pool: PoolSeen, rows: list[NodeRow]) -> PoolCard:
    spares = [row for row in rows if row.seat is None]
    segments = [_spare_segment(row) for row in spares]
    free = segments.count("free")
    facts = [(_("floor"), str(pool.spare_floor))]
    unready = len(spares) - free
    if unready:
        facts.append((_("not ready"), str(unready)))
    return PoolCard(
        pool.slug, _("Spare"), pool.tone, sum(row.gpu_count for row in spares), free, len(spares), True,
        "", 1, segments, facts,
        _("%(free)d of %(total)d free") % {"free": free, "total": len(spares)},
    )  # fmt: skip
