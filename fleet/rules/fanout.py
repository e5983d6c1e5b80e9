"""Which copies of a revision start next: source -> seeds of each leaf -> tree inside the leaf. Pure.

It is asked again at every tick and remembers nothing, so a parent that died needs no repair: its children are
wanting again and get another one. Source: 384-card manual, sections 4.2 and 12.8 (one download, at most N at once,
seeds per leaf, never a copy across leaves while the leaf has the files).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields

from fleet.rules.message import say

STORE = ""  # the parent of a copy that comes from the store itself
REGISTRY = "\0registry"  # what a container image is pulled from: no node is called so
OUTSIDE = (STORE, REGISTRY)
KIB = 1024


@dataclass(frozen=True)
class Limits:
    """How much may run at once, over one model's distribution.

    `link_mbps`: what one parent may send; `leaf_mbps`: what may go to the nodes of one leaf (megabytes a second).
    `store_per_leaf`: downloads from outside into one leaf, those of other models and of container images counted too
    (manual 12.8). Docker takes no limit of its rate, so that pulls are held by their number alone.
    """

    at_once: int = 8
    per_leaf: int = 4
    per_parent: int = 2
    seeds_per_leaf: int = 1
    store_per_leaf: int = 2
    link_mbps: float = 2500.0
    leaf_mbps: float = 2500.0

    def problems(self) -> list[str]:
        """Name each limit that cannot be kept, as sentences; empty when all can."""
        bounds = {
            "at_once": (1, 64),
            "per_leaf": (1, 32),
            "per_parent": (1, 8),
            "seeds_per_leaf": (1, 2),
            "store_per_leaf": (1, 8),
            "link_mbps": (1, 100_000),
            "leaf_mbps": (1, 100_000),
        }
        return [
            say(
                "%(name)s is %(found)s: expected %(low)s to %(high)s.",
                name=name,
                found=f"{getattr(self, name):g}",
                low=low,
                high=high,
            )
            for name, (low, high) in bounds.items()
            if not low <= getattr(self, name) <= high
        ]

    @classmethod
    def strictest(cls, several: Iterable[Limits]) -> Limits:
        """Return limits that keep every one of these; the usual ones where there are none."""
        found = list(several)
        if not found:
            return cls()
        return cls(**{one.name: min(getattr(it, one.name) for it in found) for one in fields(cls)})

    @property
    def copy_kibps(self) -> int:
        """Kibibytes a second for each copy, such that no link and no leaf can be exceeded by full ones."""
        share = min(self.link_mbps / self.per_parent, self.leaf_mbps / self.per_leaf)
        return max(1, int(share * 1_000_000 / KIB))


@dataclass(frozen=True)
class Copy:
    """One copy: `parent` serves (STORE or a node's name), `child` pulls."""

    parent: str
    child: str


@dataclass(frozen=True)
class Spread:
    """What is known when the next copies are chosen.

    `leaf_of`: every node named here -> its leaf. `holders`: nodes that hold the revision verified and answer now.
    `wanting`: nodes that still want it, without those that are being copied to. `paused`: leaf -> why nothing runs
    there now. `has_store`: the store serves as a source. `others`: copies of other models and pulls of images (from
    REGISTRY), which use the same links.
    `verifying`: nodes whose disk is being read: each may be a parent in a moment, so it counts as a seed of its leaf.
    """

    leaf_of: Mapping[str, int]
    holders: Collection[str]
    wanting: Collection[str]
    running: Collection[Copy] = ()
    dead: Collection[str] = ()
    paused: Mapping[int, str] = field(default_factory=dict)
    has_store: bool = False
    others: Collection[Copy] = ()
    verifying: Collection[str] = ()


@dataclass(frozen=True)
class Plan:
    """What to do now: copies to start, copies to end (parent dead, or leaf paused), and why the others wait."""

    start: tuple[Copy, ...] = ()
    stop: tuple[Copy, ...] = ()
    waiting: Mapping[str, str] = field(default_factory=dict)


def plan_copies(seen: Spread, limits: Limits) -> Plan:
    """Choose the next copies. A copy whose parent is dead is ended first; its child is served by a later call."""
    stop = tuple(
        copy
        for copy in seen.running
        if (copy.parent != STORE and copy.parent in seen.dead)
        or seen.leaf_of[copy.child] in seen.paused
    )
    board = _Board(seen, limits)
    start: list[Copy] = []
    waiting = {
        name: say("The node does not answer; it is served once it does.")
        for name in set(seen.wanting) & set(seen.dead)
    }
    for child in _in_turn(seen, limits):
        parent, why = board.parent_for(child)
        if parent is None:
            waiting[child] = why
            continue
        copy = Copy(parent, child)
        board.add(copy)
        start.append(copy)
    return Plan(tuple(start), stop, waiting)


def _in_turn(seen: Spread, limits: Limits) -> list[str]:
    """Wanting nodes, one of each leaf after the other, so that no leaf waits for another one to be full."""
    being_served = {copy.child for copy in seen.running}
    by_leaf: dict[int, list[str]] = {}
    for name in sorted(set(seen.wanting) - set(seen.holders) - being_served - set(seen.dead)):
        by_leaf.setdefault(seen.leaf_of[name], []).append(name)
    turns = [(place, leaf) for leaf, names in by_leaf.items() for place in range(len(names))]
    return [by_leaf[leaf][place] for place, leaf in sorted(turns)]


class _Board:
    """The copies that run or are about to, counted as the limits count them."""

    def __init__(self, seen: Spread, limits: Limits) -> None:
        self.seen, self.limits = seen, limits
        self.holders = sorted(set(seen.holders) - set(seen.dead))
        self.total = 0
        self.of_parent: Counter[str] = Counter()
        self.into_leaf: Counter[int] = Counter()
        self.seeds: Counter[int] = Counter()
        self.from_store: Counter[int] = Counter()
        for name in seen.verifying:
            self.seeds[seen.leaf_of[name]] += 1
        for copy in seen.others:
            self._count(copy)
        for copy in seen.running:
            self.add(copy)

    def _count(self, copy: Copy) -> None:
        self.total += 1
        self.of_parent[copy.parent] += 1
        leaf = self.seen.leaf_of[copy.child]
        self.into_leaf[leaf] += 1
        self.from_store[leaf] += copy.parent in OUTSIDE

    def add(self, copy: Copy) -> None:
        self._count(copy)
        leaf = self.seen.leaf_of[copy.child]
        self.seeds[leaf] += copy.parent == STORE or self.seen.leaf_of.get(copy.parent) != leaf

    def parent_for(self, child: str) -> tuple[str | None, str]:
        """Return the parent that serves this node next, or None and why it waits."""
        leaf, limits = self.seen.leaf_of[child], self.limits
        if leaf in self.seen.paused:
            return None, self.seen.paused[leaf]
        if self.total >= limits.at_once:
            return None, say("%(n)s copies run, as many as may at once.", n=self.total)
        if self.into_leaf[leaf] >= limits.per_leaf:
            return None, say(
                "%(n)s copies run into leaf %(leaf)s, as many as may.",
                n=self.into_leaf[leaf],
                leaf=leaf,
            )
        own = [name for name in self.holders if self.seen.leaf_of[name] == leaf]
        if own:
            return self._freest(own)
        if self.seeds[leaf] >= limits.seeds_per_leaf:
            return None, say("Waits for the seed of leaf %(leaf)s.", leaf=leaf)
        if self.seen.has_store and self.from_store[leaf] >= limits.store_per_leaf:
            return None, say(
                "%(n)s downloads run into leaf %(leaf)s, as many as may.",
                n=self.from_store[leaf],
                leaf=leaf,
            )
        return self._freest([STORE] if self.seen.has_store else self.holders)

    def _freest(self, parents: list[str]) -> tuple[str | None, str]:
        if not parents:
            return None, say("No source: no node that answers holds this revision verified.")
        parent = min(parents, key=lambda name: (self.of_parent[name], name))
        if self.of_parent[parent] >= self.limits.per_parent:
            return None, say("Every parent serves %(n)s already.", n=self.limits.per_parent)
        return parent, ""
