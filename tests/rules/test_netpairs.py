"""Pairing: each pair once, no node twice a round; and telling a bad node from a bad path."""

from collections import Counter
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.rules import netpairs
from fleet.rules.message import said
from fleet.rules.netpairs import Measured, Pair, Station

BAR = 0.95


def fleet(*sizes: int) -> list[Station]:
    """Leaves of these sizes, filled in order."""
    numbers = iter(range(1, 1000))
    return [
        Station(f"h100-{next(numbers):03d}", leaf)
        for leaf, size in enumerate(sizes, start=1)
        for _ in range(size)
    ]


sizes = st.lists(st.integers(min_value=1, max_value=9), min_size=1, max_size=5)


@settings(max_examples=80, deadline=None)
@given(sizes, st.one_of(st.none(), st.integers(min_value=1, max_value=4)))
def test_every_pair_stands_exactly_once_and_no_node_twice_a_round(leaves, bound):
    stations = fleet(*leaves)
    rounds = netpairs.plan_rounds(stations, pairs_per_leaf=bound)
    for pairs in rounds:
        names = [name for pair in pairs for name in pair.names]
        assert len(names) == len(set(names))
        if bound is not None:
            load = Counter(leaf for pair in pairs for leaf in {pair.a.leaf, pair.b.leaf})
            assert max(load.values()) <= bound
    seen = Counter(frozenset(pair.names) for pairs in rounds for pair in pairs)
    assert seen == Counter(frozenset((a.name, b.name)) for a, b in combinations(stations, 2))


@given(sizes)
def test_pairs_of_one_leaf_come_first(leaves):
    kinds = [p.topology for pairs in netpairs.plan_rounds(fleet(*leaves)) for p in pairs]
    assert kinds == sorted(kinds, key=netpairs.TOPOLOGIES.index)


def test_a_full_fleet_needs_seven_rounds_inside_its_leaves_and_forty_across():
    rounds = netpairs.plan_rounds(fleet(*[8] * 6))
    assert len(rounds) == 7 + 5 * 8
    assert {len(pairs) for pairs in rounds} == {24}


@pytest.mark.parametrize(
    ("bound", "rounds_inside", "rounds_across"),
    [(8, 7, 40), (4, 7, 80), (2, 14, 160), (1, 28, 320)],
)
def test_48_nodes_with_few_pairs_a_leaf_take_the_fewest_rounds(bound, rounds_inside, rounds_across):
    """Six leaves of eight: 28 pairs in each, 64 between each two of 15; a pair across loads two leaves."""
    rounds = netpairs.plan_rounds(fleet(*[8] * 6), pairs_per_leaf=bound)
    inside = [pairs for pairs in rounds if pairs[0].topology == netpairs.SAME_LEAF]
    assert (len(inside), len(rounds) - len(inside)) == (rounds_inside, rounds_across)
    assert sum(map(len, rounds)) == 48 * 47 // 2
    for pairs in rounds:
        assert len({pair.topology for pair in pairs}) == 1
        load = Counter(leaf for pair in pairs for leaf in {pair.a.leaf, pair.b.leaf})
        assert max(load.values()) <= bound


def test_of_48_nodes_a_slow_one_and_a_slow_path_are_named_after_the_rounds_of_one_leaf():
    stations = fleet(*[8] * 6)
    bad, path = {"h100-030"}, {frozenset(("h100-017", "h100-022"))}
    rounds = netpairs.plan_rounds(stations, pairs_per_leaf=4)[:7]
    results = measure([pair for pairs in rounds for pair in pairs], bad, path)
    assert len(results) == 6 * 28
    assert netpairs.plan_repairs(stations, results, BAR) == [], "seven partners each are enough"
    found = netpairs.judge_suspects(results, BAR)
    assert [(one.kind, set(one.nodes)) for one in found] == [
        (netpairs.NODE, bad),
        (netpairs.PATH, {"h100-017", "h100-022"}),
    ]


@given(sizes)
def test_all_at_once_uses_no_node_twice_and_crosses_the_spine_when_there_is_one(leaves):
    pairs = netpairs.plan_together(fleet(*leaves))
    names = [name for pair in pairs for name in pair.names]
    assert len(names) == len(set(names))
    if len(leaves) > 1:
        assert {pair.topology for pair in pairs} == {netpairs.CROSS_LEAF}


@st.composite
def faulty_fleets(draw):
    """A fleet with a few bad nodes and a few bad paths between good ones."""
    stations = fleet(*draw(st.lists(st.integers(4, 8), min_size=2, max_size=3)))
    names = [one.name for one in stations]
    bad_nodes = draw(st.sets(st.sampled_from(names), max_size=2))
    good = [name for name in names if name not in bad_nodes]
    order = draw(st.permutations(good))
    count = draw(st.integers(0, 2))
    bad_paths = {frozenset(order[2 * n : 2 * n + 2]) for n in range(count)}
    return stations, bad_nodes, bad_paths


def measure(pairs, bad_nodes, bad_paths) -> list[Measured]:
    rows = []
    for pair in pairs:
        is_bad = bad_nodes & {*pair.names} or frozenset(pair.names) in bad_paths
        rows.append(Measured(*pair.names, 0.6 if is_bad else 1.0))
    return rows


@settings(max_examples=120, deadline=None)
@given(faulty_fleets())
def test_a_bad_node_and_a_bad_path_are_told_apart(case):
    stations, bad_nodes, bad_paths = case
    rounds = netpairs.plan_rounds(stations)
    found = netpairs.judge_suspects(
        measure([p for pairs in rounds for p in pairs], bad_nodes, bad_paths), BAR
    )
    by_kind = {
        kind: {frozenset(s.nodes) for s in found if s.kind == kind} for kind in ("node", "path")
    }
    assert by_kind["node"] == {frozenset((name,)) for name in bad_nodes}
    assert by_kind["path"] == bad_paths
    assert not [s for s in found if s.kind == netpairs.OPEN]


@settings(max_examples=120, deadline=None)
@given(faulty_fleets())
def test_one_round_and_the_repairs_it_asks_for_are_enough(case):
    stations, bad_nodes, bad_paths = case
    results = measure(netpairs.plan_rounds(stations)[0], bad_nodes, bad_paths)
    for _ in range(4):
        repairs = netpairs.plan_repairs(stations, results, BAR)
        for pairs in repairs:
            names = [name for pair in pairs for name in pair.names]
            assert len(names) == len(set(names))
        results += measure([p for pairs in repairs for p in pairs], bad_nodes, bad_paths)
    found = netpairs.judge_suspects(results, BAR)
    tested = {name for one in results for name in (one.a, one.b)}
    convicted = {s.nodes[0] for s in found if s.kind == netpairs.NODE}
    has_good = any(one.ratio == 1.0 for one in results)
    assert convicted <= bad_nodes, "nobody is blamed for another one's fault"
    if has_good:
        assert convicted == bad_nodes & tested
    assert {frozenset(s.nodes) for s in found if s.kind == netpairs.PATH} <= bad_paths


def test_the_sentence_says_who_is_fast_with_whom():
    rows = [
        Measured("n1", "n2", 0.8),
        Measured("n1", "n3", 1.0),
        Measured("n2", "n4", 0.99),
    ]
    (path,) = netpairs.judge_suspects(rows, BAR)
    assert (path.kind, path.nodes) == (netpairs.PATH, ("n1", "n2"))
    assert said(path.why).startswith("n1 is fast with n3, and n2 with n4; slow only together")
    (node,) = netpairs.judge_suspects(
        [*rows[1:], Measured("n5", "n1", 0.8), Measured("n5", "n2", 0.8)], BAR
    )
    assert (node.kind, node.nodes) == (netpairs.NODE, ("n5",))
    assert "the node is the cause" in said(node.why)


def test_a_slow_pair_alone_is_open_until_each_side_had_a_known_good_partner():
    stations = fleet(4)
    rows = [Measured("h100-001", "h100-002", 0.8), Measured("h100-003", "h100-004", 1.0)]
    assert [s.kind for s in netpairs.judge_suspects(rows, BAR)] == [netpairs.OPEN]
    repairs = [p.names for pairs in netpairs.plan_repairs(stations, rows, BAR) for p in pairs]
    assert {a for a, _ in repairs} == {"h100-001", "h100-002"}
    assert {b for _, b in repairs} == {"h100-003", "h100-004"}


def test_a_pair_without_a_ratio_proves_nothing():
    rows = [Measured("n1", "n2", None), Measured("n1", "n3", 0.5)]
    assert [s.kind for s in netpairs.judge_suspects(rows, BAR)] == [netpairs.OPEN]
    assert netpairs.plan_repairs(fleet(3), rows, BAR) == []


def test_the_last_measurement_of_a_pair_counts():
    rows = [Measured("n1", "n2", 0.5), Measured("n2", "n1", 0.99)]
    assert netpairs.judge_suspects(rows, BAR) == []


def test_the_ranking_is_worst_first_and_the_unmeasured_last():
    rows = [Measured("n1", "n2", 0.8), Measured("n1", "n3", 0.9), Measured("n2", "n3", 1.0)]
    ranks = netpairs.rank_nodes(["n1", "n2", "n3", "n4"], rows)
    assert [r.name for r in ranks] == ["n1", "n2", "n3", "n4"]
    assert (ranks[0].worst, ranks[3].median) == (0.8, None)


def test_a_ratio_needs_both_numbers():
    assert netpairs.golden_ratio(190.0, 200.0) == 0.95
    assert netpairs.golden_ratio(None, 200.0) is None
    assert netpairs.golden_ratio(190.0, None) is None


def test_a_pair_knows_its_topology():
    assert Pair(Station("a", 1), Station("b", 2)).topology == netpairs.CROSS_LEAF
