"""What differs from gold is said; what is not known is unknown and never a pass."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fleet.rules.gather import commands_of
from fleet.rules.golden import (
    EQUAL,
    FAIL,
    IGNORE,
    RANGE,
    RATIO,
    TOLERANCES,
    UNKNOWN,
    Found,
    Wanted,
    compare,
)
from fleet.rules.golden_defaults import DEFAULTS, UNLISTED, tolerance_of
from fleet.rules.message import said
from fleet.rules.probe_reading import read_probe

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
VALUES = st.recursive(
    SCALARS, lambda part: st.lists(part) | st.dictionaries(st.text(), part), max_leaves=12
)
READINGS = VALUES.filter(lambda value: value not in (None, ""))
NVLINK = {
    "devices": ["GPU0", "GPU1", "GPU2"],
    "cells": [["X", "NV18", "NV18"], ["NV18", "X", "NV18"], ["NV18", "NV18", "X"]],
}
TOPO = {
    "columns": ["GPU0", "GPU1", "NIC0"],
    "nics": {"NIC0": "mlx5_0"},
    "rows": [
        {"name": "GPU0", "links": ["X", "NV18", "PIX"], "cpus": "0-51", "numa": "0"},
        {"name": "GPU1", "links": ["NV18", "X", "NODE"], "cpus": "52-103", "numa": "1"},
    ],
}


def one(value, found, tolerance=EQUAL, *, is_expired=False, **numbers):
    wanted = Wanted("key", value, tolerance, **numbers)
    return compare([wanted], {"key": Found(found, is_expired)})


def seen(differences):
    return [(diff.path, diff.expected, diff.found, diff.verdict) for diff in differences]


@given(READINGS)
def test_what_is_equal_never_differs(value):
    assert one(value, value) == []


@given(READINGS, st.sampled_from([EQUAL, RATIO, RANGE]))
def test_a_missing_reading_is_unknown_whatever_is_expected(value, tolerance):
    wanted = Wanted("key", value, tolerance, ratio=0.9, low=0)
    for found in ({}, {"key": Found(None, False)}, {"key": Found(value, True)}):
        assert [diff.verdict for diff in compare([wanted], found)] == [UNKNOWN]


@given(VALUES, VALUES, st.booleans())
def test_what_is_ignored_never_differs(value, found, is_expired):
    assert one(value, found, IGNORE, is_expired=is_expired) == []
    assert compare([Wanted("key", value, IGNORE)], {}) == []


@example([None, None], [[None, None]], "equal")
@given(VALUES, VALUES, st.sampled_from(TOLERANCES))
def test_no_reading_breaks_the_comparison_and_each_difference_is_a_sentence(
    value, found, tolerance
):
    for diff in one(value, found, tolerance, ratio=0.9, low=-1, high=1):
        assert diff.verdict in (FAIL, UNKNOWN)
        assert said(diff.text).startswith("key")


@given(st.floats(1, 1e9), st.floats(0.01, 1), st.floats(0, 2e9))
def test_a_ratio_is_a_floor_with_its_bar_inside(gold, ratio, found):
    assert bool(one(gold, found, RATIO, ratio=ratio)) == (found < ratio * gold)


@given(st.integers(-100, 100), st.integers(-100, 100), st.integers(-200, 200))
def test_a_range_has_both_bounds_inside(low, high, found):
    fails = bool(one(0, found, RANGE, low=low, high=high))
    assert fails == (not low <= found <= high)


@pytest.mark.parametrize(
    ("found", "numbers", "verdicts"),
    [
        (-1e9, {"high": 5}, []), (5, {"high": 5}, []), (6, {"high": 5}, [FAIL]),
        (1e9, {"low": 5}, []), (4, {"low": 5}, [FAIL]), (0, {}, [UNKNOWN]),
        ("N/A", {"low": 5}, [UNKNOWN]), (True, {"low": 0}, [UNKNOWN]), (float("nan"), {"low": 0}, [UNKNOWN]),
    ],
)  # fmt: skip
def test_an_open_side_lets_everything_through_and_no_number_is_unknown(found, numbers, verdicts):
    assert [diff.verdict for diff in one(0, found, RANGE, **numbers)] == verdicts


@pytest.mark.parametrize("gold", ["fast", None, True])
def test_a_ratio_of_what_is_no_number_is_unknown(gold):
    assert [diff.verdict for diff in one(gold, 3, RATIO, ratio=0.9)] == [UNKNOWN]


def test_a_profile_that_does_not_say_how_to_compare_is_unknown():
    assert [diff.verdict for diff in one(1, 1, "roughly")] == [UNKNOWN]
    assert [diff.verdict for diff in one(1, 1, RATIO)] == [UNKNOWN]


def test_true_is_not_one_but_a_whole_number_may_have_a_point():
    assert [diff.verdict for diff in one(1, True)] == [FAIL]
    assert one(8, 8.0) == []


def test_a_matrix_is_compared_cell_by_cell():
    found = {
        "devices": NVLINK["devices"],
        "cells": [["X", "NV18", "SYS"], ["NV18", "X", "NV18"], ["SYS", "NV18", ""]],
    }
    assert seen(one(NVLINK, found)) == [
        ("0.2", "NV18", "SYS", FAIL),
        ("2.0", "NV18", "SYS", FAIL),
        ("2.2", "X", "", UNKNOWN),
    ]


def test_a_matrix_of_another_shape_is_said_once():
    found = {"devices": ["GPU0", "GPU1"], "cells": [["X", "NV18"], ["NV18", "X"]]}
    (diff,) = one(NVLINK, found)
    assert said(diff.text) == "key: expected a shape of 3 × 3, found 2 × 2."
    assert (diff.path, diff.verdict) == ("", FAIL)


def test_a_matrix_of_other_devices_names_the_device():
    found = {**NVLINK, "devices": ["GPU0", "GPU7", "GPU2"]}
    assert seen(one(NVLINK, found)) == [("devices.1", "GPU1", "GPU7", FAIL)]


def test_a_topology_of_the_driver_is_a_matrix_too():
    found = {
        **TOPO,
        "rows": [TOPO["rows"][0], {"name": "GPU1", "links": ["SYS", "X", "NODE"], "cpus": "", "numa": "0"}],
    }  # fmt: skip
    assert seen(one(TOPO, found)) == [
        ("1.0", "NV18", "SYS", FAIL),
        ("1.cpus", "52-103", "", UNKNOWN),
        ("1.numa", "1", "0", FAIL),
    ]
    (diff,) = one(TOPO, {**TOPO, "rows": TOPO["rows"][:1]})
    assert said(diff.text) == "key: expected a shape of 2 × 3, found 1 × 3."


def test_a_list_and_the_parts_of_its_entries_have_paths():
    ports = [{"device": "mlx5_0", "rate_gbps": 400}, {"device": "mlx5_1", "rate_gbps": 400}]
    found = [ports[0], {"device": "mlx5_1", "rate_gbps": 200, "mtu": 1024}]
    assert seen(one(ports, found)) == [("1.rate_gbps", 400, 200, FAIL), ("1.mtu", None, 1024, FAIL)]
    assert seen(one(ports, ports[:1])) == [("", "2", "1", FAIL)]


def test_rows_of_unequal_width_are_another_shape():
    assert seen(one([[1, 2], [3, 4]], [[1, 2], [3]])) == [("", "2 × 2", "2", FAIL)]
    assert seen(one([[1], 2], [1, [2]])) == [("0", [1], 1, FAIL), ("1", 2, [2], FAIL)]


def test_words_of_a_node_cannot_pass_for_a_sentence():
    (diff,) = one("530", '%(a)s\x1f{"a": "forged"}')
    assert said(diff.text) == 'key: expected 530, found %(a)s {"a": "forged"}.'


def test_a_link_that_is_gone_fails_and_one_without_a_reading_is_unknown():
    assert seen(one({"rail0": 9000}, {})) == [("rail0", 9000, None, FAIL)]
    assert seen(one({"rail0": 9000}, {"rail0": None})) == [("rail0", 9000, None, UNKNOWN)]


def test_a_list_of_rates_is_judged_rate_by_rate():
    assert seen(one([400, 400], [399, 200], RATIO, ratio=0.9)) == [("1", 400, 200, FAIL)]


def test_cards_that_disagree_differ_from_one_word_for_all():
    (diff,) = one("96.00.89", {"0": "96.00.89", "3": "96.00.70"})
    assert (diff.path, diff.verdict) == ("", FAIL)


def test_a_ratio_says_its_bar():
    (diff,) = one(471.0, 400.0, RATIO, ratio=0.9)
    assert said(diff.text) == "key: expected at least 423.9 (0.9 of 471), found 400."


def test_every_key_that_a_probe_reads_has_a_tolerance_with_a_source():
    reading = read_probe({}, commands_of("/models"), "boot")
    assert {fact.key for fact in reading.facts} <= set(DEFAULTS)
    assert all(default.why for default in DEFAULTS.values())
    assert tolerance_of("nobody_knows_it") is UNLISTED


@pytest.mark.parametrize(("key", "default"), sorted(DEFAULTS.items()))
def test_a_default_carries_the_numbers_of_its_kind(key, default):
    assert default.tolerance in TOLERANCES
    assert (default.ratio is not None) == (default.tolerance == RATIO)
    assert (default.low is not None or default.high is not None) == (default.tolerance == RANGE)
