"""Which nodes are tested with which, in what order, and what slow pairs say about nodes and paths. Pure.

A pair is slow beside the golden pair of its own topology, never beside a universal number (manual A 4.4).
Not in charge of what one pair measured (netverdict.py).
"""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TypeVar

from fleet.rules.message import say

SAME_LEAF, CROSS_LEAF = "same-leaf", "cross-leaf"
TOPOLOGIES = (SAME_LEAF, CROSS_LEAF)
NODE, PATH, OPEN = "node", "path", "open"
# Re-pairing names the side that is at fault with the second partner; the third settles a tie.
PARTNERS_WANTED = 2
T = TypeVar("T")


@dataclass(frozen=True)
class Station:
    """A node and the number of the leaf switch it hangs on."""

    name: str
    leaf: int


@dataclass(frozen=True)
class Pair:
    """Two nodes that are tested together; `a` starts the client, `b` the server."""

    a: Station
    b: Station

    @property
    def names(self) -> tuple[str, str]:
        return self.a.name, self.b.name

    @property
    def topology(self) -> str:
        """The kind of way between them: two pairs are only compared within one kind."""
        return SAME_LEAF if self.a.leaf == self.b.leaf else CROSS_LEAF


@dataclass(frozen=True)
class Measured:
    """One pair's ratio to its golden pair; None when it is not known. A failed test is a ratio of 0."""

    a: str
    b: str
    ratio: float | None


@dataclass(frozen=True)
class Suspect:
    """A finding about one node, one path between two, or a slow pair that is still open; `why` is a sentence."""

    kind: str
    nodes: tuple[str, ...]
    why: str


@dataclass(frozen=True)
class Rank:
    """One node's place: median and worst ratio of its measured pairs; None when none was measured."""

    name: str
    median: float | None
    worst: float | None
    pairs: int


def topology_of(leaf_a: int, leaf_b: int) -> str:
    """Return the kind of way between two leaves."""
    return SAME_LEAF if leaf_a == leaf_b else CROSS_LEAF


def plan_rounds(
    stations: Iterable[Station], *, pairs_per_leaf: int | None = None
) -> list[list[Pair]]:
    """Return rounds in which every pair stands exactly once and no node twice a round.

    Pairs of one leaf come first: they need no spine, and what fails there fails everywhere. A pair across two
    leaves counts for both; `pairs_per_leaf` bounds how many pairs a leaf carries at once.
    """
    by_leaf: dict[int, list[Station]] = defaultdict(list)
    for station in sorted(stations, key=lambda one: (one.leaf, one.name)):
        by_leaf[station.leaf].append(station)
    inner = [list(_circle(members)) for members in by_leaf.values()]
    rounds = [[pair for part in parts for pair in part or ()] for parts in zip_longest(*inner)]
    for leaves in _circle(sorted(by_leaf)):
        crossings = [list(_across(by_leaf[one], by_leaf[other])) for one, other in leaves]
        rounds += [
            [pair for part in parts for pair in part or ()] for parts in zip_longest(*crossings)
        ]
    made = [[Pair(a, b) for a, b in pairs] for pairs in rounds if pairs]
    if pairs_per_leaf is None:
        return made
    return [part for pairs in made for part in _thinned(pairs, max(1, pairs_per_leaf))]


def plan_together(stations: Iterable[Station]) -> list[Pair]:
    """Return pairs that load the fabric at once, each node at most once, across leaves where there are several.

    Only traffic across leaves shows an oversubscribed spine (manual A 4.4, layer 4).
    """
    rounds = plan_rounds(stations)
    crossing = [pairs for pairs in rounds if any(pair.topology == CROSS_LEAF for pair in pairs)]
    return max(crossing or rounds, key=len, default=[])


def _circle(members: Sequence[T]) -> Iterator[list[tuple[T, T]]]:
    """The circle method: the first stays, the others turn; an odd number leaves one out a round."""
    seats: list[T | None] = [*members, None] if len(members) % 2 else [*members]
    half = len(seats) // 2
    for _ in range(len(seats) - 1):
        pairs = []
        for one, other in zip(seats[:half], reversed(seats[half:]), strict=True):
            if one is not None and other is not None:
                pairs.append((one, other))
        yield pairs
        seats = [seats[0], seats[-1], *seats[1:-1]]


def _across(
    one: Sequence[Station], other: Sequence[Station]
) -> Iterator[list[tuple[Station, Station]]]:
    width = max(len(one), len(other))
    for shift in range(width):
        pairs = ((at, (at + shift) % width) for at in range(width))
        yield [(one[a], other[b]) for a, b in pairs if a < len(one) and b < len(other)]


def _thinned(pairs: list[Pair], most: int) -> Iterator[list[Pair]]:
    """Split one round so that no leaf carries more than `most` pairs at once."""
    left = pairs
    while left:
        load: Counter[int] = Counter()
        taken, later = [], []
        for pair in left:
            leaves = {pair.a.leaf, pair.b.leaf}
            if all(load[leaf] < most for leaf in leaves):
                load.update(leaves)
                taken.append(pair)
            else:
                later.append(pair)
        yield taken
        left = later


def golden_ratio(measured: float | None, golden: float | None) -> float | None:
    """Return measured / golden; None when either is missing, because missing is not zero."""
    return None if measured is None or not golden else measured / golden


class _Evidence:
    """Who was slow and who was good with whom. A pair measured again counts as it was measured last."""

    def __init__(self, results: Iterable[Measured], bar: float) -> None:
        newest: dict[frozenset[str], Measured] = {}
        for one in results:
            if one.ratio is not None:
                newest[frozenset((one.a, one.b))] = one
        self.good: dict[str, set[str]] = defaultdict(set)
        self.slow: dict[str, set[str]] = defaultdict(set)
        self.slow_pairs = []
        for one in newest.values():
            assert one.ratio is not None
            side = self.good if one.ratio >= bar else self.slow
            side[one.a].add(one.b)
            side[one.b].add(one.a)
            if one.ratio < bar:
                self.slow_pairs.append((one.a, one.b))

    def is_good(self, name: str) -> bool:
        """Whether a node was fast with anybody."""
        return bool(self.good[name])

    def slow_with_good(self, name: str) -> set[str]:
        """Partners that are fast with others and slow with this one: what they cannot be blamed for."""
        return {other for other in self.slow[name] if self.is_good(other)}

    def is_at_fault(self, name: str) -> bool:
        """Slow with at least two, one of them known good, and more often slow with good ones than fast."""
        blamed = self.slow_with_good(name)
        return (
            bool(blamed)
            and len(self.slow[name]) >= PARTNERS_WANTED
            and len(blamed) > len(self.good[name])
        )


def judge_suspects(results: Iterable[Measured], bar: float) -> list[Suspect]:
    """Tell nodes from paths: slow with others too is the node, slow only together is the way between the two.

    `bar` is the ratio to the golden pair below which a pair is slow. A slow pair that the results cannot decide is
    open, and plan_repairs() says whom to test it with.
    """
    evidence = _Evidence(results, bar)
    at_fault = sorted(name for name in list(evidence.slow) if evidence.is_at_fault(name))
    found = [Suspect(NODE, (name,), _node_why(evidence, name)) for name in at_fault]
    for a, b in sorted(evidence.slow_pairs):
        if a in at_fault or b in at_fault:
            continue
        if evidence.is_good(a) and evidence.is_good(b):
            found.append(Suspect(PATH, (a, b), _path_why(evidence, a, b)))
        else:
            found.append(Suspect(OPEN, (a, b), _open_why(evidence, a, b)))
    return found


def plan_repairs(
    stations: Iterable[Station], results: Sequence[Measured], bar: float
) -> list[list[Pair]]:
    """Return rounds that test each side of an open slow pair with a known-good partner, same leaf first.

    Empty when nothing is open, or when no known-good node is left to test with.
    """
    evidence = _Evidence(results, bar)
    by_name = {one.name: one for one in stations}
    done = {frozenset((one.a, one.b)) for one in results}
    good = [one for one in by_name.values() if evidence.is_good(one.name)]
    wanted: dict[str, None] = {}
    for suspect in judge_suspects(results, bar):
        if suspect.kind == OPEN:
            wanted.update(dict.fromkeys(n for n in suspect.nodes if not evidence.is_good(n)))
    left = []
    used: Counter[str] = Counter()
    for name in wanted:
        if name not in by_name:
            continue
        here = by_name[name]
        free = [one for one in good if one.name != name and frozenset((name, one.name)) not in done]
        free.sort(key=lambda one: (one.leaf != here.leaf, used[one.name], one.name))
        for partner in free[:PARTNERS_WANTED]:
            used[partner.name] += 1
            left.append(Pair(here, partner))
    return _disjoint(left)


def _disjoint(pairs: list[Pair]) -> list[list[Pair]]:
    rounds: list[list[Pair]] = []
    for pair in pairs:
        place = next(
            (row for row in rounds if not {n for p in row for n in p.names} & {*pair.names}), None
        )
        if place is None:
            rounds.append([pair])
        else:
            place.append(pair)
    return rounds


def rank_nodes(names: Iterable[str], results: Iterable[Measured]) -> list[Rank]:
    """Return nodes worst first; a node without a measured pair stands at the end, not at the top."""
    ratios: dict[str, list[float]] = defaultdict(list)
    for one in results:
        if one.ratio is not None:
            ratios[one.a].append(one.ratio)
            ratios[one.b].append(one.ratio)
    ranks = [_rank(name, ratios.get(name, [])) for name in names]
    return sorted(
        ranks,
        key=lambda r: (r.median is None, r.median or 0.0, r.worst or 0.0, r.name),
    )


def _rank(name: str, ratios: Sequence[float]) -> Rank:
    if not ratios:
        return Rank(name, None, None, 0)
    return Rank(name, statistics.median(ratios), min(ratios), len(ratios))


def _node_why(evidence: _Evidence, name: str) -> str:
    blamed = sorted(evidence.slow_with_good(name))
    witness = blamed[0]
    return say(
        "%(node)s is slow with %(count)s partners; %(witness)s is slow with it and fast with %(other)s:"
        " the node is the cause. Look at its ports and cables.",
        node=name,
        count=len(evidence.slow[name]),
        witness=witness,
        other=min(evidence.good[witness]),
    )


def _path_why(evidence: _Evidence, a: str, b: str) -> str:
    return say(
        "%(a)s is fast with %(c)s, and %(b)s with %(d)s; slow only together: the path between them is the cause."
        " Look at the links of the leaves between the two.",
        a=a,
        b=b,
        c=min(evidence.good[a]),
        d=min(evidence.good[b]),
    )


def _open_why(evidence: _Evidence, a: str, b: str) -> str:
    unproved = " + ".join(name for name in (a, b) if not evidence.is_good(name))
    return say(
        "%(a)s + %(b)s are slow, and %(unproved)s was fast with nobody yet: test it with a known-good node.",
        a=a,
        b=b,
        unproved=unproved,
    )
