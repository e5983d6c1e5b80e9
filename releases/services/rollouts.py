"""What people do to rollouts: make, submit, start, ask for a wave, pause, go on, roll back, cancel.

Each locks the rollout's row as the tick does. What happens in between is decided tick by tick (rollout_tick.py).
"""

import re
from typing import Any

from django.db import IntegrityError, transaction

from fleet.execution.clock import database_now
from fleet.execution.message import sentence_in
from fleet.models import Pool, Replica
from fleet.rules.message import say
from fleet.rules.refusals import RefusedFor
from fleet.services.trail import Actor, rule_actor, trail_add
from releases.models import Approval, Gateway, Launch, Release, Rollout, Wave
from releases.rules import rollout as rules
from releases.rules.release import ROLLABLE
from releases.rules.triggers import FIRED, WORDS
from releases.rules.waves import AWAITING, OBSERVING, PENDING, Strategy
from releases.services.approvals import (
    approval_ask,
    approvals_withdraw,
    facts_digest,
    facts_hold,
    kind_add,
)
from releases.services.rollout_facts import (
    guards_of,
    out_of_bounds,
    resume_facts,
    rollout_facts,
    unmet_of,
    wave_facts,
    wave_refusals,
)
from releases.services.rollout_moves import ring_rollout, rollout_move
from releases.services.rollout_seen import at_work, wave_start, waves_of
from releases.services.rollout_triggers import window_restart

SIGNATURES_AFTER_TRIGGER = 2  # source: RELIABILITY.md section 4 (Rollout)
# Guards that a person's going on does not set aside: their cause must be cleared first.
_STANDING = frozenset({"incidents", "unknown", "other_rollout", "brake"})
_TOO_OLD = say("This request is older than 24 hours. Let it be asked anew.")
_MOVED = say("The facts moved after this was asked. Let it be asked anew.")


class RolloutRefused(RefusedFor):
    """The rollout may not do this; `reasons` are sentences for the person who asked."""


@transaction.atomic
def rollout_create(
    *,
    pool: Pool,
    release: Release,
    strategy: dict[str, Any],
    reason: str,
    actor: Actor,
    user: Any,
    has_canary: bool = True,
) -> Rollout:
    """Draft the taking of a pool to a release, one wave a unit; nothing runs. Raises RolloutRefused."""
    refusals = _release_refusals(pool, release)
    try:
        Strategy.from_data(strategy)
    except (ValueError, TypeError) as error:
        refusals.append(sentence_in(error))
    if refusals:
        raise RolloutRefused(refusals)
    rollout = Rollout.objects.create(
        pool=pool, new_release=release, strategy=strategy, reason=reason.strip(), author=user,
        explanation=say("Drafted; nothing runs."),
    )  # fmt: skip
    if has_canary:
        Wave.objects.create(rollout=rollout, number=0, is_canary=True)
    _waves_build(rollout)
    trail_add(
        actor=actor,
        verb="rollout.create",
        object_kind="rollout",
        object_id=rollout.public_id,
        reason=reason,
        after={"pool": pool.slug, "release": release.public_id, "strategy": strategy},
    )
    ring_rollout(rollout)
    return rollout


@transaction.atomic
def rollout_submit(*, rollout: Rollout, actor: Actor, user: Any) -> Rollout:
    """Ask others to sign the rollout as it stands; its units are read anew. Raises RolloutRefused.

    A request that nobody answered in its time, or whose facts moved, is asked anew: nobody can sign it any more.
    """
    rollout = _locked(rollout)
    if rollout.state == rules.SUBMITTED and (why := _unanswerable(rollout)):
        rollout_move(rollout=rollout, to=rules.DRAFT, explanation=why, actor=actor)
    _demand_move(rollout, rules.SUBMITTED)
    refusals = [*_release_refusals(rollout.pool, rollout.new_release), *_gateway_refusals(rollout)]
    if _waves_build(rollout):
        Rollout.objects.filter(pk=rollout.pk).update(last_editor=user)
    if not rollout.waves.filter(is_canary=False).exists():
        refusals.append(say("Every unit of the pool has this release already."))
    if refusals:
        raise RolloutRefused(refusals)
    rollout_move(
        rollout=rollout,
        to=rules.SUBMITTED,
        explanation=say("Waits for approval."),
        actor=actor,
        reason=rollout.reason,
    )
    approval_ask(
        kind=Approval.Kind.ROLLOUT,
        facts=rollout_facts(rollout),
        actor=actor,
        user=user,
        rollout=rollout,
        reason=rollout.reason,
    )
    rollout.refresh_from_db()
    return rollout


@transaction.atomic
def rollout_start(*, rollout: Rollout, actor: Actor) -> Rollout:
    """Set an approved rollout going; its first wave begins with the next tick. Raises RolloutRefused."""
    rollout = _locked(rollout, rules.RUNNING)
    facts = rollout_facts(rollout)
    refusals = [
        *_release_refusals(rollout.pool, rollout.new_release),
        *unmet_of(guards_of(facts)),
    ]
    signed = rollout.approvals.filter(kind=Approval.Kind.ROLLOUT).first()
    if signed is None or signed.decision != Approval.Decision.APPROVED:
        refusals.append(say("Nobody has approved it."))
    elif signed.expires_at <= database_now():
        refusals.append(say("Its approval is older than 24 hours; cancel it and make it anew."))
    elif signed.facts_digest != facts_digest(facts):
        refusals.append(say("The facts moved after it was approved; cancel it and make it anew."))
    if refusals:
        raise RolloutRefused(refusals)
    try:
        with transaction.atomic():
            rollout_move(
                rollout=rollout, to=rules.RUNNING, explanation=say("Started."), actor=actor
            )
    except IntegrityError as error:
        raise RolloutRefused([say("Another rollout runs in this pool.")]) from error
    return rollout


@transaction.atomic
def wave_ask(*, rollout: Rollout, number: int, reason: str, actor: Actor, user: Any) -> Approval:
    """Ask others to sign one wave; all its guards must be met. Raises RolloutRefused."""
    rollout = _locked(rollout)
    wave = at_work(waves_of(rollout))
    if rollout.state not in (rules.RUNNING, rules.PAUSED):
        raise RolloutRefused([say("The rollout is %(state)s.", state=rollout.state)])
    if wave is None or wave.number != number or wave.state not in (PENDING, AWAITING):
        raise RolloutRefused([say("Wave %(n)s is not the next one to begin.", n=number)])
    if refusals := wave_refusals(rollout, wave):
        raise RolloutRefused(refusals)
    return _ask_for(rollout, wave, reason, actor, user)


def _ask_for(rollout: Rollout, wave: Wave, reason: str, actor: Actor, user: Any) -> Approval:
    return approval_ask(
        kind=Approval.Kind.WAVE,
        facts=wave_facts(rollout, wave),
        actor=actor,
        user=user,
        rollout=rollout,
        wave=wave,
        reason=reason,
    )


@transaction.atomic
def rollout_pause(*, rollout: Rollout, reason: str, actor: Actor) -> Rollout:
    """Begin nothing new; what runs on nodes ends by itself. Pausing a paused one changes nothing."""
    rollout = _locked(rollout)
    if rollout.state == rules.PAUSED:
        return rollout
    _demand_move(rollout, rules.PAUSED)
    explanation = say("Paused: %(reason)s", reason=reason)
    rollout_move(
        rollout=rollout, to=rules.PAUSED, explanation=explanation, actor=actor, reason=reason
    )
    return rollout


@transaction.atomic
def rollout_resume(*, rollout: Rollout, reason: str, actor: Actor, user: Any) -> Rollout:
    """Go on. After a trigger that takes two signatures, which this asks for; else it goes on at once.

    The wave that would begin is asked for again when its signature holds no more. Raises RolloutRefused while a
    cause is not cleared.
    """
    rollout = _locked(rollout, rules.RUNNING)
    if rollout.state != rules.PAUSED:
        raise RolloutRefused([say("The rollout is %(state)s.", state=rollout.state)])
    waves = waves_of(rollout)
    wave = (
        at_work(waves) or waves[0]
    )  # with every wave over, only the canary's spares are left to give back
    if refusals := _standing(rollout, wave):
        raise RolloutRefused(refusals)
    if not rollout.fired:
        _go_on(rollout, actor, reason, user)
        return rollout
    approval_ask(
        kind=Approval.Kind.RESUME,
        facts=resume_facts(rollout, wave),
        actor=actor,
        user=user,
        rollout=rollout,
        wave=wave,
        reason=reason,
        needed=SIGNATURES_AFTER_TRIGGER,
    )
    return rollout


@transaction.atomic
def rollout_rollback(*, rollout: Rollout, reason: str, actor: Actor, user: Any) -> Rollout:
    """Take every touched unit back to its old release, newest first. Needs no approval. Raises RolloutRefused."""
    rollout = _locked(rollout)
    if rollout.state == rules.ROLLING_BACK:
        return rollout
    _demand_move(rollout, rules.ROLLING_BACK)
    approvals_withdraw(rollout=rollout, user=user)
    explanation = say("Rolling back: %(reason)s", reason=reason)
    rollout_move(
        rollout=rollout, to=rules.ROLLING_BACK, explanation=explanation, actor=actor, reason=reason
    )
    return rollout


@transaction.atomic
def rollout_cancel(*, rollout: Rollout, reason: str, actor: Actor, user: Any) -> Rollout:
    """End a rollout that has not started; nothing was touched. Raises RolloutRefused."""
    rollout = _locked(rollout)
    if rollout.state == rules.CANCELLED:
        return rollout
    _demand_move(rollout, rules.CANCELLED)
    approvals_withdraw(rollout=rollout, user=user)
    explanation = say("Cancelled: %(reason)s", reason=reason)
    rollout_move(
        rollout=rollout, to=rules.CANCELLED, explanation=explanation, actor=actor, reason=reason
    )
    return rollout


# -- what an answer of others leads to


def _rollout_decided(approval: Approval, actor: Actor) -> None:
    rollout = _relocked(approval)
    if rollout.state != rules.SUBMITTED:
        return
    if approval.decision == Approval.Decision.APPROVED:
        to, explanation = rules.APPROVED, say("Approved; not started yet.")
    else:
        to, explanation = rules.DRAFT, say("Rejected: %(reason)s", reason=approval.reason)
    rollout_move(
        rollout=rollout, to=to, explanation=explanation, actor=actor, reason=approval.reason
    )


def _wave_decided(approval: Approval, actor: Actor) -> None:
    """Nothing moves here: the tick begins a wave that is signed."""
    ring_rollout(approval.rollout)


def _resume_decided(approval: Approval, actor: Actor) -> None:
    rollout = _relocked(approval)
    if approval.decision == Approval.Decision.APPROVED and rollout.state == rules.PAUSED:
        _go_on(rollout, actor, approval.reason or approval.ask_reason, approval.asked_by)


def _go_on(rollout: Rollout, actor: Actor, reason: str, user: Any) -> None:
    """`user`: who asked for it, and so asks again for a wave whose signature holds no more."""
    window_restart(rollout)
    # A window that was interrupted proves nothing: it is observed from its beginning.
    rollout.waves.filter(state=OBSERVING).update(observing_since=None)
    rollout_move(
        rollout=rollout,
        to=rules.RUNNING,
        explanation=say("Goes on: %(reason)s", reason=reason),
        actor=actor,
        reason=reason,
        fired="",
    )
    wave = at_work(waves_of(rollout))
    if wave and wave_start(rollout, wave).void and not wave_refusals(rollout, wave):
        _ask_for(rollout, wave, reason, rule_actor("rollout-resume"), user)


def _resume_facts(approval: Approval) -> dict[str, Any]:
    return resume_facts(_relocked(approval), approval.wave)


kind_add("rollout", lambda approval: rollout_facts(approval.rollout), _rollout_decided)
kind_add("wave", lambda approval: wave_facts(approval.rollout, approval.wave), _wave_decided)
kind_add("resume", _resume_facts, _resume_decided)


# -- guards


def _release_refusals(pool: Pool, release: Release) -> list[str]:
    reasons = []
    if release.pool_id != pool.pk:
        reasons.append(say("%(release)s belongs to another pool.", release=release.public_id))
    if release.state not in ROLLABLE:
        reasons.append(
            say(
                "%(release)s is %(state)s: only a reviewed release is rolled out.",
                release=release.public_id,
                state=release.state,
            )
        )
    return reasons


def _gateway_refusals(rollout: Rollout) -> list[str]:
    """Without a gateway no weight is set or read back, so that nothing of a wave can be proved."""
    if Gateway.objects.exists():
        return []
    return [say("There is no gateway: traffic cannot be shifted, nor proved.")]


def _standing(rollout: Rollout, wave: Wave) -> list[str]:
    found = [one for one in guards_of(wave_facts(rollout, wave)) if one.name in _STANDING]
    reasons = [*out_of_bounds(rollout, wave), *unmet_of(found)]
    for trigger in rollout.triggers:
        if trigger["state"] == FIRED:
            reasons.append(
                say(
                    "Trigger %(name)s: %(found)s",
                    name=WORDS[trigger["name"]],
                    found=trigger["found"],
                )
            )
    return reasons


def _unanswerable(rollout: Rollout) -> str:
    """Say why the rollout's own request can no longer be signed, or nothing."""
    rows = rollout.approvals.filter(kind=Approval.Kind.ROLLOUT, decision="")
    asked = rows.filter(expires_at__gt=database_now()).first()
    if asked is None:
        return _TOO_OLD
    return "" if facts_hold(asked) else _MOVED


def _locked(rollout: Rollout, to: str = "") -> Rollout:
    rows = Rollout.objects.select_for_update(of=("self",))
    rollout = rows.select_related("pool", "new_release", "author").get(pk=rollout.pk)
    if to:
        _demand_move(rollout, to)
    return rollout


def _relocked(approval: Approval) -> Rollout:
    return Rollout.objects.select_related("pool", "new_release", "author").get(
        pk=approval.rollout_id
    )


def _demand_move(rollout: Rollout, to: str) -> None:
    if to not in rules.ROLLOUT_MOVES[rollout.state]:
        raise RolloutRefused([say("The rollout is %(state)s.", state=rollout.state)])


def _waves_build(rollout: Rollout) -> bool:
    """Give each unit of the pool that is not on the release yet a wave, in the order of names; tell whether that
    changed what was planned.
    """
    rows = rollout.waves.filter(is_canary=False)
    before = set(rows.values_list("number", "replica_id", "old_release_id"))
    rows.delete()
    units = sorted(rollout.pool.replicas.filter(is_canary=False), key=_natural)
    releases = dict(
        Launch.objects.filter(replica__in=units, state__in=Launch.LIVE).values_list(
            "replica_id", "release_id"
        )
    )
    todo = [unit for unit in units if releases.get(unit.pk) != rollout.new_release_id]
    Wave.objects.bulk_create(
        Wave(rollout=rollout, number=number, replica=unit, old_release_id=releases.get(unit.pk))
        for number, unit in enumerate(todo, start=1)
    )
    return set(rows.values_list("number", "replica_id", "old_release_id")) != before


def _natural(unit: Replica) -> list[Any]:
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", unit.name)]
