import pytest

from fleet.execution.watch_reach import AwakeClock, count_misses, judge_reach


@pytest.mark.parametrize(
    ("silent_s", "misses", "reach"),
    [
        (0, 0, "ok"),
        (4.9, 0, "ok"),
        (14.9, 2, "ok"),
        (15, 3, "suspect"),
        (59.9, 11, "suspect"),
        (60, 12, "unreachable"),
        (6000, 1200, "unreachable"),
    ],
)
def test_a_silent_node_is_suspect_after_15_s_and_unreachable_after_60_s(
    silent_s: float, misses: int, reach: str
) -> None:
    assert count_misses(silent_s) == misses
    assert judge_reach(silent_s) == reach


def test_all_limits_scale_with_the_period() -> None:
    assert [judge_reach(s, period_s=0.5) for s in (1.4, 1.5, 5.9, 6.0)] == [
        "ok",
        "suspect",
        "suspect",
        "unreachable",
    ]


def test_the_time_of_a_stopped_process_is_not_counted() -> None:
    now = [100.0]
    clock = AwakeClock(stall_s=5.0, clock=lambda: now[0])
    for _ in range(10):
        now[0] += 0.5
        assert clock.tick() == 0
    assert clock.now() == pytest.approx(5.0)
    now[0] += 60  # SIGSTOP ... SIGCONT
    assert clock.now() == pytest.approx(5.0), "whoever wakes first must not see the gap"
    assert clock.tick() == pytest.approx(60)
    now[0] += 0.5
    clock.tick()
    assert clock.now() == pytest.approx(5.5)
    assert clock.stalls == 1
