"""Who stopped first: the rank that lags by its numbers, else the only one that is silent."""

import pytest

from runbooks.rules.lag import WatchdogSeen, judge_lag
from runbooks.rules.run import PASSED, STEP_FAILED, UNKNOWN


def seen(timed_out=(), behind=()) -> WatchdogSeen:
    return WatchdogSeen(frozenset(timed_out), frozenset(behind))


@pytest.mark.parametrize(
    ("found", "state", "rank"),
    [
        (seen(), UNKNOWN, None),
        (seen(set(range(16)) - {11}), STEP_FAILED, 11),
        (seen(set(range(16)) - {0}), STEP_FAILED, 0),
        (seen(range(16)), PASSED, None),
        (seen(range(8)), UNKNOWN, None),
        (seen({1, 2}, behind={5}), STEP_FAILED, 5),
        (seen(behind={5}), STEP_FAILED, 5),
        (seen(range(16), behind={3, 5}), UNKNOWN, None),
    ],
)
def test_the_suspect_is_named_only_when_there_is_one(found, state, rank):
    lag = judge_lag(found, world_size=16)
    assert (lag.state, lag.rank) == (state, rank)
    assert lag.explanation
