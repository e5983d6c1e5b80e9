"""Spares are taken whole from one leaf, and the floor stays."""

import pytest

from fleet.rules.message import said
from fleet.rules.spares import SpareSeen, choose_spares

REFERENCE = tuple(
    SpareSeen(f"h100-{number:03d}", leaf)
    for number, leaf in ((7, 1), (8, 1), (23, 3), (24, 3), (39, 5), (40, 5))
)


def test_a_pair_comes_from_one_leaf_and_the_floor_stays():
    assert choose_spares(REFERENCE, 2, floor=3).nodes == ("h100-007", "h100-008")
    assert choose_spares(REFERENCE[:4], 2, floor=3).nodes == ()
    assert choose_spares(REFERENCE[:4], 2).nodes == ("h100-007", "h100-008")


@pytest.mark.parametrize(
    ("spares", "count"),
    [
        ((), 1),
        (REFERENCE[1:3], 2),
        (tuple(SpareSeen(s.name, s.leaf, "held") for s in REFERENCE), 2),
    ],
)
def test_a_refusal_is_a_sentence(spares, count):
    choice = choose_spares(spares, count)
    assert choice.nodes == ()
    assert said(choice.refusal)


def test_an_excluded_node_sends_the_pair_to_another_leaf():
    chosen = choose_spares(REFERENCE, 2, exclude=frozenset({"h100-007"}))
    assert chosen.nodes == ("h100-023", "h100-024")
