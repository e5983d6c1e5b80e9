"""What the log page draws from facts: lines as elements, lanes as outlines, marks of time."""

from datetime import UTC, datetime

import pytest

from fleet.execution.log_format import StoredLine
from fleet.rules.log_lanes import Lane
from fleet.selectors.log_lanes import LaneChart
from fleet.selectors.logs import LogSource, SeenLine
from releases.views import log_drawn

AT = datetime(2026, 11, 29, 3, 6, 11, 42_000, tzinfo=UTC)
SOURCE = LogSource(7, 1, 'h100-"028"', (8, 9))


def line(text: str, level: str = "I", part: str = "NET") -> SeenLine:
    return SeenLine(SOURCE, StoredLine(18, AT, 9, level, part, text))


def test_whatever_a_node_says_is_text_in_a_line():
    html = log_drawn.draw_line(line("<script>\x1b[1m<b>&\x1b[0m", part="<i>")).html
    assert '<span class="ms">&lt;script&gt;<b>&lt;b&gt;&amp;</b></span>' in html
    assert '<span class="ss">&lt;i&gt;</span>' in html
    assert 'title="h100-&quot;028&quot;"' in html


@pytest.mark.parametrize(("level", "sign"), [("E", "#s-crit"), ("W", "#s-warn")])
def test_a_warning_and_an_error_have_a_drawn_sign_and_a_word(level, sign):
    html = log_drawn.draw_line(line("x", level)).html
    assert f'<use href="{sign}"/>' in html
    assert 'aria-label="' in html


def test_a_quiet_line_draws_no_picture():
    html = log_drawn.draw_line(line("x")).html
    assert "<svg" not in html
    assert 'role="img" aria-label="info">–<' in html


@pytest.mark.parametrize(
    ("node", "short"), [("h100-028", "028"), ("gpu025", "025"), ("alpha", "lpha"), ("x", "x")]
)
def test_a_short_name_is_the_number_at_the_end(node, short):
    assert log_drawn.short_name(node) == short


def test_a_lane_is_one_outline_a_step_with_errors_over_warnings():
    lane = Lane(0, warned={3, 4}, failed={4})
    lane.bins[:3] = [8.0, 8.0, 0.5]
    paths = log_drawn._lane_paths(lane, 8.0)
    assert paths == [
        ("d5", "M0.0 2h9.4v5h-9.4z"),
        ("d1", "M10.0 2h4.4v5h-4.4z"),
        ("warned", "M15.0 1h4v7h-4z"),
        ("failed", "M20.0 0h4v9h-4z"),
    ]


@pytest.mark.parametrize("span_ms", [2_700, 60_000, 3_600_000, 200_000_000])
def test_no_two_marks_of_time_say_the_same(span_ms):
    start = int(AT.timestamp() * 1000)
    marks = log_drawn._axis(LaneChart(start, start + span_ms, [Lane(0)]))
    assert len({mark["word"] for mark in marks}) == 5
