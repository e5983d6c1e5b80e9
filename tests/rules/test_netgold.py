"""A golden pair as keys with a tolerance; its versions compared key by key."""

import pytest

from fleet.rules.golden_changes import changes_between
from fleet.rules.message import said
from fleet.rules.netgold import key_words, keys_of, read_bar, unit_of

RAILS = {"mlx5_0": {"one": 391.6, "two": 783.2}}


def test_every_number_of_a_golden_pair_is_a_key_with_its_bar():
    keys = keys_of(388.004, RAILS, [[1, 388.0], [2, 380.5]], 0.9)
    assert [(one.key, one.value) for one in keys] == [
        ("busbw", 388.0), ("rail/mlx5_0/one", 391.6), ("rail/mlx5_0/two", 783.2),
        ("load/1", 388.0), ("load/2", 380.5),
    ]  # fmt: skip
    assert {(one.tolerance, one.ratio) for one in keys} == {("ratio", 0.9)}
    assert keys_of(None, {}, [], 0.9) == []


def test_keys_are_named_with_their_units():
    words = [said(key_words(key)) for key in ("busbw", "rail/mlx5_0/two", "load/1", "load/16")]
    assert words == ["Bus bandwidth", "mlx5_0, both ways", "Alone", "16 pairs at once"]
    assert (unit_of("rail/mlx5_0/one"), unit_of("load/2")) == ("Gb/s", "GB/s")


def test_another_bar_changes_every_key_and_another_curve_only_its_points():
    old = keys_of(388.0, RAILS, [[1, 388.0]], 0.95)
    assert len(changes_between(old, keys_of(388.0, RAILS, [[1, 388.0]], 0.9))) == len(old)
    (change,) = changes_between(old, keys_of(388.0, RAILS, [[1, 388.0], [2, 380.0]], 0.95))
    assert (change.key, change.before) == ("load/2", None)


@pytest.mark.parametrize(
    ("typed", "bar"),
    [("95", 0.95), (" 92.5 % ", 0.925), ("100", 1.0), ("49.9", None), ("101", None), ("nan", None),
     ("inf", None), ("", None), ("95,5", None)],
)  # fmt: skip
def test_a_bar_is_read_in_percent(typed, bar):
    assert read_bar(typed) == bar
