"""Triggers judged from readings: two misses fire, silence is no data, few requests prove nothing."""

from dataclasses import asdict

import pytest

from fleet.rules.message import said
from releases.rules import triggers as rules
from releases.rules.triggers import ErrorReading, GoldenReading

LIMITS = rules.Limits()


@pytest.mark.parametrize(
    ("readings", "state"),
    [
        ((), "no_data"),
        ((GoldenReading("r1", 0, False, 5.0),), "quiet"),
        ((GoldenReading("r1", 1, True, 5.0),), "quiet"),
        ((GoldenReading("r1", 2, True, 5.0),), "fired"),
        ((GoldenReading("r1", 0, False, None),), "no_data"),
        ((GoldenReading("r1", 0, False, 5.0), GoldenReading("r2", 0, False, 600.0)), "no_data"),
        ((GoldenReading("r1", 0, False, 600.0), GoldenReading("r2", 3, False, 5.0)), "fired"),
    ],
)
def test_the_golden_trigger(readings, state):
    judged = rules.judge_golden(readings, LIMITS)
    assert judged.state == state
    assert said(judged.found)


@pytest.mark.parametrize(
    ("reading", "state"),
    [
        (None, "no_data"),
        (ErrorReading(0, 0, 5.0), "no_data"),
        (ErrorReading(19, 0, 5.0), "no_data"),
        (ErrorReading(200, 0, 5.0), "quiet"),
        (ErrorReading(200, 2, 5.0), "quiet"),
        (ErrorReading(200, 3, 5.0), "fired"),
        (ErrorReading(5, 4, 5.0), "fired"),
        (ErrorReading(5, 1, 5.0), "no_data"),
        (ErrorReading(200, 50, 600.0), "no_data"),
    ],
)
def test_the_error_trigger(reading, state):
    judged = rules.judge_errors(reading, LIMITS)
    assert judged.state == state
    assert said(judged.found)


def test_few_requests_are_no_reading_that_stopped():
    golden = rules.judge_golden((), LIMITS)
    few, silent = (rules.judge_errors(one, LIMITS) for one in (ErrorReading(3, 0, 5.0), None))
    assert [rules.unread([asdict(one)]) for one in (golden, few, silent)] == [
        ("golden",),
        (),
        ("error_rate",),
    ]
