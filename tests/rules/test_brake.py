from datetime import UTC, datetime, timedelta

import pytest

from fleet.rules.brake import Turned, judge

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)


def turned(count: int, seconds_ago: float = 10) -> list[Turned]:
    since = NOW - timedelta(seconds=seconds_ago)
    return [Turned(f"n{number:02d}", since) for number in range(count)]


@pytest.mark.parametrize(
    ("total", "bad", "is_pulled"),
    [(48, 4, False), (48, 5, True), (48, 48, True), (2, 1, False), (2, 2, True), (8, 1, False),
     (8, 2, True), (20, 2, False), (0, 0, False)],
)  # fmt: skip
def test_more_than_a_tenth_of_the_nodes_pulls_it(total, bad, is_pulled):
    cause = judge(nodes_total=total, nodes=turned(bad), units=[], now=NOW)
    assert bool(cause) is is_pulled


@pytest.mark.parametrize(("bad", "is_pulled"), [(2, False), (3, True)])
def test_more_than_two_units_pull_it(bad, is_pulled):
    cause = judge(nodes_total=48, nodes=[], units=turned(bad), now=NOW)
    assert bool(cause) is is_pulled


def test_what_turned_bad_long_ago_does_not_count():
    assert judge(nodes_total=48, nodes=turned(10, 121), units=turned(5, 121), now=NOW) is None


def test_what_a_person_judged_does_not_pull_it_again():
    cleared = NOW - timedelta(seconds=5)
    assert judge(nodes_total=8, nodes=turned(4, 10), units=[], now=NOW, cleared_at=cleared) is None
    assert judge(nodes_total=8, nodes=turned(4, 2), units=[], now=NOW, cleared_at=cleared)
