"""Clock and temperature over the last probes: gaps stay gaps."""

from datetime import timedelta

import pytest

from fleet.models import CardSample
from fleet.views.card_history import HEIGHT, WIDTH, card_charts
from tests.factories import NOON, make_node


def sample(minute: int, clocks: list, temperatures: list | None = None) -> CardSample:
    return CardSample(
        at=NOON + timedelta(minutes=minute),
        sm_clock_mhz=clocks,
        temperature_c=temperatures or [],
    )


def test_one_probe_is_no_history():
    assert card_charts([]) is None
    assert card_charts([sample(0, [1980.0])]) is None


def test_a_line_runs_from_left_to_right_and_a_higher_reading_stands_higher():
    drawn = card_charts([sample(0, [345.0]), sample(5, [1980.0])])
    (chart,) = drawn["charts"]
    (line,) = chart.lines
    assert line.runs == [f"4,{HEIGHT - 4} {WIDTH - 4},4"]
    assert (chart.low, chart.high) == (345.0, 1980.0)
    assert chart.label == "SM clock of 1 cards over 2 probes: 345 to 1,980 MHz"


def test_a_missing_reading_breaks_the_line():
    clocks = [[1.0], [2.0], [None], [2.0], [], [1.0], [1.0]]
    drawn = card_charts([sample(n, row) for n, row in enumerate(clocks)])
    (line,) = drawn["charts"][0].lines
    assert len(line.runs) == 2
    assert len(line.dots) == 1
    assert [run.count(",") for run in line.runs] == [2, 2]


def test_readings_that_never_change_stand_in_the_middle():
    drawn = card_charts([sample(0, [5.0]), sample(5, [5.0])])
    assert drawn["charts"][0].lines[0].runs == [f"4,{HEIGHT // 2} {WIDTH - 4},{HEIGHT // 2}"]


def test_the_chosen_card_is_drawn_over_the_others():
    drawn = card_charts([sample(0, [1.0, 2.0, 3.0]), sample(1, [1.0, 2.0, 3.0])], "0")
    assert [line.index for line in drawn["charts"][0].lines] == [1, 2, 0]


@pytest.mark.django_db
def test_the_page_of_a_node_shows_it(ana):
    node = make_node()
    assert "card-history" not in ana.get("/nodes/h100-001/").content.decode()
    for minute in range(3):
        row = sample(minute, [1980.0, None], [40.0, 41.0])
        row.node = node
        row.save()
    page = ana.get("/nodes/h100-001/").content.decode()
    assert "Temperature of 2 cards over 3 probes: 40 to 41 °C" in page
    assert page.count("<polyline") == 3
