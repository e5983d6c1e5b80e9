"""Nodes that differ alike stand together, worst first."""

import pytest

from fleet.rules.golden import FAIL, UNKNOWN, Difference
from fleet.rules.golden_defaults import DEFAULTS
from fleet.rules.golden_folds import (
    GROUPS,
    OTHER,
    fold_drift,
    group_of,
    is_grave,
    place_words,
)
from fleet.views.topology import differing


def diff(key="driver_version", found="565", verdict=FAIL, path=""):
    return Difference(key, path, "570", found, "equal", verdict, "")


def test_alike_nodes_are_one_row_and_those_that_agree_come_last():
    rows = fold_drift(
        {
            "n1": [],
            "n2": [diff()],
            "n3": [],
            "n4": [diff()],
            "n5": [diff(found="550")],
            "n6": [diff(found="560", verdict=UNKNOWN)],
            "n7": [diff(found="561", verdict=UNKNOWN)],
            "n8": [diff(found=None, verdict=UNKNOWN)],
        }
    )
    assert [(row.nodes, row.verdict) for row in rows] == [
        (("n2", "n4"), FAIL),
        (("n5",), FAIL),
        (("n6", "n7"), UNKNOWN),
        (("n8",), UNKNOWN),
        (("n1", "n3"), ""),
    ]


def test_a_lost_card_stands_above_three_wrong_versions():
    software = [diff(), diff("kernel"), diff("os")]
    rows = fold_drift({"n1": software, "n2": [diff("gpu_count", 7)]})
    assert [row.nodes for row in rows] == [("n2",), ("n1",)]


def test_what_is_not_known_is_never_grave():
    assert is_grave(diff("gpu_count", 7))
    assert not is_grave(diff("gpu_count", None, UNKNOWN))
    assert not is_grave(diff("driver_version"))


def test_the_cells_that_differ_are_the_paths_of_their_key():
    found = [diff("nvlink_matrix", path="0.2"), diff("nvlink_matrix", path="2.0"), diff("topo")]
    assert set(differing(found)) == {("nvlink_matrix", "0.2"), ("nvlink_matrix", "2.0")}


@pytest.mark.parametrize(
    ("value", "path", "words"),
    [
        ({"devices": ["GPU0", "GPU1"], "cells": []}, "0.1", "GPU0 GPU1"),
        ({"gpus": ["GPU0"], "nics": ["mlx5_0", "mlx5_1"], "cells": []}, "0.1", "GPU0 mlx5_1"),
        ({"columns": ["GPU0", "NIC0"], "rows": [{"name": "GPU0"}]}, "0.1", "GPU0 NIC0"),
        ({"columns": ["GPU0"], "rows": [{"name": "GPU0"}]}, "0.numa", "GPU0 numa"),
        ({"devices": ["GPU0"], "cells": []}, "7.1", "7.1"),
        ({"devices": ["GPU0"], "cells": []}, "0.9", "0.9"),
        ({"rail0": 9000}, "rail0", "rail0"),
        ([1, 2], "1.rate", "1.rate"),
        ([{"device": "mlx5_0"}], "0.rate_gbps", "mlx5_0 rate_gbps"),
        ([{"device": "mlx5_0"}], "4.rate_gbps", "4.rate_gbps"),
    ],
)
def test_a_place_is_named_by_its_heads(value, path, words):
    assert place_words(value, path) == words


def test_every_compared_key_of_the_table_has_a_group():
    compared = {key for key, rule in DEFAULTS.items() if rule.tolerance != "ignore"}
    assert {key for key in compared if group_of(key) == OTHER} == set()
    assert set(GROUPS) >= {group_of("gpu_count"), group_of("disk_read_gbs")}
