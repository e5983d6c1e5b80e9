"""What a rollout stands before: the facts of the guards, and those that people sign. Reads only."""

from dataclasses import asdict
from typing import Any

from django.db.models import Q

from fleet.execution.models import Host
from fleet.models import Member, Pool, Replica
from fleet.rules.message import say
from fleet.selectors.brake import is_braked
from releases.models import GateRun, Rollout, Wave
from releases.rules.rollout import Guard, GuardFacts, guards
from releases.rules.triggers import FIRED, NO_DATA
from releases.rules.waves import AWAITING, PENDING, Strategy
from releases.selectors.incidents import open_incidents
from releases.services.launches import Preview, launch_preview, place_refusals
from releases.services.spares import spare_floor, spares_usable
from releases.services.weights_held import weights_refusals

# A unit that is ready without traffic carries none of what was promised: its gate may have refused it.
COUNTED = frozenset({"serving"})
_OUT = frozenset({"failed", "lost", "hung"})
_UNKNOWN = frozenset({"unseen", "held"})
_SENTENCES = {
    "capacity": say("Serving units left: %(found)s, promised: %(needed)s."),
    "spares": say("Usable spares left: %(found)s, floor: %(needed)s."),
    "incidents": say("Open in this pool: %(found)s."),
    "triggers": say("Triggers have fired: %(found)s."),
    "unknown": say("Not known: %(found)s."),
    "other_rollout": say("%(found)s runs in this pool."),
    "brake": say("The mass-change brake is %(found)s."),
}


def strategy_of(rollout: Rollout) -> Strategy:
    """Return the strategy of a rollout as its rule reads it."""
    return Strategy.from_data(rollout.strategy)


def guard_facts(rollout: Rollout, wave: Wave) -> GuardFacts:
    """Gather what the guards of a wave judge. A constant number of queries, and a plan rendered."""
    return _judged(rollout, wave, _preview(rollout, wave))


def _judged(rollout: Rollout, wave: Wave, preview: Preview | None) -> GuardFacts:
    pool, unit = rollout.pool, wave.replica
    units = list(pool.replicas.all())
    others = [one for one in units if unit is None or one.pk != unit.pk]
    return GuardFacts(
        unit=unit.name if unit else canary_name(rollout),
        old_release=wave.old_release.public_id if wave.old_release else "",
        new_release=rollout.new_release.public_id,
        # That of the release where the nodes are not chosen yet.
        plan_sha256=preview.plan_sha256 if preview else rollout.new_release.content_sha256,
        capacity_after=sum(one.shown_state in COUNTED and not one.is_canary for one in others),
        capacity_promised=pool.promised_units,
        spares_after=spares_usable() - (canary_nodes(rollout) if unit is None else 0),
        spare_floor=spare_floor(),
        open_incidents=incident_names(pool, others),
        fired_triggers=_triggers(rollout, FIRED),
        silent_triggers=_triggers(rollout, NO_DATA),
        unknown_units=tuple(sorted(_unknown(pool, units))),
        other_rollout=_other(rollout),
        is_braked=is_braked(),
    )


def wave_refusals(rollout: Rollout, wave: Wave) -> tuple[str, ...]:
    """Say what keeps a wave from beginning: its guards, and what its unit would wait for once it is stopped."""
    found = unmet_of(guards(guard_facts(rollout, wave)))
    if wave.replica is None:
        return found
    back: list[str] = []
    if wave.old_release is not None:
        seats = wave.replica.members.filter(released_at=None).select_related("node__host")
        nodes = [seat.node for seat in seats]
        back = weights_refusals(wave.old_release, nodes, is_rollback=True)
    return (*found, *place_refusals(replica=wave.replica, release=rollout.new_release), *back)


def out_of_bounds(rollout: Rollout, wave: Wave) -> tuple[str, ...]:
    """Say what a wave that has begun may not go on with: a node of its unit of which nothing is known, and fewer
    other units in service than are promised. Source: RELIABILITY.md section 2 (I8), section 4 (Rollout, paused).

    Nothing of a canary that did its work: it gives its spares back, and no unit of the pool goes out for that.
    """
    if wave.replica is None or wave.state in (PENDING, AWAITING) or is_served(rollout, wave):
        return ()
    units = rollout.pool.replicas.exclude(pk=wave.replica_id).filter(is_canary=False)
    found = sum(one.shown_state in COUNTED for one in units)
    needed = rollout.pool.promised_units
    text = say(
        "Other units in service: %(found)s, promised: %(needed)s.",
        found=found,
        needed=needed,
    )
    return (*_strays(wave.replica), *((text,) if found < needed else ()))


def is_served(rollout: Rollout, wave: Wave) -> bool:
    """Tell whether a wave is a canary that was observed at each of its weights: what is left is to retire it."""
    return wave.is_canary and wave.step >= len(strategy_of(rollout).canary_weights)


def _strays(unit: Replica) -> list[str]:
    """A sentence for each node of a unit that is away, or not proved to be itself. One that missed a probe is not."""
    members = unit.members.filter(released_at=None).select_related("node__host")
    hosts = [member.node.host for member in members.order_by("position")]
    away = [
        say("%(node)s of %(unit)s does not answer.", node=host.name, unit=unit.name)
        for host in hosts
        if host.reach not in (Host.Reach.OK, Host.Reach.SUSPECT)
    ]
    changed = [
        say(
            "%(node)s of %(unit)s: its host key is %(state)s, not pinned.",
            node=host.name,
            unit=unit.name,
            state=host.key_state,
        )
        for host in hosts
        if host.key_state != Host.Key.PINNED
    ]
    return [*away, *changed]


def canary_name(rollout: Rollout) -> str:
    """Return the name of a rollout's own unit: of the pool, and of this rollout only."""
    return f"{rollout.pool.slug}-c{rollout.pk}"


def canary_nodes(rollout: Rollout) -> int:
    """Return how many spares a canary takes."""
    return int(rollout.new_release.content["shape"]["nodes"])


def incident_names(pool: Pool, units: list[Replica]) -> tuple[str, ...]:
    """Return open incidents of the pool, and the units of which one is due: broken, or hanging."""
    broken = sorted(one.name for one in units if one.shown_state in _OUT)
    return (*(incident.name for incident in open_incidents(pool)), *broken)


def wave_facts(rollout: Rollout, wave: Wave) -> dict[str, Any]:
    """Return what the card of a wave shows and its signature binds."""
    preview = _preview(rollout, wave)
    return (
        _shown(_judged(rollout, wave, preview))
        | _work(rollout, wave)
        | {
            "release_sha256": rollout.new_release.content_sha256,
            "commands": _commands(preview),
            "gates": _gates(rollout, wave),
        }
    )


def rollout_facts(rollout: Rollout) -> dict[str, Any]:
    """Return what the card of a whole rollout shows: its units, its strategy, and the facts of its first wave."""
    waves = list(rollout.waves.select_related("replica", "old_release").order_by("number"))
    return (
        _shown(guard_facts(rollout, waves[0]))
        | _work(rollout, waves[0])
        | {
            "strategy": rollout.strategy,
            "release_sha256": rollout.new_release.content_sha256,
            "units": [
                [wave.replica.name, wave.old_release.public_id if wave.old_release else ""]
                for wave in waves
                if wave.replica and not wave.is_canary
            ],
        }
    )


def resume_facts(rollout: Rollout, wave: Wave) -> dict[str, Any]:
    """Return what is signed to go on after a trigger: what fired, and the facts of the wave at work."""
    return wave_facts(rollout, wave) | {"fired": rollout.fired}


def guards_of(facts: dict[str, Any]) -> list[Guard]:
    """Judge the guards of facts as they are stored with a request."""
    values: dict[str, Any] = {name: facts[name] for name in GuardFacts.__dataclass_fields__}
    for name, value in values.items():
        values[name] = tuple(value) if isinstance(value, list) else value
    return guards(GuardFacts(**values))


def unmet_of(found: list[Guard]) -> tuple[str, ...]:
    """Return a sentence for each guard that is not met."""
    return tuple(
        say(_SENTENCES[guard.name], found=guard.found, needed=guard.needed)
        for guard in found
        if not guard.is_met
    )


def _shown(facts: GuardFacts) -> dict[str, Any]:
    return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(facts).items()}


def _work(rollout: Rollout, wave: Wave) -> dict[str, Any]:
    strategy = strategy_of(rollout)
    nodes = [] if wave.replica is None else _nodes(wave.replica)
    weights = strategy.canary_weights if wave.is_canary else strategy.wave_weights
    return {
        "number": wave.number,
        "nodes": nodes,
        "gpus": rollout.pool.unit_gpus,
        "weights": list(weights),
        "observe_s": strategy.observe_s,
        "min_requests": strategy.min_requests,
        "drain_deadline_s": strategy.drain_deadline_s,
    }


def _nodes(replica: Replica) -> list[str]:
    rows = replica.members.filter(released_at=None).order_by("position")
    return list(rows.values_list("node__host__name", flat=True))


def _preview(rollout: Rollout, wave: Wave) -> Preview | None:
    """Render the plan of a wave's unit; None where its nodes are not chosen yet."""
    if wave.replica is None:
        return None
    return launch_preview(replica=wave.replica, release=rollout.new_release)


def _commands(preview: Preview | None) -> list[list[Any]]:
    """Return [node, words] of each node as the plan has them; empty where the nodes are not chosen yet."""
    plan = preview.plan if preview else {}
    return [[place["node"], place["argv"]] for place in plan.get("positions", [])]


def _gates(rollout: Rollout, wave: Wave) -> list[list[str]]:
    """Return [unit, run, state] of the newest ended gate run of every other unit that has the release already."""
    runs = GateRun.objects.filter(
        launch__replica__waves__rollout=rollout,
        launch__release=rollout.new_release_id,
        ended_at__isnull=False,
    ).exclude(launch__replica=wave.replica_id)
    newest = {
        run.launch.replica.name: run
        for run in runs.select_related("launch__replica").order_by("pk")
    }
    return [[unit, run.public_id, run.state] for unit, run in sorted(newest.items())]


def _triggers(rollout: Rollout, state: str) -> tuple[str, ...]:
    return tuple(row["name"] for row in rollout.triggers if row["state"] == state)


def _unknown(pool: Pool, units: list[Replica]) -> set[str]:
    """Units in doubt, and those with a node that does not answer or is not proved to be itself."""
    away = Member.objects.filter(replica__pool=pool, released_at=None).filter(
        ~Q(node__host__reach=Host.Reach.OK) | ~Q(node__host__key_state=Host.Key.PINNED)
    )
    in_doubt = {one.name for one in units if one.shown_state in _UNKNOWN}
    return in_doubt | set(away.values_list("replica__name", flat=True))


def _other(rollout: Rollout) -> str:
    rows = Rollout.objects.filter(pool=rollout.pool_id, state__in=Rollout.LIVE)
    other = rows.exclude(pk=rollout.pk).first()
    return other.public_id if other else ""
