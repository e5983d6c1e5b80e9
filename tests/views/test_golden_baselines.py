"""Baselines of a profile: where each node stands on the line, which are beyond the bar, which have no reading."""

import pytest

from fleet.models import GoldenKey
from fleet.views.golden_baselines import EDGE, WIDTH, baselines_drawn


def key(name="allreduce_busbw_gbs", value=470.0, tolerance="ratio", **fields) -> GoldenKey:
    return GoldenKey(key=name, value=value, tolerance=tolerance, unit="GB/s", **fields)


def drawn(one: GoldenKey, values: dict[str, float], nodes: int = 4):
    return baselines_drawn([one], {one.key: values}, nodes)[0]


def test_a_node_below_the_ratio_is_an_outlier_with_its_name_and_the_others_are_dots():
    row = drawn(key(ratio=0.95), {"a": 471.0, "b": 469.0, "c": 400.0})
    assert row.outlier_names == "c"
    assert [tip for _x, tip in row.outliers] == ["c: 400 GB/s"]
    assert [tip for _x, _line, tip in row.dots] == ["a: 471 GB/s", "b: 469 GB/s"]
    assert (row.low, row.middle, row.high, row.bar, row.missing) == (
        "400",
        "469",
        "471",
        "446.5",
        1,
    )


def test_places_run_from_the_least_to_the_most_inside_the_line():
    row = drawn(key(ratio=0.5), {"a": 500.0, "b": 470.0})
    assert row.bars_x == [EDGE]
    assert max(x for x, _line, _tip in row.dots) == WIDTH - EDGE
    assert EDGE < row.golden_x < WIDTH - EDGE


def test_both_sides_of_a_range_are_bars():
    row = drawn(key(tolerance="range", low=460.0, high=480.0), {"a": 481.0, "b": 470.0, "c": 1.0})
    assert row.outlier_names == "c, a"
    assert len(row.bars_x) == 2


def test_equal_numbers_stand_in_the_middle_and_divide_by_nothing():
    row = drawn(key(tolerance="range", low=470.0), {"a": 470.0})
    assert row.golden_x == WIDTH / 2


@pytest.mark.parametrize(
    ("one", "values"),
    [
        (key(value="570.1", ratio=0.9), {"a": 1.0}),
        (key(value=True, ratio=0.9), {"a": 1.0}),
        (key(tolerance="ignore"), {"a": 1.0}),
        (key(tolerance="equal"), {"a": 1.0}),
        (key(ratio=0.9), {}),
    ],
)
def test_what_is_no_number_with_a_bar_or_was_read_nowhere_is_not_drawn(one, values):
    assert baselines_drawn([one], {one.key: values}, 2) == []
