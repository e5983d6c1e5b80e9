"""The one door through which a launch changes its state, with its unit, the
trail, the doorbell and the effects that belong to the new state."""

from functools import partial

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now

from fleet.doorbell import ring
from fleet.models import Replica
from fleet.services.replicas import members_free, replica_move
from fleet.services.trail import Actor, trail_add
from releases.models import Launch
from releases.rules import launch as rules
from releases.services.launch_entries import state_enter
from releases.signals import unit_troubled

# What the unit is while its launch is there; a unit gets traffic (serving) only from the gateway.
_UNIT_STATE = {
    rules.STARTING: Replica.State.LAUNCHING,
    rules.WARMING: Replica.State.WARMING,
    rules.READY: Replica.State.READY,
    rules.FREEZING: Replica.State.FAILED,
    rules.STOPPING: Replica.State.STOPPING,
    rules.STOPPED: Replica.State.STOPPED,
    rules.FAILED: Replica.State.FAILED,
}


class IllegalMove(Exception):
    """A move that the launch's state table does not have: a fault of ours, never of the operator."""


@transaction.atomic
def launch_move(
    *,
    launch: Launch,
    to: str,
    explanation: str,
    actor: Actor,
    cause: str = "",
    reason: str = "",
    is_reboot: bool = False,
) -> bool:
    """Move a launch by compare-and-swap; False when somebody else moved it first.

    `is_reboot`: it is taken down because its node was started again (rules.Move).
    """
    before = launch.state
    if to not in rules.LAUNCH_MOVES[before]:
        raise IllegalMove(f"{launch}: {before} > {to} is not in the table")
    changes = {
        "state": to,
        "explanation": explanation,
        "state_at": Now(),
        "version": F("version") + 1,
    }
    if cause:
        changes["cause"] = cause
    if to == rules.READY:
        changes["ready_at"] = Now()
    if to in rules.ENDED:
        changes["ended_at"] = Now()
    if not Launch.objects.filter(pk=launch.pk, state=before).update(**changes):
        return False
    launch.refresh_from_db()
    trail_add(
        actor=actor,
        verb=f"launch.{to}",
        object_kind="launch",
        object_id=launch.public_id,
        reason=reason or cause,
        before={"state": before},
        after={"state": to},
    )
    _move_unit(launch, to, explanation, actor, is_reboot)
    state_enter(launch, before)
    if to == rules.FREEZING:
        troubled_tell(launch)
    ring(launch.topic, f"replica-{launch.replica.name}", "fleet")
    return True


def troubled_tell(launch: Launch) -> None:
    """Tell on commit that somebody may have to look at the unit of this launch."""
    tell = partial(unit_troubled.send_robust, sender=Launch, launch_id=launch.pk)
    transaction.on_commit(tell, robust=True)


def _move_unit(launch: Launch, to: str, explanation: str, actor: Actor, is_reboot: bool) -> None:
    if to in rules.ENDED:
        members_free(replica=launch.replica)
    # A unit that failed stays failed while its ranks are being stopped.
    unit_state = Replica.State.FAILED if launch.cause else _UNIT_STATE.get(to)
    if unit_state:
        replica_move(
            replica=launch.replica,
            to=unit_state,
            explanation=explanation,
            actor=actor,
            is_reboot_proved=is_reboot,
        )
