"""How a distribution is drawn: leaf by leaf, its seed, and every node with its shards, rate and time left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from django.utils.translation import gettext as _

from fleet.marks import Mark, mark_of
from fleet.models import Holding, WeightsArtefact
from fleet.rules import holdings
from fleet.rules.message import said
from fleet.templatetags.figures import span_words

CELLS = 48
DEPTH_MAX = 4
AT_WORK = (holdings.WANTED, holdings.VERIFYING, holdings.COPYING)


@dataclass(frozen=True)
class NodeDrawn:
    """One node of the tree. `cells`: one class a cell; rate in MB/s, None where nothing is copied."""

    holding: Holding
    mark: Mark
    depth: int
    cells: list[str]
    verified: int
    files: int
    bytes_verified: int
    verified_size: str
    size: str
    percent: int
    file_now: str
    rate: float | None
    left_s: float | None
    left: str
    explanation: str
    findings: list[str]
    may_heal: bool
    may_verify: bool

    @property
    def name(self) -> str:
        return self.holding.node.name

    @property
    def is_ready(self) -> bool:
        return self.holding.state == holdings.READY

    @property
    def parent(self) -> str:
        return self.holding.parent.name if self.holding.parent else ""


@dataclass
class LeafDrawn:
    """The nodes of one leaf: its seeds first, each with its children below it."""

    number: int
    nodes: list[NodeDrawn] = field(default_factory=list)

    @property
    def ready(self) -> int:
        return sum(node.holding.state == holdings.READY for node in self.nodes)

    @property
    def is_done(self) -> bool:
        return self.ready == len(self.nodes)

    @property
    def rate(self) -> float | None:
        rates = [node.rate for node in self.nodes if node.rate is not None]
        return sum(rates) if rates else None

    @property
    def has_failed(self) -> bool:
        return any(node.holding.state == holdings.FAILED for node in self.nodes)

    @property
    def mark(self) -> Mark:
        if self.is_done:
            return mark_of("holding", holdings.READY)
        state = holdings.FAILED if self.has_failed else holdings.COPYING
        busy = any(node.holding.state in AT_WORK for node in self.nodes)
        return mark_of("holding", state if busy or self.has_failed else holdings.CANCELLED)

    @property
    def seeds(self) -> list[str]:
        """Nodes that got it from another leaf, or had it."""
        return [node.name for node in self.nodes if node.depth == 0]


def leaves_drawn(artefact: WeightsArtefact, rows: Sequence[Holding]) -> list[LeafDrawn]:
    """Draw the tree of these nodes, leaf by leaf."""
    leaves: dict[int, LeafDrawn] = {}
    names = [row["name"] for row in artefact.manifest]
    for row in rows:
        number = row.node.rack.leaf.number
        leaves.setdefault(number, LeafDrawn(number))
    for number, leaf in leaves.items():
        own = [row for row in rows if row.node.rack.leaf.number == number]
        leaf.nodes = [_node(artefact, names, row, depth) for row, depth in _ordered(own)]
    return [leaves[number] for number in sorted(leaves)]


def _ordered(rows: Sequence[Holding]) -> list[tuple[Holding, int]]:
    """Parents before their children; a loop of old parents ends at nodes that were shown."""
    by_id = {row.node_id: row for row in rows}
    children: dict[int | None, list[Holding]] = {}
    for row in rows:
        is_inside = row.parent_id in by_id and row.parent_id != row.node_id
        children.setdefault(row.parent_id if is_inside else None, []).append(row)
    found: list[tuple[Holding, int]] = []
    seen: set[int] = set()

    def add(some: Sequence[Holding], depth: int) -> None:
        for row in some:
            if row.node_id not in seen:
                seen.add(row.node_id)
                found.append((row, min(depth, DEPTH_MAX)))
                add(children.get(row.node_id, []), depth + 1)

    add(children.get(None, []), 0)
    add(rows, 0)  # what only a loop reaches
    return found


def _node(artefact: WeightsArtefact, names: list[str], row: Holding, depth: int) -> NodeDrawn:
    bad = {one.get("name") for one in row.findings if one.get("kind") != "extra"}
    is_ready = row.state == holdings.READY
    needs = set(row.needs) if row.needs is not None else set(names)
    is_busy = row.state in (*AT_WORK, holdings.PAUSED)
    sizes = {one["name"]: int(one.get("size") or 0) for one in artefact.manifest}
    left_s = _left_s(artefact, row)
    bytes_verified = sum(size for name, size in sizes.items() if is_ready or name not in needs)
    return NodeDrawn(
        holding=row,
        mark=mark_of("holding", row.state),
        depth=depth,
        cells=_cells(artefact, names, row, bad, needs),
        verified=len(names) if is_ready else len(names) - len(needs & set(names)),
        files=len(names),
        bytes_verified=bytes_verified,
        verified_size=size_words(bytes_verified),
        size=size_words(artefact.total_bytes),
        percent=100 * bytes_verified // artefact.total_bytes if artefact.total_bytes else 0,
        file_now=row.file_now if row.state == holdings.COPYING else "",
        rate=None if row.bytes_per_s is None else row.bytes_per_s / 1e6,
        left_s=left_s,
        left="" if left_s is None else span_words(left_s),
        explanation=said(row.explanation, _),
        findings=[said(str(one.get("text", "")), _) for one in row.findings],
        may_heal=not is_busy and not is_ready,
        may_verify=not is_busy,
    )


def _cells(
    artefact: WeightsArtefact, names: list[str], row: Holding, bad: set[Any], needs: set[str]
) -> list[str]:
    """Classes of the bar, each cell an equal part of the manifest's bytes in its order: verified, on its way, bad,
    or nothing yet. What has arrived is told by bytes and the file that is written now by name: neither is verified.
    """
    count = min(CELLS, len(names))
    if not count:
        return []
    if row.state == holdings.READY:
        return ["ok"] * count
    share = (row.bytes_done or 0) / artefact.total_bytes if artefact.total_bytes else 0.0
    arrived = int(share * count) if row.state == holdings.COPYING else 0
    now = {row.file_now} if row.state == holdings.COPYING else set()
    is_all_new = len(needs) == len(names)
    cells = []
    for place, part in enumerate(_parts(artefact, count)):
        if part & bad and not is_all_new:
            cells.append("warn")
        elif row.needs is not None and not part & needs:
            cells.append("ok")
        elif part & now or place < arrived or row.state == holdings.VERIFYING:
            cells.append("run")
        else:
            cells.append("")
    return cells


def _parts(artefact: WeightsArtefact, count: int) -> list[set[str]]:
    """Return the files of which each of so many equal parts of the manifest's bytes has some."""
    total = artefact.total_bytes or 1
    parts: list[set[str]] = [set() for _place in range(count)]
    start = 0
    for one in artefact.manifest:
        end = start + int(one.get("size") or 0)
        first = min(start * count // total, count - 1)
        last = min(max(end - 1, start) * count // total, count - 1)
        for part in parts[first : last + 1]:
            part.add(one["name"])
        start = end
    return parts


def _left_s(artefact: WeightsArtefact, row: Holding) -> float | None:
    """Return how long the copy takes at the rate of its last reading; None when there is none."""
    if row.state != holdings.COPYING or not row.bytes_per_s or row.bytes_done is None:
        return None
    return (artefact.total_bytes - row.bytes_done) / row.bytes_per_s


def progress_drawn(artefact: WeightsArtefact, nodes: Sequence[NodeDrawn]) -> dict[str, Any]:
    """Return how far a distribution is: verified bytes of all, copies under way with the longest time left, who waits.

    There is no forecast of the whole: what waits has no rate yet.
    """
    total = artefact.total_bytes * len(nodes)
    verified = sum(node.bytes_verified for node in nodes)
    left = [node.left_s for node in nodes if node.left_s is not None]
    states = Counter(node.holding.state for node in nodes)
    return {
        "percent": 100 * verified // total if total else 0,
        "verified": size_words(verified),
        "total": size_words(total),
        "copying": states[holdings.COPYING],
        "verifying": states[holdings.VERIFYING],
        "waiting": states[holdings.WANTED] + states[holdings.PAUSED],
        "left": span_words(max(left)) if left else "",
    }


def size_words(count: int) -> str:
    """Return bytes as a person reads them (decimal, as weights are told): 755.3 GB, 1.2 MB."""
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} B"
