"""Which spare nodes a unit may take: whole, on one leaf, of one layout, and never below the floor where that holds.

Pure. A refusal names each constraint that stands in the way and the nearest nodes that would do without it.
Source: MISSION 4 and law 4 (spare floor), manual A 3.3 (one NVSwitch node a TP group, both stages on one leaf with
the same rails and the same GPU/NIC/NUMA map, spares spread over leaves, pools apart).
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from fleet.rules.message import say
from fleet.rules.nodeset import fold_nodeset

_ACROSS = 2  # a pair over two leaves is farther away than one whose node has one thing against it


@dataclass(frozen=True)
class SpareSeen:
    """A node without a unit.

    `refusals`: why it may not be used at all. `layout`: which cards, NICs and NUMA nodes hang together, as a digest.
    `revisions`: model directories that it holds verified. None of either: not read, or too long ago. `rank`: 0 for
    an accepted node, more for one that is taken only where no better one is; `remark` says why.
    """

    name: str
    leaf: int
    refusals: tuple[str, ...] = ()
    layout: str | None = None
    revisions: frozenset[str] | None = None
    rank: int = 0
    remark: str = ""


def layout_of(topo: Any) -> str | None:
    """Return a digest of what hangs where on a node from its `topo` fact; None when it was not read.

    Equal digests: the same links between cards, the same NIC and the same NUMA node beside each card.
    """
    if not topo:
        return None
    return sha256(json.dumps(topo, sort_keys=True).encode()).hexdigest()


def revisions_of(models: Any, model_root: str) -> frozenset[str] | None:
    """Return the verified model directories (slug/revision) of a node from its `models` fact; None: not read."""
    if models is None:
        return None
    head = model_root.rstrip("/") + "/"
    found = (str(row["directory"]) for row in models)
    return frozenset(path.removeprefix(head) for path in found if path.startswith(head))


@dataclass(frozen=True)
class Wanted:
    """How many nodes, the model directory (slug/revision) that each must hold, usable spares that must stay, and
    names that are not taken."""

    count: int
    revision: str = ""
    floor: int = 0
    exclude: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Choice:
    """Names of the chosen nodes, with what is to be said of them; or none, each constraint that is not met, and the
    nearest alternative last.
    """

    nodes: tuple[str, ...]
    refusals: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


def choose_spares(spares: Iterable[SpareSeen], wanted: Wanted) -> Choice:
    """Choose nodes of one leaf and one layout: the best accepted ones that there are, and among equals from the leaf
    that has most of them, so that the rest stay spread.
    """
    offered = sorted(
        (one for one in spares if one.name not in wanted.exclude), key=lambda one: one.name
    )
    against = {one.name: _against(one, wanted) for one in offered}
    fitting = [one for one in offered if not against[one.name]]
    groups = _groups(fitting, wanted)
    whole = [group for group in groups if len(group) >= wanted.count]
    # What must stay is counted in nodes that could take work, whatever revision they hold.
    usable = sum(not one.refusals for one in offered)
    if whole and usable - wanted.count >= wanted.floor:
        best = min((group[: wanted.count] for group in whole), key=_worth)
        remarks = tuple(one.remark for one in best if one.remark)
        return Choice(tuple(one.name for one in best), remarks=remarks)
    unmet = [*_floor(usable, wanted), *_said(offered, against)]
    if not whole:
        unmet.append(_scattered(groups, wanted))
    return Choice((), (*unmet, *_nearest(offered, against, wanted)))


def _against(one: SpareSeen, wanted: Wanted) -> list[str]:
    """What stands against one node, each a sentence that names it."""
    found = list(one.refusals)
    if wanted.revision and one.revisions is None:
        found.append(
            say("%(node)s: its models were not read; probe it.", node=one.name),
        )
    elif wanted.revision and wanted.revision not in (one.revisions or ()):
        found.append(lacks(one.name, wanted.revision))
    if wanted.count > 1 and one.layout is None:
        found.append(say("%(node)s: its topology was not read; probe it.", node=one.name))
    return found


def lacks(node: str, revision: str) -> str:
    """Say that a node does not hold a revision."""
    return say(
        "%(node)s does not hold %(revision)s; distribute it first.", node=node, revision=revision
    )


def _groups(fitting: list[SpareSeen], wanted: Wanted) -> list[list[SpareSeen]]:
    """Nodes that may stand in one unit: of one leaf, and of one layout where there are several. Largest first, in
    each the best accepted first.
    """
    groups: defaultdict[tuple[int, str], list[SpareSeen]] = defaultdict(list)
    for one in fitting:
        groups[one.leaf, (one.layout or "") if wanted.count > 1 else ""].append(one)
    return [
        sorted(groups[key], key=lambda one: one.rank)
        for key in sorted(groups, key=lambda key: (-len(groups[key]), key))
    ]


def _worth(nodes: list[SpareSeen]) -> list[int]:
    """Order sets of nodes: the worst node of one counts first, as a unit is as good as that."""
    return sorted((one.rank for one in nodes), reverse=True)


def _floor(usable: int, wanted: Wanted) -> list[str]:
    if usable - wanted.count >= wanted.floor:
        return []
    return [
        say(
            "%(usable)s spares can be used, %(count)s are needed and %(floor)s must stay.",
            usable=usable,
            count=wanted.count,
            floor=wanted.floor,
        )
    ]


def _said(offered: list[SpareSeen], against: dict[str, list[str]]) -> list[str]:
    return [sentence for one in offered for sentence in against[one.name]]


def _scattered(groups: list[list[SpareSeen]], wanted: Wanted) -> str:
    if not groups:
        return say("No spare can be used; %(count)s are needed.", count=wanted.count)
    return say(
        "No leaf has %(count)s spares of one layout that can be used; there are %(found)s.",
        count=wanted.count,
        found=", ".join(_group_words(group) for group in groups),
    )


def _group_words(group: list[SpareSeen]) -> str:
    return f"{fold_nodeset(one.name for one in group)} (leaf {group[0].leaf})"


def _nearest(
    offered: list[SpareSeen], against: dict[str, list[str]], wanted: Wanted
) -> Iterable[str]:
    """Name the nodes that would do if the least were mended: of one leaf, or of several when that is nearer."""
    leaves: defaultdict[int, list[SpareSeen]] = defaultdict(list)
    easiest = sorted(offered, key=lambda one: (len(against[one.name]), one.name))
    for one in easiest:
        leaves[one.leaf].append(one)
    sets = [nodes[: wanted.count] for nodes in leaves.values() if len(nodes) >= wanted.count]
    if len(leaves) > 1 and len(easiest) >= wanted.count > 1:
        sets.append(easiest[: wanted.count])
    if not sets:
        return
    best = min(sets, key=lambda nodes: (_distance(nodes, against), nodes[0].name))
    names = fold_nodeset(one.name for one in best)
    missing = sum(len(against[one.name]) for one in best)
    numbers = sorted({one.leaf for one in best})
    if len(numbers) > 1:
        yield say(
            "Nearest: %(nodes)s, but on leaves %(leaves)s.",
            nodes=names,
            leaves=", ".join(map(str, numbers)),
        )
    elif missing:
        yield say(
            "Nearest: %(nodes)s on leaf %(leaf)s, once what is said of them is mended.",
            nodes=names,
            leaf=numbers[0],
        )
    elif len({one.layout for one in best}) > 1:
        yield say(
            "Nearest: %(nodes)s on leaf %(leaf)s, but their topologies differ.",
            nodes=names,
            leaf=numbers[0],
        )


def _distance(nodes: list[SpareSeen], against: dict[str, list[str]]) -> int:
    is_across = len({one.leaf for one in nodes}) > 1
    return sum(len(against[one.name]) for one in nodes) + _ACROSS * is_across
