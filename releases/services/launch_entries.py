"""What belongs to entering a state of a launch; launch_moves calls it in the transaction of the move."""

from datetime import timedelta

from fleet.execution.clock import database_now
from fleet.services.trail import rule_actor
from releases.models import Launch
from releases.rules import launch as rules
from releases.services import launch_effects as effects
from releases.services.endpoints import SlotsTaken, endpoint_close, endpoint_open
from releases.services.evidence import command_freeze, stored_log_freeze
from releases.services.launch_limits import limits
from releases.services.launch_log import phase_open, phases_close


def state_enter(launch: Launch, before: str) -> None:
    """Do what belongs to the new state, in the transaction of the move."""
    if launch.state in rules.ENDED | {rules.FREEZING, rules.STOPPING}:
        effects.cancel_questions(launch)
    if launch.state == rules.PREFLIGHT:
        effects.dispatch_preflight(launch)
    elif launch.state == rules.STARTING:
        deadline = database_now() + timedelta(seconds=limits().start_window_s)
        Launch.objects.filter(pk=launch.pk).update(start_deadline_at=deadline)
        effects.dispatch_starts(launch)
    elif launch.state == rules.LOADING:
        effects.dispatch_identity(launch, range(len(launch.plan["positions"])))
    elif launch.state == rules.WARMING:
        effects.dispatch_golden(launch, attempt=1)
        phase_open(launch.positions.get(position=0), "golden", database_now())
    elif launch.state == rules.READY:
        phases_close(launch, database_now())
        effects.watch_endpoint(launch)
        _put_behind_gateway(launch)
    elif launch.state == rules.FREEZING:
        # Before anything else: from now on whoever asks it is lost.
        endpoint_close(launch=launch, actor=rule_actor("launch-freezing"))
        phases_close(launch, database_now())
        effects.unwatch_endpoint(launch)
        effects.dispatch_evidence(launch, since=launch.state_at)
        _freeze_stored_logs(launch)
    elif launch.state == rules.STOPPING:
        endpoint_close(launch=launch, actor=rule_actor("launch-stopping"))
        if before == rules.FREEZING:
            _freeze_outputs(launch)
        effects.unwatch_endpoint(launch)
        effects.dispatch_stops(launch, attempt=1)


def _put_behind_gateway(launch: Launch) -> None:
    try:
        endpoint_open(launch=launch, actor=rule_actor("launch-ready"))
    except SlotsTaken:
        return  # the gateway's tick opens it when a slot is free, and its page says so


def _freeze_stored_logs(launch: Launch) -> None:
    for place in launch.positions.exclude(subject=None).select_related("node__host", "subject"):
        stored_log_freeze(launch=launch, place=place, since=launch.state_at)


def _freeze_outputs(launch: Launch) -> None:
    for place in launch.positions.select_related("node__host", "subject"):
        for command in effects.commands_of(launch, f"evidence/{place.position}/"):
            command_freeze(launch=launch, place=place, command=command)
