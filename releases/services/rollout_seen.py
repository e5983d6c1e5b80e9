"""Gathers what is known of a rollout's units into the snapshot that its rule decides on. Reads only."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.conf import settings

from fleet.execution.clock import database_now
from fleet.execution.models import Host
from fleet.models import Member
from fleet.rules.message import say
from fleet.selectors.brake import is_braked
from releases.models import Approval, Drain, Endpoint, GateRun, Launch, Rollout, Wave
from releases.rules import rollout as rules
from releases.rules.triggers import unread
from releases.rules.waves import AWAITING, BACK, FORWARD, PENDING, Strategy, UnitSeen, WaveSeen
from releases.selectors.gate_proof import gate_counting
from releases.services.approvals import facts_digest
from releases.services.drains import is_out_of_traffic
from releases.services.endpoints import endpoint_agrees
from releases.services.rollout_facts import (
    incident_names,
    is_served,
    out_of_bounds,
    strategy_of,
    wave_facts,
    wave_refusals,
)


def waves_of(rollout: Rollout) -> list[Wave]:
    """Return the waves in their order, with what the snapshot needs of them."""
    # Their old releases are few and their pool is one: neither is built a thousand times.
    rows = rollout.waves.select_related("replica").prefetch_related("old_release")
    waves = list(rows.order_by("number"))
    for wave in waves:
        if wave.replica is not None:
            wave.replica.pool = rollout.pool
    return waves


def rollout_seen(rollout: Rollout, waves: list[Wave], fired: str) -> rules.RolloutSeen:
    """Build the snapshot of one tick. `fired`: the sentence of a trigger that fires now."""
    strategy = scaled(strategy_of(rollout))
    units, first, now = _units(rollout, waves), at_work(waves), database_now()
    seen = tuple(
        _wave(rollout, wave, units[wave.number], strategy, now, is_next=wave is first)
        for wave in waves
    )
    is_running = rollout.state == rules.RUNNING
    bounds = out_of_bounds(rollout, first) if is_running and first else ()
    return rules.RolloutSeen(
        state=rollout.state,
        waves=seen,
        strategy=strategy,
        fired=rollout.fired or fired,
        guards_unmet=_unmet(rollout, waves, seen) if is_running else (),
        is_braked=is_braked(),
        is_incident_open=_incident(rollout, waves) if is_running else "",
        out_of_bounds=bounds,
    )


def scaled(strategy: Strategy) -> Strategy:
    """Return a strategy with the waiting times of this console's clock."""
    return replace(
        strategy,
        observe_s=strategy.observe_s / settings.TIME_SCALE,
        drain_deadline_s=strategy.drain_deadline_s / settings.TIME_SCALE,
    )


def direction_of(rollout: Rollout, wave: Wave) -> str:
    """Return which way a wave goes; a canary that every other wave has passed goes back too."""
    is_over = rollout.state == rules.ROLLING_BACK or is_served(rollout, wave)
    return BACK if is_over else FORWARD


def at_work(waves: list[Wave]) -> Wave | None:
    """Return the wave that is not over yet, the first of them."""
    over = {Wave.State.PASSED, Wave.State.SKIPPED, Wave.State.RETIRED, Wave.State.UNDONE}
    return next((wave for wave in waves if wave.state not in over), None)


@dataclass(frozen=True)
class Start:
    """Whether a wave may begin; `void` says why a signature that was given does not let it."""

    is_open: bool
    void: str = ""


def wave_start(rollout: Rollout, wave: Wave) -> Start:
    """Tell whether a wave may begin: it has begun, the rollout's own signature covers it, or its own does.

    A signature of facts that are no longer so, or one that is older than its 24 hours, opens nothing.
    """
    if wave.state not in (PENDING, AWAITING):
        return Start(True)
    if wave.is_canary or strategy_of(rollout).approve == "canary":
        return Start(True)
    signed = wave.approvals.filter(kind=Approval.Kind.WAVE).first()
    if signed is None or signed.decision != Approval.Decision.APPROVED:
        return Start(False)
    if signed.expires_at <= database_now():
        text = say(
            "What was signed for wave %(n)s is older than 24 hours: it has to be asked for again.",
            n=wave.number,
        )
        return Start(False, text)
    if signed.facts_digest == facts_digest(wave_facts(rollout, wave)):
        return Start(True)
    text = say(
        "What was signed for wave %(n)s is not so any more: it has to be asked for again.",
        n=wave.number,
    )
    return Start(False, text)


def _wave(
    rollout: Rollout, wave: Wave, unit: UnitSeen, strategy: Strategy, now: datetime, is_next: bool
) -> WaveSeen:
    # Only one wave begins at a time: what is signed for the others is not asked before.
    start = wave_start(rollout, wave) if is_next else Start(False)
    return WaveSeen(
        number=wave.number,
        unit=wave.replica.name if wave.replica else say("the canary"),
        is_canary=wave.is_canary,
        state=wave.state,
        step=wave.step,
        now=now,
        observing_since=wave.observing_since,
        requests=_requests_since(wave),
        has_start=start.is_open,
        void=start.void,
        old_release=wave.old_release.public_id if wave.old_release else "",
        new_release=rollout.new_release.public_id,
        seen=unit,
        strategy=strategy,
        unread=unread(rollout.triggers),
    )


def _requests_since(wave: Wave) -> int | None:
    if wave.observing_since is None:
        return None
    requests = requests_of(wave)
    return None if requests is None else requests - wave.requests_at_since


def requests_of(wave: Wave) -> int | None:
    """Return how many requests the endpoint of a wave's unit has had; None while it is behind no gateway."""
    rows = Endpoint.objects.filter(launch__replica=wave.replica_id, launch__state__in=Launch.LIVE)
    return rows.values_list("requests", flat=True).first()


# -- units


def _units(rollout: Rollout, waves: list[Wave]) -> dict[int, UnitSeen]:
    movable = {wave.number: wave for wave in _movable(waves)}
    ids = [wave.replica_id for wave in movable.values() if wave.replica_id]
    launches = Launch.objects.filter(replica__in=ids, state__in=Launch.LIVE)
    live = {one.replica_id: one for one in launches.select_related("release", "endpoint")}
    away = _away(ids)
    seen = {
        number: _unit(rollout, wave, live.get(wave.replica_id), wave.replica_id not in away)
        for number, wave in movable.items()
    }
    return {wave.number: seen.get(wave.number, UnitSeen()) for wave in waves}


def _movable(waves: list[Wave]) -> list[Wave]:
    """The waves of which one tick may move one; of the others nothing but their state is asked for."""
    touched = (wave for wave in reversed(waves) if wave.state not in rules.UNTOUCHED)
    candidates = (at_work(waves), next(touched, None), *(w for w in waves if w.is_canary))
    return [wave for wave in candidates if wave is not None]


def _away(replica_ids: list[int]) -> set[int]:
    rows = Member.objects.filter(replica__in=replica_ids, released_at=None).exclude(
        node__host__reach=Host.Reach.OK, node__host__key_state=Host.Key.PINNED
    )
    return set(rows.values_list("replica_id", flat=True))


def _unit(rollout: Rollout, wave: Wave, launch: Launch | None, is_known: bool) -> UnitSeen:
    if launch is None:
        return UnitSeen(is_known=is_known, **_failure(rollout, wave))
    gate = newest_gate(rollout, launch)
    endpoint: Endpoint | None = getattr(launch, "endpoint", None)
    is_open = endpoint is not None and endpoint.mode == Endpoint.Mode.READY
    return UnitSeen(
        release=launch.release.public_id,
        launch=launch.state,
        drain=_drain(wave, launch, direction_of(rollout, wave)),
        gate=gate.state if gate else "",
        gate_explanation=gate.explanation if gate else "",
        weight=endpoint.weight if endpoint and is_open else 0,
        weight_agrees=bool(endpoint and is_open and endpoint_agrees(endpoint)),
        is_known=is_known,
    )


def _failure(rollout: Rollout, wave: Wave) -> dict[str, Any]:
    """The newest launch of the unit, when it failed since the rollout was set going: going on tries it again."""
    newest = (
        Launch.objects.filter(replica=wave.replica_id, created_at__gte=rollout.state_at)
        .select_related("release")
        .first()
        if wave.replica_id
        else None
    )
    if newest is None or newest.state != Launch.State.FAILED:
        return {}
    return {
        "failed_release": newest.release.public_id,
        "failure": newest.cause or newest.explanation,
    }


def newest_gate(rollout: Rollout, launch: Launch) -> GateRun | None:
    """Return the gate run that counts for a launch: a passed or open one, or one since the rollout was set going."""
    run = gate_counting(launch)
    counts = (GateRun.State.PASSED, GateRun.State.QUEUED, GateRun.State.RUNNING)
    if run is None or (run.state not in counts and run.created_at < rollout.state_at):
        return None
    return run


def drain_purpose(wave: Wave, launch: Launch, direction: str) -> str:
    """Return the head of the purposes of a wave's drains of one launch, one way."""
    return f"{wave.purpose}/{direction}/drain/{launch.public_id}#"


def _drain(wave: Wave, launch: Launch, direction: str) -> str:
    """The state of this wave's own drain, or of one that is open; what was taken back is none."""
    rows = launch.drains.order_by("-pk")
    found = rows.filter(ended_at=None).first() or rows.first()
    if found is None or found.state == Drain.State.CANCELLED:
        return ""
    if found.ended_at is None:
        return found.state
    is_own = found.purpose.startswith(drain_purpose(wave, launch, direction))
    return found.state if is_own and is_out_of_traffic(launch) else ""


# -- what stands against going on


def _unmet(rollout: Rollout, waves: list[Wave], seen: tuple[WaveSeen, ...]) -> tuple[str, ...]:
    """Judge the guards of the wave that would start now; one that has begun is not held by them."""
    wave = at_work(waves)
    if wave is None or wave.state not in (PENDING, AWAITING):
        return ()
    if not next(one.has_start for one in seen if one.number == wave.number):
        return ()
    return wave_refusals(rollout, wave)


def _incident(rollout: Rollout, waves: list[Wave]) -> str:
    """What is open or broken in the pool; the unit at work is judged by its own wave."""
    wave = at_work(waves)
    own = wave.replica_id if wave else None
    units = [one for one in rollout.pool.replicas.all() if one.pk != own]
    names = incident_names(rollout.pool, units)
    return say("Open in this pool: %(found)s.", found=", ".join(names)) if names else ""


def rolled_back_proof(waves: list[Wave]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Read the touched units anew: what each runs and gets, and sentences for those that are not as before."""
    proof: dict[str, Any] = {}
    wrong: list[str] = []
    for wave in waves:
        if wave.state not in (Wave.State.UNDONE, Wave.State.RETIRED) or wave.replica is None:
            continue
        launch = (
            wave.replica.launches.filter(state__in=Launch.LIVE)
            .select_related("release", "endpoint")
            .first()
        )
        proof[wave.replica.name] = _proof_of(launch)
        if not _is_as_before(wave, launch):
            wrong.append(say("%(unit)s is not as it was before.", unit=wave.replica.name))
    return proof, tuple(wrong)


def _is_as_before(wave: Wave, launch: Launch | None) -> bool:
    if wave.old_release_id is None:
        return launch is None
    if launch is None or launch.state != Launch.State.READY:
        return False
    endpoint: Endpoint | None = getattr(launch, "endpoint", None)
    return (
        launch.release_id == wave.old_release_id
        and endpoint is not None
        and endpoint.mode == Endpoint.Mode.READY
        and endpoint.weight > 0
        and endpoint_agrees(endpoint)
    )


def _proof_of(launch: Launch | None) -> dict[str, Any]:
    if launch is None:
        return {"launch": None}
    endpoint: Endpoint | None = getattr(launch, "endpoint", None)
    seen_at: datetime | None = endpoint.seen_at if endpoint else None
    return {
        "launch": launch.public_id,
        "release": launch.release.public_id,
        "generation": launch.generation,
        "weight_read": endpoint.seen_weight if endpoint else None,
        "read_at": seen_at.isoformat() if seen_at else None,
    }
