from datetime import UTC, datetime, timedelta

import pytest

from releases.rules.phases import ROWS, Span, clip_to_golden, estimate_left, join_spans, quantile

NOON = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)


def after(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def test_a_joined_span_reaches_from_the_first_begin_to_the_last_end():
    assert join_spans([Span(after(5), after(9)), Span(after(2), after(7))]) == Span(
        after(2), after(9)
    )


def test_a_joined_span_stays_open_while_one_part_is_open():
    joined = join_spans([Span(NOON, after(9)), Span(after(1))])
    assert joined == Span(NOON)
    assert joined.seconds(after(30)) == 30


def test_no_spans_join_to_nothing():
    assert join_spans([]) is None


@pytest.mark.parametrize(
    ("share", "expected"), [(0.5, 30), (0.9, 50), (0.0, 10)], ids=["p50", "p90", "least"]
)
def test_a_quantile_is_a_value_that_was_seen(share, expected):
    assert quantile([50, 10, 40, 20, 30], share) == expected


def test_there_is_no_estimate_without_an_earlier_launch():
    assert estimate_left({row: [] for row in ROWS}, {}, []) is None


def test_it_estimates_what_is_left_from_the_rows_that_are_not_done():
    history = {"preflight": [9, 9], "load": [300, 400], "capture": [100, 120]}
    left = estimate_left(history, {"load": 250}, ["preflight"])
    assert (left.low_s, left.high_s, left.launches) == (150 + 120, 150 + 120, 2)


def test_a_row_that_takes_longer_than_ever_counts_as_nothing_left_of_it():
    left = estimate_left({"load": [300]}, {"load": 900}, [])
    assert left.high_s == 0


def test_an_engine_row_ends_where_the_golden_warm_up_begins():
    clipped = clip_to_golden(
        {"capture": [Span(NOON), Span(NOON, after(5))], "golden": [Span(after(9))]}
    )
    assert clipped["capture"] == [Span(NOON, after(9)), Span(NOON, after(5))]
    assert clipped["golden"] == [Span(after(9))]


def test_a_follower_is_clipped_by_the_golden_warm_up_of_the_first_node():
    assert clip_to_golden({"capture": [Span(NOON)]}, after(9)) == {
        "capture": [Span(NOON, after(9))]
    }


def test_nothing_is_clipped_before_the_golden_warm_up():
    assert clip_to_golden({"load": [Span(NOON)]}) == {"load": [Span(NOON)]}
