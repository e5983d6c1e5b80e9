"""Spares are taken whole from one leaf, the floor stays, and a refusal names what is in the way and what is near."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.rules.message import said
from fleet.rules.spares import SpareSeen, Wanted, choose_spares, layout_of, revisions_of

HELD = "glm-5.2-fp8/" + "3" * 40
REFERENCE = tuple(
    SpareSeen(f"h100-{number:03d}", leaf, (), "gold", frozenset({HELD}))
    for number, leaf in ((7, 1), (8, 1), (23, 3), (24, 3), (39, 5), (40, 5))
)


def changed(name: str, spares=REFERENCE, **fields) -> tuple[SpareSeen, ...]:
    return tuple(replace(one, **fields) if one.name == name else one for one in spares)


def told(choice) -> str:
    return "\n".join(map(said, choice.refusals))


def test_a_pair_comes_from_one_leaf_and_the_floor_stays():
    assert choose_spares(REFERENCE, Wanted(2, HELD, floor=3)).nodes == ("h100-007", "h100-008")
    refused = choose_spares(REFERENCE[:4], Wanted(2, HELD, floor=3))
    assert refused.nodes == ()
    assert "4 spares can be used, 2 are needed and 3 must stay." in told(refused)
    assert choose_spares(REFERENCE[:4], Wanted(2, HELD)).nodes == ("h100-007", "h100-008")


def test_one_node_comes_from_the_leaf_that_has_most_so_that_the_rest_stay_spread():
    assert choose_spares(REFERENCE[1:], Wanted(1, HELD)).nodes == ("h100-023",)


def test_an_excluded_node_sends_the_pair_to_another_leaf():
    chosen = choose_spares(REFERENCE, Wanted(2, HELD, exclude=frozenset({"h100-007"})))
    assert chosen.nodes == ("h100-023", "h100-024")


def test_without_any_spare_it_says_so():
    assert "No spare can be used; 1 are needed." in told(choose_spares((), Wanted(1)))


def test_each_constraint_is_named_and_the_nearest_pair_too():
    spares = changed("h100-008", REFERENCE[:3], refusals=("h100-008 is held by ana: fans",))
    spares = changed("h100-023", spares, revisions=frozenset())
    refused = choose_spares(spares, Wanted(2, HELD))
    text = told(refused)
    assert "h100-008 is held by ana: fans" in text
    assert f"h100-023 does not hold {HELD}; distribute it first." in text
    assert (
        "No leaf has 2 spares of one layout that can be used; there are h100-007 (leaf 1)." in text
    )
    assert text.endswith("Nearest: h100-[007-008] on leaf 1, once what is said of them is mended.")


def test_two_good_nodes_on_two_leaves_are_near_but_not_taken():
    text = told(choose_spares(REFERENCE[1:3], Wanted(2, HELD)))
    assert text.endswith("Nearest: h100-[008,023], but on leaves 1, 3.")


def test_rails_that_differ_make_no_pair():
    text = told(choose_spares(changed("h100-008", REFERENCE[:2], layout="other"), Wanted(2, HELD)))
    assert text.endswith("Nearest: h100-[007-008] on leaf 1, but their topologies differ.")


@pytest.mark.parametrize(
    ("field", "words"),
    [("layout", "its topology was not read; probe it."), ("revisions", "its models were not read; probe it.")],
)  # fmt: skip
def test_what_was_not_read_is_not_taken(field, words):
    spares = changed("h100-007", REFERENCE[:2], **{field: None})
    refused = choose_spares(spares, Wanted(2, HELD))
    assert refused.nodes == ()
    assert f"h100-007: {words}" in told(refused)


def test_a_unit_of_one_node_needs_no_topology_and_no_revision_when_none_is_named():
    bare = (SpareSeen("h100-007", 1),)
    assert choose_spares(bare, Wanted(1)).nodes == ("h100-007",)


def test_layouts_are_equal_only_when_all_that_hangs_is():
    topo = {"rows": [{"name": "GPU0", "links": ["X", "NV18"], "numa": "0"}]}
    other = {"rows": [{"name": "GPU0", "links": ["X", "NV18"], "numa": "1"}]}
    assert layout_of(topo) == layout_of(dict(topo)) != layout_of(other)
    assert layout_of(None) is None


def test_revisions_are_directories_below_the_model_root():
    marks = [{"directory": f"/models/{HELD}"}, {"directory": "/elsewhere/x/y"}]
    assert revisions_of(marks, "/models/") == {HELD}
    assert revisions_of([], "/models") == frozenset()
    assert revisions_of(None, "/models") is None


@st.composite
def fleets(draw):
    count = draw(st.integers(0, 12))
    return tuple(
        SpareSeen(
            f"h100-{number:03d}",
            draw(st.integers(1, 3)),
            draw(st.sampled_from([(), ("held",)])),
            draw(st.sampled_from(["gold", "other", None])),
            draw(st.sampled_from([frozenset({HELD}), frozenset(), None])),
        )
        for number in range(count)
    )


@given(fleets(), st.integers(1, 4), st.integers(0, 4))
def test_what_is_chosen_meets_every_constraint_and_a_refusal_says_something(spares, count, floor):
    choice = choose_spares(spares, Wanted(count, HELD, floor=floor))
    assert bool(choice.nodes) != bool(choice.refusals)
    if choice.nodes:
        chosen = [one for one in spares if one.name in choice.nodes]
        assert len(chosen) == count
        assert len({one.leaf for one in chosen}) == 1
        assert all(not one.refusals and one.revisions == {HELD} for one in chosen)
        if count > 1:
            assert {one.layout for one in chosen} in ({"gold"}, {"other"})
        assert sum(not one.refusals for one in spares) - count >= floor


def ranked(**ranks: int) -> tuple[SpareSeen, ...]:
    """Two nodes on leaf 1 and three on leaf 2, all fit; the named ones are no accepted ones."""
    leaves = {"a1": 1, "a2": 1, "b1": 2, "b2": 2, "b3": 2}
    return tuple(
        SpareSeen(
            name, leaf, (), "gold", frozenset({HELD}), ranks.get(name, 0),
            f"{name} is marginal" if name in ranks else "",
        )
        for name, leaf in leaves.items()
    )  # fmt: skip


def test_accepted_nodes_are_taken_before_marginal_ones_also_from_a_smaller_leaf():
    assert choose_spares(ranked(), Wanted(2, HELD)).nodes == ("b1", "b2"), "the largest leaf"
    one_left = choose_spares(ranked(b1=1), Wanted(2, HELD))
    assert (one_left.nodes, one_left.remarks) == (("b2", "b3"), ())
    other_leaf = choose_spares(ranked(b1=1, b2=1), Wanted(2, HELD))
    assert (other_leaf.nodes, other_leaf.remarks) == (("a1", "a2"), ())


def test_a_marginal_node_is_taken_where_no_better_one_is_and_that_is_said():
    choice = choose_spares(ranked(a1=1, b1=1, b2=1), Wanted(2, HELD))
    assert (choice.nodes, choice.remarks) == (("b3", "b1"), ("b1 is marginal",))
    worst = choose_spares(ranked(a1=1, b1=2, b2=2), Wanted(2, HELD))
    assert worst.nodes == ("a2", "a1"), "the worst node of a unit counts"
