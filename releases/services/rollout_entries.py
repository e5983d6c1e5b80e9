"""What belongs to entering a state of a rollout; rollout_moves calls it in the transaction of the move.

A rollout that halts or turns back leaves nothing behind that begins later: what its waves asked for and no node has
begun is taken back. What runs on nodes is left to run; going on finds what is missing and asks for it again.
"""

from fleet.rules.message import say
from fleet.services.trail import Actor
from releases.models import Endpoint, Launch, Rollout, Wave
from releases.rules import launch as launch_rules
from releases.rules import rollout as rules
from releases.services.endpoints import endpoint_of, endpoint_set
from releases.services.gates import LIVE, gate_cancel
from releases.services.launches import launch_stop

_BEFORE_START = frozenset({launch_rules.CREATED, launch_rules.PREFLIGHT})


def state_enter(rollout: Rollout, actor: Actor) -> None:
    """Do what belongs to the new state; the caller holds the rollout's row."""
    if rollout.state not in (rules.PAUSED, rules.ROLLING_BACK):
        return
    for wave in rollout.waves.exclude(replica=None).select_related("replica").order_by("number"):
        launch = wave.replica.launches.filter(state__in=Launch.LIVE).first()
        if launch is not None and (told := _take_back(rollout, wave, launch, actor)):
            Wave.objects.filter(pk=wave.pk).update(explanation=told)


def _take_back(rollout: Rollout, wave: Wave, launch: Launch, actor: Actor) -> str:
    """Return a sentence on what was taken back of a wave, or nothing."""
    unit, reason = wave.replica.name, say("%(rollout)s halts.", rollout=rollout.public_id)
    if launch.release_id == rollout.new_release_id and not _has_started(launch):
        launch_stop(launch=launch, reason=reason, actor=actor)
        return say("Halted before %(unit)s was started: nothing runs there.", unit=unit)
    # A canary drains to give its spares back: it needs no traffic again, the less when its release is why it halts.
    is_old = launch.release_id != rollout.new_release_id
    if rollout.state == rules.PAUSED and is_old and _is_drained_by(wave, launch):
        # Nobody has to lose a request while people decide. On the way back the wave's rule does this itself.
        endpoint_set(
            launch=launch, mode=Endpoint.Mode.READY, actor=actor, reason=reason, is_return=True
        )
        return say("Halted while %(unit)s drained: it is in traffic again.", unit=unit)
    runs = list(launch.gate_runs.filter(state__in=LIVE, purpose__startswith=f"{wave.purpose}/"))
    for run in runs:
        gate_cancel(run=run, reason=reason, actor=actor)
    return say("Halted: the gate of %(unit)s was cancelled.", unit=unit) if runs else ""


def _has_started(launch: Launch) -> bool:
    """Tell whether every rank was started, or may have been: a unit of which a part was not never comes up."""
    if launch.state == launch_rules.STARTING:
        return not launch.positions.filter(start__sent_at=None).exists()
    return launch.state not in _BEFORE_START


def _is_drained_by(wave: Wave, launch: Launch) -> bool:
    """Tell whether a wave has taken a unit that still runs out of traffic, wholly or not yet."""
    endpoint = endpoint_of(launch)
    if launch.state != launch_rules.READY or endpoint is None:
        return False
    drain = launch.drains.order_by("-pk").first()
    is_own = drain is not None and drain.purpose.startswith(f"{wave.purpose}/")
    # One without weight got none before either, or lost it because it hangs.
    return is_own and endpoint.weight > 0 and endpoint.mode != Endpoint.Mode.READY
