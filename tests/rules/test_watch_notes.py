import pytest

from fleet.execution.watch_node import scan_share
from fleet.execution.watch_notes import Gathered, started_again


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_a_fleet_that_comes_back_is_told_once(clock):
    gathered = Gathered(quiet_s=5, clock=clock)
    for number in (3, 1, 2, 1):
        gathered.add(f"h100-00{number}")
        clock.now += 2
        assert gathered.take() == []
    clock.now += 5
    assert gathered.take() == ["h100-001", "h100-002", "h100-003"]
    assert gathered.take() == []


def test_names_that_never_end_are_told_after_a_while(clock):
    gathered = Gathered(quiet_s=5, at_most_s=12, clock=clock)
    for number in range(7):
        gathered.add(f"h100-{number:03d}")
        clock.now += 2
    assert len(gathered.take()) == 7


def test_the_end_of_the_watch_tells_what_is_left(clock):
    gathered = Gathered(clock=clock)
    assert gathered.take(is_last_call=True) == []
    gathered.add("h100-001")
    assert gathered.take(is_last_call=True) == ["h100-001"]


@pytest.mark.parametrize(
    ("count", "line"),
    [
        (1, "h100-001 was started again: another boot id"),
        (2, "2 nodes were started again, their boot ids are others: h100-001, h100-002"),
        (16, "16 nodes were started again, their boot ids are others: "
             "h100-001, h100-002, h100-003 and 13 more"),
    ],
)  # fmt: skip
def test_the_line_names_a_few_and_counts_the_rest(count, line):
    assert started_again([f"h100-{number:03d}" for number in range(1, count + 1)]) == line


def test_the_scans_of_a_fleet_spread_over_the_minute():
    shares = sorted(scan_share(host_id) for host_id in range(1, 49))
    gaps = [after - before for before, after in zip([0.0, *shares], [*shares, 1.0], strict=True)]
    assert max(gaps) < 3 / 48
