"""Which readings may be gold, and what a person may say of a key."""

import pytest

from fleet.rules.golden import EQUAL, IGNORE, RANGE, RATIO, Found, Wanted
from fleet.rules.golden_edit import (
    BadKey,
    KeyEdit,
    edited,
    take_problems,
    wanted_of,
)
from fleet.rules.message import said

GOOD = {
    "gpu_count": Found(8, False),
    "gpu_name": Found("H100", False),
    "driver_version": Found("570", False),
    "shm_used": Found(1, True),
}


def problems(changes=None, *, left_out=(), gpu_count=8):
    found = {**GOOD, **(changes or {})}
    found = {key: reading for key, reading in found.items() if reading is not None}
    return [said(text) for text in take_problems(found, gpu_count, left_out)]


def test_a_node_whose_readings_are_good_has_no_problem_even_when_ignored_ones_are_old():
    assert problems() == []


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"driver_version": None}, "driver_version: no reading"),
        ({"vbios": Found(None, False)}, "vbios: no reading"),
        ({"gpu_numa": Found([0], True)}, "gpu_numa: the reading has expired"),
        ({"vbios": Found({"0": "a", "3": "b"}, False)}, "vbios: the cards disagree"),
        ({"gpu_count": Found(7, False)}, "gpu_count: expected 8, found 7"),
    ],
)
def test_every_reading_that_cannot_be_gold_is_named(changes, told):
    assert problems(changes) == [told]


def test_a_key_may_be_left_out_knowingly_but_not_what_says_the_cards():
    assert problems({"vbios": Found(None, False)}, left_out=["vbios"]) == []
    assert problems({"driver_version": None}, left_out=["driver_version"]) != []


def test_a_profile_takes_what_has_a_value_with_the_tolerance_of_the_table():
    found = {**GOOD, "allreduce_busbw_gbs": Found(471.0, False), "vbios": Found("", False)}
    rows = {want.key: (want.tolerance, want.ratio) for want in wanted_of(found, ["gpu_name"])}
    assert rows == {
        "allreduce_busbw_gbs": (RATIO, 0.9),
        "driver_version": (EQUAL, None),
        "gpu_count": (EQUAL, None),
        "shm_used": (IGNORE, None),
    }


def test_a_change_of_tolerance_takes_its_numbers_and_drops_the_others():
    rate = Wanted("rate", 471.0, RATIO, ratio=0.9)
    assert edited(rate, KeyEdit(RATIO, ratio="0.95")).ratio == 0.95
    ranged = edited(rate, KeyEdit(RANGE, ratio="0.5", low="400"))
    assert (ranged.ratio, ranged.low, ranged.high) == (None, 400.0, None)
    assert edited(rate, KeyEdit(EQUAL, ratio="0.5")) == Wanted("rate", 471.0, EQUAL)


@pytest.mark.parametrize(
    ("value", "typed", "found"),
    [("570", " 575 ", "575"), (8, "16", 16), (1.5, "2.25", 2.25), (True, "false", False)],
)
def test_a_value_keeps_its_kind(value, typed, found):
    changed = edited(Wanted("key", value, EQUAL), KeyEdit(EQUAL, value=typed))
    assert changed.value == found
    assert type(changed.value) is type(value)


@pytest.mark.parametrize(
    ("want", "edit", "told"),
    [
        (Wanted("k", 1, EQUAL), KeyEdit("roughly"), "expected one of equal, ratio, range, ignore"),
        (Wanted("k", 1, EQUAL), KeyEdit(RATIO), "expected a ratio above 0"),
        (Wanted("k", 1, EQUAL), KeyEdit(RATIO, ratio="1.5"), "expected a ratio above 0"),
        (Wanted("k", 1, EQUAL), KeyEdit(RATIO, ratio="nan"), "expected a number, found nan"),
        (Wanted("k", 1, EQUAL), KeyEdit(RANGE), "expected a lowest or a highest value"),
        (Wanted("k", 1, EQUAL), KeyEdit(RANGE, low="3", high="2"), "a lowest value below"),
        (Wanted("k", "570", EQUAL), KeyEdit(RATIO, ratio="0.9"), "is no number"),
        (Wanted("k", [1, "a"], EQUAL), KeyEdit(RANGE, low="0"), "is no number"),
        (Wanted("k", True, EQUAL), KeyEdit(RANGE, low="0"), "is no number"),
        (Wanted("k", [1], EQUAL), KeyEdit(EQUAL, value="2"), "a list or a matrix is not typed"),
        (Wanted("k", True, EQUAL), KeyEdit(EQUAL, value="2"), "expected true or false, found 2"),
        (Wanted("k", 1, EQUAL), KeyEdit(EQUAL, value="eight"), "expected a number, found eight"),
        (Wanted("k", "a", EQUAL), KeyEdit(EQUAL, value="  "), "expected a value of 1 to 200"),
    ],
)  # fmt: skip
def test_a_change_that_cannot_be_says_what_was_expected(want, edit, told):
    with pytest.raises(BadKey, match=told):
        edited(want, edit)


def test_a_list_of_numbers_may_have_a_ratio():
    assert edited(Wanted("k", [400, 400], EQUAL), KeyEdit(RATIO, ratio="0.9")).ratio == 0.9
