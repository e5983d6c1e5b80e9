"""Judges a rollout's triggers from readings of the units on the new release, each tick anew.

Errors are counted within a window that slides: samples of the proxy's counts lie in the rollout's row.
"""

from dataclasses import asdict
from datetime import datetime, timedelta

from django.conf import settings

from fleet.execution.clock import database_now
from fleet.execution.models import Scrape
from fleet.rules.message import say
from releases.models import Endpoint, Launch, Rollout
from releases.rules import triggers as rules
from releases.rules.window import sample_of, window_add
from releases.services.launch_effects import purpose_of
from releases.services.rollout_moves import ring_rollout

WINDOW_S = 300.0
# A reading comes every few seconds however fast the clock of the design runs.
_STALE_MIN_S = 10.0


def triggers_judge(rollout: Rollout) -> str:
    """Judge and store the triggers; return the sentence of the first that fired, or nothing.

    Before any unit has the new release there is nothing to judge, and no row.
    """
    launches = new_launches(rollout)
    now = database_now()
    before = rollout.counted, rollout.triggers
    rollout.counted = window_add(rollout.counted, _counts(launches), now, window_span())
    found = _judged(rollout, launches, now) if launches else []
    rollout.triggers = [asdict(one) for one in found]
    if (rollout.counted, rollout.triggers) != before:
        Rollout.objects.filter(pk=rollout.pk).update(
            triggers=rollout.triggers, counted=rollout.counted
        )
    if rollout.triggers != before[1]:
        ring_rollout(rollout)
    fired = next((one for one in found if one.state == rules.FIRED), None)
    return (
        say("Trigger %(name)s: %(found)s", name=rules.WORDS[fired.name], found=fired.found)
        if fired
        else ""
    )


def window_restart(rollout: Rollout) -> None:
    """Forget what was counted: a person has judged it."""
    Rollout.objects.filter(pk=rollout.pk).update(
        counted=[sample_of(_counts(new_launches(rollout)), database_now())]
    )


def new_launches(rollout: Rollout) -> list[Launch]:
    """Return the ready launches of this rollout's units on the new release."""
    rows = Launch.objects.filter(
        replica__waves__rollout=rollout, release=rollout.new_release_id, state=Launch.State.READY
    )
    return list(rows.select_related("replica", "endpoint__gateway").order_by("pk"))


def window_span() -> timedelta:
    """How long errors are counted, on this console's clock."""
    return timedelta(seconds=WINDOW_S / settings.TIME_SCALE)


def limits() -> rules.Limits:
    """The rule's limits on this console's clock."""
    wanted = rules.Limits()
    stale_s = max(_STALE_MIN_S, wanted.stale_s / settings.TIME_SCALE)
    return rules.Limits(wanted.error_percent, wanted.error_min, stale_s)


def _judged(rollout: Rollout, launches: list[Launch], now: datetime) -> list[rules.Trigger]:
    return [
        rules.judge_golden(_golden(launches, now), limits()),
        rules.judge_errors(_errors(rollout, launches, now), limits()),
    ]


def _golden(launches: list[Launch], now: datetime) -> tuple[rules.GoldenReading, ...]:
    keys = {purpose_of(launch, "golden"): launch.replica.name for launch in launches}
    rows = {row.key: row for row in Scrape.objects.filter(key__in=keys)}
    return tuple(golden_reading(unit, rows.get(key), now) for key, unit in keys.items())


def golden_reading(unit: str, row: Scrape | None, now: datetime) -> rules.GoldenReading:
    """Return what the recurring golden probe of a unit says; without a row it was never asked."""
    if row is None or row.tried_at is None:
        return rules.GoldenReading(unit, 0, False, None)
    is_wrong = bool(row.misses and row.status == 200 and row.found)
    return rules.GoldenReading(unit, row.misses, is_wrong, (now - row.tried_at).total_seconds())


def _errors(rollout: Rollout, launches: list[Launch], now: datetime) -> rules.ErrorReading | None:
    behind = [endpoint for endpoint in map(_endpoint, launches) if endpoint]
    if not behind:
        return None
    seen_at = [endpoint.gateway.seen_at for endpoint in behind]
    age_s = None if None in seen_at else (now - min(seen_at)).total_seconds()
    base = rollout.counted[0]["counts"]
    requests = errors = 0
    for endpoint in behind:
        requests_then, errors_then = base.get(str(endpoint.launch_id), (0, 0))
        requests += endpoint.requests - requests_then
        errors += endpoint.errors - errors_then
    return rules.ErrorReading(requests, errors, age_s)


def _endpoint(launch: Launch) -> Endpoint | None:
    return getattr(launch, "endpoint", None)


def _counts(launches: list[Launch]) -> dict[str, list[int]]:
    behind = [endpoint for endpoint in map(_endpoint, launches) if endpoint]
    return {str(one.launch_id): [one.requests, one.errors] for one in behind}
