"""Copies rest on the leaves of a unit that serves badly, or of which nobody knows; nowhere else."""

from datetime import UTC, datetime, timedelta

import pytest

from fleet.rules.message import said
from releases.rules.pressure import UnitSeen, leaves_pressed
from releases.rules.triggers import ErrorReading, GoldenReading, Limits
from releases.rules.window import counted_since, window_add

WELL = GoldenReading("glm52-r1", 0, False, 5.0)
QUIET = ErrorReading(1000, 3, 2.0)
NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
SPAN = timedelta(seconds=300)


def pressed(golden=WELL, errors=QUIET, leaves=(1, 2)) -> dict[int, str]:
    found = leaves_pressed([UnitSeen(frozenset(leaves), golden, errors)], Limits())
    return {leaf: said(why) for leaf, why in found.items()}


@pytest.mark.parametrize(
    ("golden", "errors", "words"),
    [
        (GoldenReading("glm52-r1", 2, False, 5.0), QUIET, "glm52-r1: no answer 2 times"),
        (GoldenReading("glm52-r1", 3, True, 5.0), QUIET, "glm52-r1: wrong answer 3 times"),
        (WELL, ErrorReading(1000, 11, 2.0), "answers with errors: 1.1 %"),
        (GoldenReading("glm52-r1", 0, False, 61.0), QUIET, "was not asked lately"),
        (GoldenReading("glm52-r1", 0, False, None), QUIET, "was not asked lately"),
        (WELL, ErrorReading(1000, 3, 61.0), "was not read lately"),
        (WELL, ErrorReading(1000, 3, None), "was not read lately"),
    ],
)
def test_every_leaf_of_a_unit_in_breach_rests_and_says_why(golden, errors, words):
    found = pressed(golden, errors)
    assert set(found) == {1, 2}
    assert all(words in why for why in found.values())


@pytest.mark.parametrize("errors", [QUIET, ErrorReading(3, 0, 2.0), ErrorReading(0, 0, 2.0)])
def test_a_unit_that_serves_well_or_has_few_requests_lets_copies_run(errors):
    assert pressed(errors=errors) == {}


def test_one_miss_is_no_breach():
    assert pressed(GoldenReading("glm52-r1", 1, False, 5.0)) == {}


def test_counts_are_of_the_window_and_what_was_before_it_is_forgotten():
    samples: list = []
    for minute, errors in enumerate((50, 50, 50, 50, 50, 50, 52, 52)):
        counts = {"7": (1000 + 100 * minute, errors)}
        samples = window_add(samples, counts, NOON + timedelta(minutes=minute), SPAN)
    assert counted_since(samples, "7", 1700, 52) == (500, 2)
    later = NOON + timedelta(minutes=20)
    samples = window_add(samples, {"7": (1700, 52)}, later, SPAN)
    assert counted_since(samples, "7", 1700, 52) == (0, 0)
    assert counted_since(samples, "8", 90, 9) == (0, 0), "what was never sampled says nothing yet"
