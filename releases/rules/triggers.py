"""What stops a rollout by itself: each trigger judged from readings. No data is never quiet. Pure.

Source: manual A 13; NUMBERS.md (a fired trigger halts within 10 s). Rates are of the new revision only.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fleet.rules.message import say

QUIET, FIRED, NO_DATA = "quiet", "fired", "no_data"
GOLDEN, ERROR_RATE = "golden", "error_rate"
WORDS = {GOLDEN: say("Golden answers"), ERROR_RATE: say("Errors of the new release")}
UNREAD = say("the proxy was not read")
# A lone miss proves nothing (releases/rules/launch.py); the second in a row does.
GOLDEN_MISSES = 2


@dataclass(frozen=True)
class GoldenReading:
    """The recurring golden probe of one unit on the new revision. `age_s` is None when none was tried."""

    unit: str
    misses: int
    is_wrong_answer: bool
    age_s: float | None


@dataclass(frozen=True)
class ErrorReading:
    """What the proxy counted of the new revision within the window."""

    requests: int
    errors: int
    age_s: float | None


@dataclass(frozen=True)
class Limits:
    """Rates in percent, times in seconds. `error_min`: below so many requests a rate says nothing."""

    error_percent: float = 1.0
    error_min: int = 20
    stale_s: float = 60.0


@dataclass(frozen=True)
class Trigger:
    """One row of the trigger panel."""

    name: str
    state: str
    found: str
    limit: str


def judge_golden(readings: tuple[GoldenReading, ...], limits: Limits) -> Trigger:
    """Fire on two misses in a row at any unit; a unit that was not asked lately is no data."""
    limit = say("%(count)s misses in a row", count=GOLDEN_MISSES)
    for one in readings:
        if one.misses >= GOLDEN_MISSES:
            # Each sentence whole inside say(): what stands elsewhere is not collected for translation.
            found = (
                say("%(unit)s: wrong answer %(misses)s times", unit=one.unit, misses=one.misses)
                if one.is_wrong_answer
                else say("%(unit)s: no answer %(misses)s times", unit=one.unit, misses=one.misses)
            )
            return Trigger(GOLDEN, FIRED, found, limit)
    silent = [one.unit for one in readings if one.age_s is None or one.age_s > limits.stale_s]
    if silent or not readings:
        return Trigger(
            GOLDEN, NO_DATA, say("not asked: %(units)s", units=", ".join(silent) or "-"), limit
        )
    return Trigger(
        GOLDEN, QUIET, say("Units that answer right: %(count)s", count=len(readings)), limit
    )


def judge_errors(reading: ErrorReading | None, limits: Limits) -> Trigger:
    """Fire above the error rate; too few requests or an old reading are no data."""
    limit = f"{limits.error_percent:g} %"
    if reading is None or reading.age_s is None or reading.age_s > limits.stale_s:
        return Trigger(ERROR_RATE, NO_DATA, UNREAD, limit)
    percent = 100.0 * reading.errors / reading.requests if reading.requests else 0.0
    found = say(
        "%(percent)s %%, requests: %(requests)s",
        percent=f"{percent:.2g}",
        requests=reading.requests,
    )
    # A few errors among few requests are judged too: as many errors as the limit allows of `error_min`, and more.
    allowed = limits.error_percent / 100.0 * max(reading.requests, limits.error_min)
    if reading.errors > max(allowed, 1.0):
        return Trigger(ERROR_RATE, FIRED, found, limit)
    state = NO_DATA if reading.requests < limits.error_min else QUIET
    return Trigger(ERROR_RATE, state, found, limit)


def unread(triggers: Iterable[Mapping[str, str]]) -> tuple[str, ...]:
    """Return the names of stored triggers whose readings stopped.

    Few requests are no such case: how many are enough in its window is the wave's own minimum.
    """
    silent = (row for row in triggers if row["state"] == NO_DATA)
    return tuple(row["name"] for row in silent if row["name"] == GOLDEN or row["found"] == UNREAD)
