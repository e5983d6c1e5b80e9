"""Two versions of a profile are told apart key by key."""

from fleet.rules.golden import Wanted
from fleet.rules.golden_changes import changes_between

OLD = [
    Wanted("driver_version", "570", "equal"),
    Wanted("nvlink_matrix", {"cells": [["X", "NV18"], ["NV18", "X"]]}, "equal"),
    Wanted("rate", 471.0, "ratio", ratio=0.9),
]


def test_equal_versions_have_no_changes():
    assert changes_between(OLD, list(reversed(OLD))) == []


def test_a_value_a_tolerance_a_new_and_a_gone_key_are_each_a_change():
    new = [
        Wanted("driver_version", "575", "equal"),
        Wanted("nvlink_matrix", {"cells": [["X", "SYS"], ["NV18", "X"]]}, "equal"),
        Wanted("vbios", "96", "equal"),
        Wanted("zeta", 1, "equal"),
    ]
    found = {change.key: change for change in changes_between(OLD, new)}
    assert list(found) == ["driver_version", "nvlink_matrix", "rate", "vbios", "zeta"]
    assert (found["driver_version"].before, found["driver_version"].after) == (OLD[0], new[0])
    assert found["nvlink_matrix"].cells == 1
    assert found["rate"].after is None
    assert found["vbios"].before is None


def test_another_tolerance_of_the_same_value_changes_no_cell():
    (change,) = changes_between([OLD[2]], [Wanted("rate", 471.0, "ratio", ratio=0.95)])
    assert change.cells == 0
