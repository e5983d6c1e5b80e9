"""A pool of the lab that serves through its gateway, and what people do to take it to another release."""

from __future__ import annotations

import contextlib
from typing import Any

from fleet.rules.message import said
from tests.factories import make_actor

PATIENCE_S = 600.0  # many launches one after the other, on a busy machine
# A window is as long as a test says; how many ask in it is the chance of the machine.
STRATEGY = {
    "canary_weights": [5],
    "wave_weights": [10, 100],
    "min_requests": 0,
    "drain_deadline_s": 300,
}


def serving_pool(console, units: int = 2) -> Any:
    """Units of one node that serve their first release through the gateway; the nodes besides are spares."""
    from fleet.models import Member, Node, Pool, Replica
    from releases.models import Release
    from releases.services.gateway_seed import gateway_seed
    from releases.services.launches import launch_create

    Member.objects.all().delete()
    spares = Node.objects.count() - units
    Pool.objects.filter(is_spare=True).update(spare_floor=spares - 1)
    Pool.objects.filter(slug="dsv4").update(promised_units=units - 1)
    pool = Pool.objects.get(slug="dsv4")
    gateway_seed(console.lab.gateway_row(), actor=make_actor("rule:seed"))
    old = Release.objects.filter(pool=pool).order_by("pk").first()
    for number, node in enumerate(Node.objects.order_by("pk")[:units], start=1):
        unit, _ = Replica.objects.get_or_create(name=f"dsv4-r{number}", defaults={"pool": pool})
        Member.objects.create(replica=unit, node=node, position=0)
        launch_create(replica=unit, release=old, actor=make_actor())
    wanted = {f"dsv4-r{number + 1}": old.pk for number in range(units)}
    console.until(lambda: serving(pool) == wanted, "all units to serve", PATIENCE_S)
    return pool


def serving_unit(console) -> Any:
    """The launch of a pool's only unit, in traffic on two nodes; the nodes besides are spares."""
    from fleet.models import Member
    from releases.models import Launch, Release
    from releases.services.gateway_seed import gateway_seed
    from releases.services.launches import launch_create

    gateway_seed(console.lab.gateway_row(), actor=make_actor("rule:seed"))
    replica = Member.objects.filter(replica__name="glm52-r1").first().replica
    Member.objects.exclude(replica=replica).delete()
    release = Release.objects.filter(pool=replica.pool).order_by("pk").first()
    launch = launch_create(replica=replica, release=release, actor=make_actor())

    def serves() -> bool:
        launch.refresh_from_db()
        assert launch.state in Launch.LIVE, said(launch.cause)
        return Launch.objects.get(pk=launch.pk).replica.shown_state == "serving"

    console.until(serves, "the unit to serve", PATIENCE_S)
    return launch


def serving(pool) -> dict[str, int]:
    """Units that serve by the proxy's own word, with their release."""
    from releases.models import Endpoint

    rows = Endpoint.objects.filter(launch__replica__pool=pool, seen_mode="ready", seen_weight=100)
    return dict(rows.values_list("launch__replica__name", "launch__release_id"))


def person(name: str) -> Any:
    from django.contrib.auth import get_user_model

    return get_user_model().objects.get(username=name)


def started(pool, has_canary: bool = True, **strategy: Any) -> Any:
    """Made and submitted by Ana, signed by Bo, started by Ana."""
    from releases.models import Release
    from releases.services import rollouts

    release = Release.objects.filter(pool=pool).order_by("pk").last()
    ana = {"actor": make_actor("ana"), "user": person("ana")}
    rollout = rollouts.rollout_create(
        pool=pool, release=release, strategy=STRATEGY | strategy, reason="other arguments",
        has_canary=has_canary, **ana,
    )  # fmt: skip
    rollouts.rollout_submit(rollout=rollout, **ana)
    sign(rollout)
    return rollouts.rollout_start(rollout=rollout, actor=make_actor("ana"))


def sign(rollout) -> None:
    from releases.services.approvals import approval_decide

    asked = rollout.approvals.get(decision="")
    approval_decide(
        approval=asked, decision="approved", facts_digest=asked.facts_digest, reason="",
        actor=make_actor("bo"), user=person("bo"),
    )  # fmt: skip


def open_waves(rollout) -> None:
    """Ask for the wave that waits and let Bo sign it; a guard that is not met yet is asked again later."""
    from releases.services.approvals import FactsMoved
    from releases.services.rollouts import RolloutRefused, wave_ask

    rollout.refresh_from_db()
    wave = rollout.waves.filter(state="awaiting_approval").first()
    if rollout.state != "running" or wave is None:
        return
    if wave.approvals.filter(decision="approved").exists():
        return
    try:
        wave_ask(
            rollout=rollout, number=wave.number, reason="quiet", actor=make_actor("ana"),
            user=person("ana"),
        )  # fmt: skip
        sign(rollout)
    except (RolloutRefused, FactsMoved):
        pass


def go_on_when_known(rollout) -> None:
    """Let Ana go on with a rollout that paused because its units were not seen for a while, and no trigger fired."""
    from releases.services.rollouts import RolloutRefused, rollout_resume

    if rollout.state == "paused" and not rollout.fired:
        with contextlib.suppress(RolloutRefused):
            rollout_resume(
                rollout=rollout, reason="seen again", actor=make_actor("ana"), user=person("ana")
            )


def until_state(console, rollout, wanted: str) -> None:
    """Let the rollout come to a state, its waves signed as they wait."""

    def reached() -> bool:
        open_waves(rollout)
        if rollout.state != wanted:
            go_on_when_known(rollout)
        is_halted = rollout.state == "paused" and bool(rollout.fired)
        assert rollout.state in {"running", "paused", "rolling_back", wanted}, told(rollout)
        assert wanted == "paused" or not is_halted, told(rollout)
        return rollout.state == wanted

    console.until(reached, f"the rollout to be {wanted}", PATIENCE_S)


def told(rollout) -> str:
    waves = [f"{w.number} {w.state}: {said(w.explanation)}" for w in rollout.waves.all()]
    return "\n".join([rollout.state, said(rollout.explanation), *waves])
