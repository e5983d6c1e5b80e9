"""Draws the clocks and temperatures of a node's cards over its last probes. A missing reading is a gap, never 0."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from fleet.models import CardSample

WIDTH, HEIGHT, EDGE = 600, 84, 4
METRICS: tuple[tuple[str, Any, str], ...] = (
    ("sm_clock_mhz", gettext_lazy("SM clock"), "MHz"),
    ("temperature_c", gettext_lazy("Temperature"), "°C"),
)


@dataclass(frozen=True)
class CardLine:
    """One card: its runs of readings as points of an SVG polyline; a run of one reading is a dot."""

    index: int
    runs: list[str]
    dots: list[tuple[float, float]]
    is_chosen: bool


@dataclass(frozen=True)
class CardChart:
    """One metric of all cards over time. `low`, `high`: what was read, in `unit`."""

    name: str
    word: str
    unit: str
    low: float
    high: float
    lines: list[CardLine]
    label: str


def card_charts(samples: Sequence[CardSample], chosen: str = "") -> dict[str, Any] | None:
    """Return the charts and their span of time; None before there are two probes to draw a line between."""
    if len(samples) < 2:
        return None
    charts = [_chart(samples, name, str(word), unit, chosen) for name, word, unit in METRICS]
    return {
        "charts": [chart for chart in charts if chart],
        "since": samples[0].at,
        "until": samples[-1].at,
        "count": len(samples),
        "width": WIDTH,
        "height": HEIGHT,
    }


def _chart(
    samples: Sequence[CardSample], name: str, word: str, unit: str, chosen: str
) -> CardChart | None:
    rows: list[list[float | None]] = [getattr(sample, name) for sample in samples]
    values = [value for row in rows for value in row if value is not None]
    if not values:
        return None
    low, high = min(values), max(values)
    times = [sample.at for sample in samples]
    place = _place(times[0], times[-1], low, high)
    cards = max(len(row) for row in rows)
    lines = [
        _line(
            index, times, [row[index] if index < len(row) else None for row in rows], place, chosen
        )
        for index in range(cards)
    ]
    label = _("%(word)s of %(n)d cards over %(probes)d probes: %(low)s to %(high)s %(unit)s") % {
        "word": word,
        "n": cards,
        "probes": len(samples),
        "low": f"{low:,.0f}",
        "high": f"{high:,.0f}",
        "unit": unit,
    }
    # the chosen card is drawn last, over the others
    lines.sort(key=lambda line: line.is_chosen)
    return CardChart(name, word, unit, low, high, lines, label)


Place = Callable[[datetime, float], tuple[float, float]]


def _place(first: datetime, last: datetime, low: float, high: float) -> Place:
    """Return where a reading stands in the drawing; readings that are all the same stand in the middle."""
    span_s = (last - first).total_seconds() or 1.0
    room = HEIGHT - 2 * EDGE

    def place(at: datetime, value: float) -> tuple[float, float]:
        share = (value - low) / (high - low) if high > low else 0.5
        across = EDGE + (WIDTH - 2 * EDGE) * (at - first).total_seconds() / span_s
        return round(across, 1), round(HEIGHT - EDGE - room * share, 1)

    return place


def _line(
    index: int,
    times: Sequence[datetime],
    values: Sequence[float | None],
    place: Place,
    chosen: str,
) -> CardLine:
    runs, dots = [], []
    pairs = list(zip(times, values, strict=True))
    for is_read, some in groupby(pairs, key=lambda pair: pair[1] is not None):
        if not is_read:
            continue
        points = [place(at, value) for at, value in some if value is not None]
        if len(points) == 1:
            dots.append(points[0])
        else:
            runs.append(" ".join(f"{x:g},{y:g}" for x, y in points))
    return CardLine(index, runs, dots, chosen == str(index))
