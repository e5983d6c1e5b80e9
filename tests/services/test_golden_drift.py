"""Which profile judges a node, and where the fleet differs from gold."""

import pytest
from django.db import IntegrityError, transaction

from fleet.models import Node
from fleet.rules.golden import EQUAL, FAIL, UNKNOWN, compare
from fleet.selectors.golden import drift_of, found_of, profile_for
from tests.factories import make_node, make_nodes
from tests.golden_profiles import NVLINK, make_facts, make_golden

pytestmark = pytest.mark.django_db


def seen(differences):
    return [(diff.key, diff.path, diff.verdict) for diff in differences]


def test_a_node_is_judged_by_the_current_profile_of_its_class():
    node = make_node()
    make_golden({}, version=1, is_current=False)
    assert profile_for(node) is None
    current = make_golden({}, version=2)
    make_golden({}, node_class="hgx-h200")
    make_golden({}, kind="pair")
    assert profile_for(node) == current


def test_a_profile_of_the_lab_never_judges_a_real_node_nor_the_other_way():
    lab = make_golden({}, origin="lab")
    real_node, lab_node = make_node("h100-001"), make_node("h100-002", origin="lab")
    assert profile_for(real_node) is None
    assert profile_for(lab_node) == lab
    real = make_golden({})
    assert (profile_for(real_node), profile_for(lab_node)) == (real, lab)


def test_a_class_has_one_current_profile():
    make_golden({}, version=1)
    with pytest.raises(IntegrityError), transaction.atomic():
        make_golden({}, version=2)


@pytest.mark.parametrize("row", [(1, "ratio"), (1, "ratio", {"ratio": 1.5}), (1, "range")])
def test_a_key_without_the_numbers_of_its_tolerance_is_not_stored(row):
    with pytest.raises(IntegrityError), transaction.atomic():
        make_golden({"gpu_count": row})


def test_the_drift_of_a_fleet_names_each_difference():
    same, off, old, silent = make_nodes(4)
    make_golden({"driver_version": ("570", "equal"), "nvlink_matrix": (NVLINK, "equal")})
    make_facts(same, driver_version="570", nvlink_matrix=NVLINK)
    make_facts(off, driver_version="565")
    torn = {"devices": ["GPU0", "GPU1"], "cells": [["X", "SYS"], ["NV18", "X"]]}
    make_facts(off, nvlink_matrix=torn)
    make_facts(old, driver_version="570", nvlink_matrix=NVLINK, is_expired=True)
    drift = drift_of([same, off, old, silent])
    assert drift[same.pk] == []
    assert seen(drift[off.pk]) == [("driver_version", "", FAIL), ("nvlink_matrix", "0.1", FAIL)]
    unknown = [("driver_version", "", UNKNOWN), ("nvlink_matrix", "", UNKNOWN)]
    assert seen(drift[old.pk]) == seen(drift[silent.pk]) == unknown
    assert drift_of([off]) == {off.pk: drift[off.pk]}


def test_a_node_without_a_profile_is_left_out_rather_than_called_equal():
    make_golden({}, node_class="hgx-h200")
    node = make_node()
    assert drift_of([node]) == {}


def test_a_larger_fleet_takes_no_more_queries(django_assert_num_queries):
    nodes = make_nodes(12)
    make_golden({"driver_version": ("570", "equal")})
    for node in nodes:
        make_facts(node, driver_version="570")
    with django_assert_num_queries(4):
        assert len(drift_of(nodes)) == 12


@pytest.mark.parametrize("is_expired", [False, True])
@pytest.mark.parametrize("gold", [8, True, "", "on", [1, {"a": None}], NVLINK])
def test_what_the_database_calls_equal_is_what_the_rule_calls_equal(gold, is_expired):
    for n, value in enumerate([8, 8.0, 1, True, "8", "", None, "on", [1, {"a": ""}], NVLINK]):
        make_facts(make_node(f"h100-{n + 1:03d}"), is_expired=is_expired, key=value)
    want = make_golden({"key": (gold, EQUAL)}).keys.get().wanted()
    nodes = list(Node.objects.all())
    assert drift_of(nodes) == {pk: compare([want], found) for pk, found in found_of(nodes).items()}
