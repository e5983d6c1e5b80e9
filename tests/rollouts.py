"""A pool for tests of rollouts: rows of units that serve behind a gateway, and what machines would answer, at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.utils import timezone

from fleet.execution.models import Scrape
from fleet.models import Node, Pool, Replica
from releases.models import Drain, Endpoint, GateRun, Gateway, Launch, Release, Rollout, Wave
from releases.services.approvals import approval_decide
from releases.services.endpoints import endpoint_open
from releases.services.launch_effects import purpose_of
from releases.services.rollout_tick import rollout_advance
from releases.services.rollouts import rollout_create, rollout_start, rollout_submit, wave_ask
from tests.browser.scene import CONTENT
from tests.factories import (
    let_know,
    make_actor,
    make_host,
    make_node,
    make_person,
    make_pool,
    make_replica,
)
from tests.traffic import give

FAST = {"canary_weights": [25], "wave_weights": [10, 100], "observe_s": 0, "min_requests": 5}


@dataclass
class World:
    """The machines of a pool, as far as rows tell of them: `answer` lets them do what they were asked to."""

    pool: Pool
    old: Release
    new: Release
    gate_ends: str = "passed"
    launch_ends: str = "ready"
    misses: int = 0
    requests: int = 50
    errors: int = 0
    lowest: int = 99

    def answer(self) -> None:
        for launch in Launch.objects.filter(state__in=Launch.LIVE).select_related("replica"):
            self._launch(launch)
        for drain in Drain.objects.filter(ended_at=None):
            self._drained(drain)
        GateRun.objects.filter(state="queued").update(
            state=self.gate_ends, explanation="as told", ended_at=timezone.now()
        )
        for endpoint in Endpoint.objects.all():
            self._read_back(endpoint)
        Gateway.objects.update(seen_at=timezone.now())
        units = Replica.objects.filter(pool=self.pool, is_canary=False)
        self.lowest = min(self.lowest, sum(u.shown_state in {"ready", "serving"} for u in units))

    def _launch(self, launch: Launch) -> None:
        if launch.state == "stopping" or launch.stop_reason:
            self.end(launch, "stopped")
        elif launch.state != "ready":
            if self.launch_ends == "failed":
                self.end(launch, "failed", "out of memory")
                return
            self.ready(launch)

    def ready(self, launch: Launch) -> None:
        now = timezone.now()
        Launch.objects.filter(pk=launch.pk).update(state="ready", ready_at=now, state_at=now)
        Replica.objects.filter(pk=launch.replica_id).update(state="ready")
        launch.refresh_from_db()
        endpoint_open(launch=launch, actor=make_actor())
        node = launch.replica.members.filter(released_at=None).first().node
        Scrape.objects.create(
            host=node.host, key=purpose_of(launch, "golden"), kind="golden", port=8000,
            tried_at=now, ok_at=now, misses=self.misses,
        )  # fmt: skip

    def end(self, launch: Launch, state: str, cause: str = "") -> None:
        Endpoint.objects.filter(launch=launch).delete()
        Launch.objects.filter(pk=launch.pk).update(
            state=state, cause=cause, ended_at=timezone.now()
        )
        Replica.objects.filter(pk=launch.replica_id).update(state=state)
        launch.replica.members.filter(released_at=None).update(is_reserved=False)

    def _drained(self, drain: Drain) -> None:
        if Endpoint.objects.filter(launch=drain.launch, mode="ready").exists():
            Drain.objects.filter(pk=drain.pk).update(state="cancelled", ended_at=timezone.now())
            return
        Drain.objects.filter(pk=drain.pk).update(state="drained", ended_at=timezone.now())
        Endpoint.objects.filter(launch=drain.launch).update(mode="maint")

    def _read_back(self, endpoint: Endpoint) -> None:
        is_on = endpoint.mode == "ready" and endpoint.weight > 0
        Endpoint.objects.filter(pk=endpoint.pk).update(
            seen_weight=endpoint.weight, seen_mode=endpoint.mode, seen_at=timezone.now(),
            requests=endpoint.requests + (self.requests if is_on else 0),
            errors=endpoint.errors + (self.errors if is_on else 0),
        )  # fmt: skip
        state = "serving" if is_on else "ready"
        Replica.objects.filter(pk=endpoint.launch.replica_id).update(state=state)
        Scrape.objects.filter(key=purpose_of(endpoint.launch, "golden")).update(
            tried_at=timezone.now()
        )

    def live(self, unit: str) -> Launch:
        return Launch.objects.select_related("release").get(
            replica__name=unit, state__in=Launch.LIVE
        )


def make_world(units: int = 3, spares: int = 2, floor: int = 0, needed: int = 1) -> World:
    """Units of one node on the old release at full weight, spares, a gateway, and a new reviewed release."""
    make_pool("spare", name="Spare", is_spare=True, spare_floor=floor)
    pool = make_pool(unit_nodes=1, unit_gpus=8, promised_units=units - 1, approvals_needed=needed)
    Gateway.objects.create(
        name="edge", host=make_host("gw-1"), port=8080, admin_port=9999, directory="gw"
    )
    world = World(pool, make_release(pool, "old", "in_service"), make_release(pool, "new"))
    for number in range(1, units + 1):
        serve(world, make_replica(f"glm52-r{number}", pool=pool, nodes=[_node(number)]))
    for number in range(spares):
        _node(max(units, 40) + 1 + number)
    world.answer()
    return world


def make_release(pool: Pool, title: str, state: str = "reviewed") -> Release:
    content: dict[str, Any] = CONTENT | {"shape": CONTENT["shape"] | {"nodes": 1, "pp": 1}}
    return Release.objects.create(
        pool=pool, title=title, state=state, content=content,
        content_sha256=title[0] * 64, author=make_person("cora", role=""),
    )  # fmt: skip


def _node(number: int) -> Node:
    model = CONTENT["model"]
    return let_know(make_node(f"h100-{number:03d}"), f"{model['slug']}/{model['revision']}")


def serve(world: World, unit: Replica) -> Launch:
    """Let a unit serve the old release."""
    launch = Launch.objects.create(
        replica=unit, release=world.old, generation=1, plan={"positions": []}, plan_sha256="p" * 64
    )
    Replica.objects.filter(pk=unit.pk).update(generation=1)
    unit.members.update(is_reserved=True)
    world.ready(launch)
    give(launch)
    return launch


def make_rollout(world: World, has_canary: bool = True, **strategy: Any) -> Rollout:
    return rollout_create(
        pool=world.pool, release=world.new, strategy=FAST | strategy, reason="a faster engine",
        actor=make_actor(), user=make_person("ana"), has_canary=has_canary,
    )  # fmt: skip


def submitted(world: World, **strategy: Any) -> Rollout:
    return rollout_submit(
        rollout=make_rollout(world, **strategy), actor=make_actor(), user=make_person("ana")
    )


def sign(rollout: Rollout, who: str = "bo", decision: str = "approved", reason: str = "") -> None:
    """Let somebody answer the open request of a rollout."""
    approval = rollout.approvals.get(decision="")
    approval_decide(
        approval=approval, decision=decision, facts_digest=approval.facts_digest, reason=reason,
        actor=make_actor(who), user=make_person(who, role="approver"),
    )  # fmt: skip
    rollout.refresh_from_db()


def running(world: World, **strategy: Any) -> Rollout:
    rollout = submitted(world, **strategy)
    sign(rollout)
    return rollout_start(rollout=rollout, actor=make_actor())


def tick(world: World, rollout: Rollout, times: int = 1) -> None:
    for _ in range(times):
        rollout_advance(rollout.pk)
        world.answer()
    rollout.refresh_from_db()


def go(world: World, rollout: Rollout, until: str, ticks: int = 120) -> Rollout:
    """Tick until the rollout is in this state, signing each wave that waits for it."""
    for _ in range(ticks):
        tick(world, rollout)
        if rollout.state == until:
            return rollout
        if rollout.state == "running":
            _open_next(rollout)
    raise AssertionError(f"{rollout.state}, not {until}: {states(rollout)}, {rollout.explanation}")


def _open_next(rollout: Rollout) -> None:
    wave = rollout.waves.filter(state="awaiting_approval").first()
    if wave and not wave.approvals.filter(decision="approved").exists():
        ask_wave(rollout, wave.number)
        sign(rollout)


def ask_wave(rollout: Rollout, number: int) -> Any:
    return wave_ask(
        rollout=rollout, number=number, reason="the last one is quiet", actor=make_actor(),
        user=make_person("ana"),
    )  # fmt: skip


def reach(world: World, rollout: Rollout, number: int, state: str, ticks: int = 120) -> Wave:
    """Tick until a wave is in this state, signing what waits before it."""
    for _ in range(ticks):
        wave = rollout.waves.get(number=number)
        if wave.state == state:
            return wave
        if rollout.state == "running":
            _open_next(rollout)
        tick(world, rollout)
    raise AssertionError(f"wave {number}: {states(rollout)}, {rollout.explanation}")


def states(rollout: Rollout) -> dict[int, str]:
    return dict(rollout.waves.values_list("number", "state"))
