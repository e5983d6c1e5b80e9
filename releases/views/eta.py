"""Time to ready as a band from p50 to p90 of earlier launches; never a bar that stands at 99 %."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from fleet.templatetags.figures import clock_span, moment_text
from releases.models import Launch
from releases.rules.phases import Estimate

WIDTH = 360
BAND_MIN = 4.0


@dataclass(frozen=True)
class Eta:
    """What the panel shows. Positions are in units of a drawing WIDTH wide; None without an estimate."""

    elapsed_s: float
    since: datetime
    is_running: bool
    now_at: float | None = None
    low_at: float | None = None
    window: str = ""
    explanation: str = ""
    label: str = ""

    @property
    def band(self) -> float:
        return WIDTH - self.low_at if self.low_at is not None else 0.0


def eta_drawn(launch: Launch, estimate: Estimate | None, now: datetime) -> Eta:
    """Place now and the band on a line from the start to the latest expected end."""
    end = launch.ready_at or launch.ended_at
    elapsed = ((end or now) - launch.created_at).total_seconds()
    if end is not None:
        return Eta(elapsed, launch.created_at, False, explanation=_end_words(launch))
    if launch.cause:
        return Eta(
            elapsed,
            launch.created_at,
            True,
            explanation=_("It will not become ready: it is being taken down."),
        )
    if estimate is None:
        return Eta(
            elapsed,
            launch.created_at,
            True,
            explanation=_("No earlier launch in this pool became ready, so there is no estimate."),
        )
    total = elapsed + max(estimate.high_s, 1.0)
    low, high = (now + timedelta(seconds=s) for s in (estimate.low_s, estimate.high_s))
    window = _window_words(moment_text(low), moment_text(high))
    return Eta(
        elapsed,
        launch.created_at,
        True,
        now_at=round(WIDTH * elapsed / total, 1),
        low_at=round(min(WIDTH - BAND_MIN, WIDTH * (elapsed + estimate.low_s) / total), 1),
        window=window,
        explanation=_left_words(estimate),
        label=window,
    )


def _window_words(low: str, high: str) -> str:
    if low == high:
        return _("ready about %(at)s") % {"at": low}
    return _("ready %(low)s to %(high)s") % {"low": low, "high": high}


def _left_words(estimate: Estimate) -> str:
    low, high = clock_span(estimate.low_s), clock_span(estimate.high_s)
    if low == high:
        return ngettext(
            "About %(left)s left, by %(n)d launch of this pool, each phase at its own history.",
            "About %(left)s left, by %(n)d launches of this pool, each phase at its own history.",
            estimate.launches,
        ) % {"left": low, "n": estimate.launches}
    return ngettext(
        "%(low)s to %(high)s left: p50 to p90 of %(n)d launch of this pool, each phase at its own history.",
        "%(low)s to %(high)s left: p50 to p90 of %(n)d launches of this pool, each phase at its own history.",
        estimate.launches,
    ) % {
        "low": low,
        "high": high,
        "n": estimate.launches,
    }


def _end_words(launch: Launch) -> str:
    if launch.ready_at is None:
        return _("It ended before it was ready.")
    if launch.ended_at is None:
        return _("Ready. Start to ready took this long.")
    return _("It was ready after this time and has ended since.")
