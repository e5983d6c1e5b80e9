"""The actions of the catalogue: each begins once for an attempt, and is asked at each tick whether its proof is there.

`begin` may be repeated after a crash: it only calls services that take a purpose or find what is done already.
Nothing here waits; a poll returns None while the proof is missing, and the run's tick ends it at its deadline.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings

from fleet.execution.clock import database_now
from fleet.execution.models import Command, Scrape
from fleet.models import Evidence, Hold, Node, Replica
from fleet.rules.message import say
from fleet.services.holds import hold_add
from fleet.services.trail import Actor
from releases.models import Endpoint, Launch
from releases.rules.triggers import GOLDEN_MISSES
from releases.services import launch_effects
from releases.services.endpoints import endpoint_agrees, endpoint_of, endpoint_set
from releases.services.evidence import command_freeze, stored_log_freeze
from releases.services.launch_effects import purpose_of
from releases.services.launches import launch_create, launch_stop
from releases.services.spares import unit_to_spares
from runbooks.models import Incident
from runbooks.rules.incident import MITIGATED
from runbooks.services.incidents import incident_move
from runbooks.services.outcome import Outcome, Work, failed, passed, unknown


@dataclass(frozen=True)
class Effect:
    begin: Callable[[Work], None]
    poll: Callable[[Work], Outcome | None]


# -- traffic


def _weight_begin(work: Work) -> None:
    launch = live_launch(work)
    if launch and endpoint_of(launch):
        endpoint_set(
            launch=launch,
            weight=int(work.args["percent"]),
            actor=_actor(work),
            reason=_reason(work),
        )


def _weight_poll(work: Work) -> Outcome | None:
    launch = live_launch(work)
    if launch is None:
        return passed(say("Nothing of the unit runs, so nothing is sent to it."))
    endpoint = endpoint_of(launch)
    if endpoint is None:
        return passed(say("The unit is behind no gateway, so nothing is sent to it."))
    percent = int(work.args["percent"])
    if endpoint.weight != percent:
        return failed(say("Somebody else wants %(weight)s %% now.", weight=endpoint.weight))
    if endpoint_agrees(endpoint):
        return passed(say("%(weight)s %% read back.", weight=percent), weight=percent)
    return None


def _ramp_begin(work: Work) -> None:
    _ramp_to(work, 0)


def _ramp_poll(work: Work) -> Outcome | None:
    """Raise to the next step once the present one was read back and its dwell is over."""
    launch = live_launch(work)
    endpoint = launch and endpoint_of(launch)
    if not launch or not endpoint:
        return failed(say("The unit is behind no gateway any more."))
    if (golden := golden_row(launch)) and golden.misses >= GOLDEN_MISSES:
        endpoint_set(launch=launch, weight=0, actor=_actor(work), reason=golden.error)
        return failed(say("The golden probe failed: %(why)s", why=golden.error))
    steps, facts = work.args["steps"], work.step.facts
    index = int(facts.get("index", 0))
    wanted = endpoint.weight if endpoint.mode == Endpoint.Mode.READY else 0
    if wanted != int(steps[index]):
        return failed(say("Somebody else wants %(weight)s %% now.", weight=wanted))
    if not endpoint_agrees(endpoint):
        return None
    since = facts.get("since")
    if since is None:
        _remember(work, since=database_now().isoformat())
        return None
    if not _has_dwelt(work, datetime.fromisoformat(since), golden):
        return None
    if index + 1 >= len(steps):
        return passed(say("%(weight)s %% read back.", weight=steps[index]), weight=steps[index])
    _ramp_to(work, index + 1)
    return None


def _has_dwelt(work: Work, since: datetime, golden: Scrape | None) -> bool:
    """Tell whether a weight stood for its dwell, and the golden prompt was answered exactly in that time."""
    dwell = timedelta(seconds=float(work.args["dwell_s"]) / settings.TIME_SCALE)
    if golden is None or golden.ok_at is None or golden.misses:
        return False
    return golden.ok_at >= since and database_now() - since >= dwell


def _ramp_to(work: Work, index: int) -> None:
    launch = live_launch(work)
    if launch and endpoint_of(launch):
        weight = int(work.args["steps"][index])
        endpoint_set(launch=launch, weight=weight, actor=_actor(work), reason=_reason(work))
    _remember(work, index=index, since=None)


# -- evidence


def _freeze_begin(work: Work) -> None:
    if launch := live_launch(work):
        launch_effects.dispatch_evidence(launch, since=began_at(work))


def _freeze_poll(work: Work) -> Outcome | None:
    launch = live_launch(work)
    if launch is None:
        return passed(say("Nothing of the unit runs; what was frozen before stands."))
    commands = launch_effects.evidence_asked(launch, since=began_at(work))
    if not commands:
        return unknown(say("The unit has no nodes to ask."))
    if not all(command.is_settled for command in commands):
        return None
    frozen = [piece.pk for piece in _freeze(launch, commands, began_at(work))]
    silent = [command.host.name for command in commands if command.state != "succeeded"]
    if silent:
        text = say("%(nodes)s did not answer.", nodes=", ".join(sorted(set(silent))))
        return Outcome(unknown("").state, text, {}, frozen)
    return Outcome(passed().state, say("%(count)s pieces sealed.", count=len(frozen)), {}, frozen)


def _freeze(launch: Launch, commands: list[Command], since: datetime) -> list[Evidence]:
    frozen = []
    for place in launch.positions.select_related("node__host", "subject"):
        log = stored_log_freeze(launch=launch, place=place, since=since) if place.subject else None
        frozen += [log] if log else []
        for command in commands:
            if command.host_id == place.node.host_id:
                frozen += command_freeze(launch=launch, place=place, command=command)
    return frozen


def began_at(work: Work) -> datetime:
    """Return when what the run is about began: its incident, or the run itself without one."""
    run = work.step.run
    return run.incident.began_at if run.incident else run.created_at


# -- the unit


def _stop_begin(work: Work) -> None:
    if launch := live_launch(work):
        _remember(work, release=launch.release_id, generation=launch.generation)
        launch_stop(launch=launch, reason=_reason(work), actor=_actor(work), is_now=True)


def _stop_poll(work: Work) -> Outcome | None:
    if live_launch(work):
        return None
    return passed(say("Every rank is proved gone."))


def _rebuild_begin(work: Work) -> None:
    replica = unit_of(work)
    newest = replica.launches.order_by("-generation").select_related("release").first()
    if newest is None:
        return  # never launched: the poll says so
    exclude = frozenset(_named(work.args["exclude"]))
    unit_to_spares(replica=replica, exclude=exclude, actor=_actor(work))
    launch_create(replica=unit_of(work), release=newest.release, actor=_actor(work), first_weight=0)


def _rebuild_poll(work: Work) -> Outcome | None:
    newest = unit_of(work).launches.order_by("-generation").select_related("release").first()
    if newest is None or newest.created_at < work.step.started_at:
        return failed(say("No new generation was launched."))
    facts = {"launch": newest.public_id, "generation": newest.generation}
    if newest.state == Launch.State.READY:
        text = say(
            "Generation %(generation)s of %(release)s answers every golden prompt.",
            generation=newest.generation,
            release=newest.release.public_id,
        )
        return passed(text, **facts)
    if newest.state in (Launch.State.FAILED, Launch.State.STOPPED):
        return failed(newest.explanation, **facts)
    return None


# -- nodes and the incident


def _cordon_begin(work: Work) -> None:
    for node in _nodes(work):
        if not _held(node, work):
            hold_add(
                node=node,
                kind=Hold.Kind.CORDON,
                reason=_cordon_reason(work),
                actor=_actor(work),
            )


def _cordon_poll(work: Work) -> Outcome | None:
    nodes = _nodes(work)
    if strange := set(_named(work.args["node"])) - {node.name for node in nodes}:
        names = ", ".join(sorted(strange))
        return failed(say("No node of the name %(name)s is known.", name=names))
    free = [node.name for node in nodes if not _held(node, work)]
    if free:
        return failed(say("No hold of this run on: %(nodes)s.", nodes=", ".join(free)))
    return passed(say("Cordoned: %(nodes)s.", nodes=", ".join(node.name for node in nodes)))


def _mitigate_begin(work: Work) -> None:
    if work.step.run.incident:
        incident_move(incident=work.step.run.incident, to=MITIGATED, actor=_actor(work))


def _mitigate_poll(work: Work) -> Outcome | None:
    incident = Incident.objects.filter(pk=work.step.run.incident_id).first()
    if incident and incident.mitigated_at:
        return passed(say("%(incident)s is mitigated.", incident=incident.public_id))
    return failed(say("The run belongs to no incident."))


EFFECTS: dict[str, Effect] = {
    "weight_set": Effect(_weight_begin, _weight_poll),
    "weight_ramp": Effect(_ramp_begin, _ramp_poll),
    "evidence_freeze": Effect(_freeze_begin, _freeze_poll),
    "unit_stop": Effect(_stop_begin, _stop_poll),
    "unit_rebuild": Effect(_rebuild_begin, _rebuild_poll),
    "node_cordon": Effect(_cordon_begin, _cordon_poll),
    "incident_mitigate": Effect(_mitigate_begin, _mitigate_poll),
}


def unit_of(work: Work) -> Replica:
    """Return the unit that the step's argument names, else the run's. Raises Replica.DoesNotExist."""
    name = work.args.get("unit")
    if name is None:
        return Replica.objects.get(pk=work.step.run.replica_id)
    return Replica.objects.get(name=name)


def live_launch(work: Work) -> Launch | None:
    """Return what runs of the unit now, or None."""
    rows = unit_of(work).launches.filter(state__in=Launch.LIVE)
    return rows.select_related("replica__pool", "release").first()


def golden_row(launch: Launch) -> Scrape | None:
    """Return the recurring golden probe of a launch, or None before it is asked."""
    return Scrape.objects.filter(key=purpose_of(launch, "golden")).first()


def _nodes(work: Work) -> list[Node]:
    rows = Node.objects.filter(host__name__in=_named(work.args["node"]))
    return list(rows.select_related("host").order_by("pk"))


def _named(value: object) -> list[str]:
    """Return the names of an argument that may name several, with commas between."""
    return [name.strip() for name in str(value).split(",") if name.strip()]


def _held(node: Node, work: Work) -> bool:
    return node.holds.filter(lifted_at=None, reason=_cordon_reason(work)).exists()


def _cordon_reason(work: Work) -> str:
    return f"{work.step.run.public_id}: {work.args['reason']}"


def _remember(work: Work, **facts) -> None:
    work.step.facts = {**work.step.facts, **facts}
    work.step.save(update_fields=["facts"])


def _actor(work: Work) -> Actor:
    return Actor(name=work.actor_name, source="rule")


def _reason(work: Work) -> str:
    return f"{work.step.run.public_id} {work.step.step_id}"
