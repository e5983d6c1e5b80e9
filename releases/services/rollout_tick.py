"""One tick over the rollouts at work: lock a row, judge its triggers, build its snapshot, decide, carry it out, commit.

Safe to run twice or never; two conductors skip each other's rows. People's clicks take the same row lock.
"""

import logging

from django.db import DatabaseError, transaction

from fleet.execution.clock import database_now
from fleet.execution.faults import fault_point
from fleet.rules.message import say, say_all
from fleet.services.trail import rule_actor
from releases.models import Rollout, Wave
from releases.rules import rollout as rules
from releases.rules.waves import FAILED, OBSERVING, PASSED, RETIRED, UNDONE, WaveMove
from releases.services.releases import release_in_service
from releases.services.rollout_effects import canary_give_back, wave_do
from releases.services.rollout_moves import (
    ring_rollout,
    rollout_fire,
    rollout_move,
    wave_move,
)
from releases.services.rollout_seen import (
    requests_of,
    rolled_back_proof,
    rollout_seen,
    waves_of,
)
from releases.services.rollout_triggers import triggers_judge

log = logging.getLogger(__name__)

AT_WORK = (rules.RUNNING, rules.PAUSED, rules.ROLLING_BACK)
_RULE = rule_actor("rollout")


def rollouts_advance() -> int:
    """Advance every rollout at work by one move, each in a transaction of its own; return how many moved."""
    ids = Rollout.objects.filter(state__in=AT_WORK).order_by("pk").values_list("pk", flat=True)
    return sum(_advance_or_log(pk) for pk in list(ids))


def _advance_or_log(pk: int) -> bool:
    try:
        return rollout_advance(pk)
    except Exception as error:
        # One that cannot be advanced must not hold up the others; its own transaction is gone.
        log.exception("rollout %s could not be advanced", pk)
        _say_fault(pk, error)
        return False


def _say_fault(pk: int, error: Exception) -> None:
    """Let the page say that it stands still; a paused one keeps why it is paused."""
    why = say("The console could not judge it: %(error)s", error=type(error).__name__)
    try:
        rollout = Rollout.objects.select_related("pool").get(pk=pk)
        if rollout.state != rules.PAUSED:
            _explain(rollout, why)
    except DatabaseError:
        log.exception("rollout %s cannot say so either", pk)  # the others must be looked at


@transaction.atomic
def rollout_advance(pk: int) -> bool:
    """Advance one rollout. False when it stays as it is, or when another conductor or a person holds it."""
    rollout = (
        Rollout.objects.select_for_update(of=("self",), skip_locked=True)
        .select_related("pool", "new_release", "author")
        .filter(pk=pk, state__in=AT_WORK)
        .first()
    )
    if rollout is None:
        return False
    fired = triggers_judge(rollout) if rollout.state != rules.ROLLING_BACK else ""
    waves = waves_of(rollout)
    seen = rollout_seen(rollout, waves, fired)
    move = rules.decide_rollout(seen)
    fault_point("rollout-decided")
    moved = move.wave is not None and _wave_apply(
        rollout, waves[_place(waves, move)], move.wave, move.direction
    )
    if move.to is not None:
        moved = _rollout_apply(rollout, waves, move, seen.fired) or moved
    elif rollout.state == rules.PAUSED and fired and not rollout.fired:
        rollout_fire(rollout=rollout, fired=fired, actor=_RULE)
        moved = True
    elif move.explanation:
        _explain(rollout, move.explanation)
    fault_point("rollout-applied")
    return bool(moved)


def _place(waves: list[Wave], move: rules.RolloutMove) -> int:
    return next(place for place, wave in enumerate(waves) if wave.number == move.number)


def _rollout_apply(
    rollout: Rollout, waves: list[Wave], move: rules.RolloutMove, fired: str
) -> bool:
    to, explanation, proof = str(move.to), move.explanation, None
    if to == rules.ROLLED_BACK:
        proof, wrong = rolled_back_proof(waves)
        if wrong:
            to, explanation = rules.ROLLBACK_FAILED, wrong[0]
    is_failed = move.wave is not None and move.wave.to == FAILED
    changes = {}
    if to in (rules.PAUSED, rules.ROLLING_BACK) and (fired or is_failed):
        # A unit that did not come up, or that its gate refused, halts as a trigger does.
        changes["fired"] = fired or explanation
    rollout_move(
        rollout=rollout, to=to, explanation=explanation, actor=_RULE, proof=proof, **changes
    )
    return True


def _wave_apply(rollout: Rollout, wave: Wave, what: WaveMove, direction: str) -> bool:
    refused: tuple[str, ...] = ()
    if what.do:
        refused = wave_do(rollout=rollout, wave=wave, move=what, direction=direction, actor=_RULE)
    if refused:
        return _wave_explain(rollout, wave, _refused(wave, refused))
    if what.next_step:
        Wave.objects.filter(pk=wave.pk).update(step=wave.step + 1)
        wave.step += 1
    if what.to is None:
        return _stay(rollout, wave, what)
    _served(rollout, wave, what.to)
    wave_move(
        rollout=rollout,
        wave=wave,
        to=what.to,
        explanation=what.explanation,
        actor=_RULE,
        requests=requests_of(wave) or 0,
    )
    return True


def _served(rollout: Rollout, wave: Wave, to: str) -> None:
    """Do what belongs to the end of a wave: its release serves the pool, or its spares are free again."""
    if to == RETIRED:
        canary_give_back(wave=wave, actor=_RULE)
    elif to == PASSED and not wave.is_canary:
        release_in_service(release=rollout.new_release, actor=_RULE)
    elif to == UNDONE and wave.old_release is not None:
        release_in_service(release=wave.old_release, actor=_RULE)


def _refused(wave: Wave, reasons: tuple[str, ...]) -> str:
    return say("Wave %(n)s waits: %(why)s", n=wave.number, why=say_all(reasons))


def _stay(rollout: Rollout, wave: Wave, what: WaveMove) -> bool:
    if wave.state == OBSERVING and wave.observing_since is None:
        _observe_anew(wave)
    return _wave_explain(rollout, wave, what.explanation)


def _observe_anew(wave: Wave) -> None:
    Wave.objects.filter(pk=wave.pk).update(
        observing_since=database_now(), requests_at_since=requests_of(wave) or 0
    )


def _wave_explain(rollout: Rollout, wave: Wave, explanation: str) -> bool:
    if wave.explanation == explanation:
        return False
    Wave.objects.filter(pk=wave.pk).update(explanation=explanation)
    ring_rollout(rollout)
    return True


def _explain(rollout: Rollout, explanation: str) -> None:
    if rollout.explanation != explanation:
        Rollout.objects.filter(pk=rollout.pk).update(explanation=explanation)
        ring_rollout(rollout)
