"""What a wave does to its unit: each effect asks another service, and asking it again changes nothing."""

from collections.abc import Callable

from django.db import transaction

from fleet.rules.message import say
from fleet.rules.refusals import Refused
from fleet.services.trail import Actor
from releases.models import Drain, Endpoint, Launch, Release, Rollout, Wave
from releases.rules.waves import BACK, WaveMove
from releases.services.drains import drain_start
from releases.services.endpoints import EndpointMissing, SlotsTaken, endpoint_set
from releases.services.gates import LIVE, GateRefused, gate_cancel, gate_start
from releases.services.launches import LaunchRefused, launch_create, launch_stop
from releases.services.rollout_facts import canary_name
from releases.services.rollout_seen import drain_purpose, scaled, strategy_of
from releases.services.spares import SparesRefused, canary_create, canary_remove


def wave_do(
    *, rollout: Rollout, wave: Wave, move: WaveMove, direction: str, actor: Actor
) -> tuple[str, ...]:
    """Carry out what a move asks for; return sentences of what refused it. Nothing of a refused effect stays."""
    effect = _EFFECTS[move.do]
    try:
        with transaction.atomic():
            effect(rollout, wave, move, direction, actor)
    except (LaunchRefused, SparesRefused, GateRefused) as refusal:
        return tuple(refusal.reasons)
    except SlotsTaken as refusal:
        return (refusal.sentence,)
    except EndpointMissing:
        return (say("%(unit)s is behind no gateway.", unit=_unit_name(wave)),)
    except Refused as refusal:
        return (str(refusal),)
    return ()


def _drain(rollout: Rollout, wave: Wave, move: WaveMove, direction: str, actor: Actor) -> None:
    launch = _live(wave)
    if direction == BACK:
        for run in launch.gate_runs.filter(state__in=LIVE):
            gate_cancel(run=run, reason=move.explanation, actor=actor)
    head = drain_purpose(wave, launch, direction)
    attempt = Drain.objects.filter(purpose__startswith=head).count() + 1
    drain_start(
        launch=launch,
        purpose=f"{head}{attempt}",
        deadline_s=scaled(strategy_of(rollout)).drain_deadline_s,
        actor=actor,
        reason=_reason(rollout, wave),
    )


def _stop(rollout: Rollout, wave: Wave, move: WaveMove, direction: str, actor: Actor) -> None:
    launch_stop(launch=_live(wave), reason=_reason(rollout, wave), actor=actor)


def _launch(rollout: Rollout, wave: Wave, move: WaveMove, direction: str, actor: Actor) -> None:
    release = Release.objects.get(pk=wave.old_release_id if direction == BACK else rollout.new_release_id)  # fmt: skip
    if wave.replica is None:
        wave.replica = canary_create(
            pool=rollout.pool, release=release, name=canary_name(rollout), actor=actor
        )
        wave.save(update_fields=["replica"])
    # No traffic before the gate: the weight is the wave's to give.
    launch_create(replica=wave.replica, release=release, actor=actor, first_weight=0)


def _gate(rollout: Rollout, wave: Wave, move: WaveMove, direction: str, actor: Actor) -> None:
    launch = _live(wave)
    attempt = launch.gate_runs.count() + 1
    gate_start(
        launch=launch,
        purpose=f"{wave.purpose}/gate/{launch.public_id}#{attempt}",
        actor=actor,
        user=rollout.author,
    )


def _weight(rollout: Rollout, wave: Wave, move: WaveMove, direction: str, actor: Actor) -> None:
    endpoint_set(
        launch=_live(wave),
        weight=int(move.value),
        mode=Endpoint.Mode.READY,
        actor=actor,
        reason=_reason(rollout, wave),
        is_return=direction == BACK,
    )


def canary_give_back(*, wave: Wave, actor: Actor) -> None:
    """Free the spares of a canary that is gone; other units keep their nodes."""
    if wave.is_canary and wave.replica is not None:
        canary_remove(replica=wave.replica, actor=actor)


def _live(wave: Wave) -> Launch:
    return wave.replica.launches.select_related("replica__pool", "release").get(
        state__in=Launch.LIVE
    )


def _reason(rollout: Rollout, wave: Wave) -> str:
    return say("Wave %(n)s of %(rollout)s.", n=wave.number, rollout=rollout.public_id)


def _unit_name(wave: Wave) -> str:
    return wave.replica.name if wave.replica else say("the canary")


Effect = Callable[[Rollout, Wave, WaveMove, str, Actor], None]
_EFFECTS: dict[str, Effect] = {
    "drain": _drain,
    "stop": _stop,
    "launch": _launch,
    "gate": _gate,
    "weight": _weight,
}
