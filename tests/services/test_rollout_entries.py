"""A rollout that halts or turns back: what no node has begun is taken back, what runs is left to run."""

import pytest
from django.utils import timezone

from fleet.execution import states as command_states
from fleet.execution.models import Command, Scrape
from fleet.rules.message import said
from releases.models import Drain, Endpoint, GateRun, Launch
from releases.rules import launch as launch_rules
from releases.services.drains import drains_advance
from releases.services.launch_moves import launch_move
from releases.services.launch_tick import launch_advance, launches_advance
from releases.services.rollout_tick import rollout_advance
from releases.services.rollouts import rollout_pause, rollout_resume, rollout_rollback
from tests.factories import make_actor, make_person
from tests.rollouts import go, make_world, reach, running

pytestmark = pytest.mark.django_db


def pause(rollout) -> None:
    rollout_pause(rollout=rollout, reason="lunch", actor=make_actor())


def turn_back(rollout) -> None:
    rollout_rollback(
        rollout=rollout, reason="worse answers", actor=make_actor(), user=make_person("ana")
    )


def fire(rollout) -> None:
    """The golden answers of the canary, which serves the new release already, turn wrong."""
    canary = rollout.waves.get(number=0).replica.name
    golden = Scrape.objects.filter(kind="golden", key__contains=live_launch(canary).public_id)
    assert golden.update(misses=2, tried_at=timezone.now())
    rollout_advance(rollout.pk)


def resume(rollout) -> None:
    rollout_resume(rollout=rollout, reason="looked", actor=make_actor(), user=make_person("ana"))
    rollout.refresh_from_db()


def live_launch(unit: str) -> Launch:
    return Launch.objects.get(replica__name=unit, state__in=Launch.LIVE)


HALTS = [pytest.param(one, id=one.__name__) for one in (pause, fire, turn_back)]


@pytest.fixture
def launching():
    """A rollout whose first wave has asked for the new release, of which no node knows yet."""
    world = make_world(units=2)
    rollout = running(world, approve="canary")
    wave = reach(world, rollout, 1, "replacing")
    while not Launch.objects.filter(replica=wave.replica, release=world.new).exists():
        world.answer()
        rollout_advance(rollout.pk)
    launch = live_launch("glm52-r1")
    assert (launch.state, launch.release) == ("created", world.new)
    return world, rollout, launch


@pytest.mark.parametrize("halt", HALTS)
class TestLaunch:
    def test_one_that_no_node_was_asked_for_never_begins(self, launching, halt):
        _, rollout, launch = launching
        halt(rollout)
        launches_advance()
        launch.refresh_from_db()
        assert launch.state == "stopped"
        assert not Command.objects.exists()
        rollout.refresh_from_db()
        told = said(rollout.waves.get(number=1).explanation)
        assert told == "Halted before glm52-r1 was started: nothing runs there."

    def test_the_questions_before_the_start_are_taken_back(self, launching, halt):
        _, rollout, launch = launching
        launch_advance(launch.pk)
        assert set(Command.objects.values_list("verb", "state")) == {("probe", "queued")}
        halt(rollout)
        launches_advance()
        launch.refresh_from_db()
        assert launch.state == "stopped"
        assert set(Command.objects.values_list("verb", "state")) == {("probe", "cancelled")}

    def test_starts_that_were_not_sent_are_cancelled_and_the_unit_is_proved_empty(
        self, launching, halt
    ):
        _, rollout, launch = launching
        self.come_to_starts(launch)
        halt(rollout)
        launches_advance()
        launch.refresh_from_db()
        assert launch.state == "stopping"
        found = dict(Command.objects.exclude(verb="probe").values_list("verb", "state"))
        assert found == {"start": command_states.CANCELLED, "stop": command_states.QUEUED}

    def test_a_unit_whose_ranks_were_started_is_left_to_come_up(self, launching, halt):
        _, rollout, launch = launching
        self.come_to_starts(launch)
        Command.objects.filter(verb="start").update(state="running", sent_at=timezone.now())
        halt(rollout)
        launch.refresh_from_db()
        assert launch.state == "starting"
        assert not Command.objects.filter(verb="stop").exists()

    def come_to_starts(self, launch: Launch) -> None:
        launch_advance(launch.pk)
        launch.refresh_from_db()
        Command.objects.update(state="succeeded", settled_at=timezone.now())
        launch_move(
            launch=launch,
            to=launch_rules.STARTING,
            explanation="Starting.",
            actor=make_actor("rule:test"),
        )


def test_going_on_asks_for_the_launch_again(launching):
    world, rollout, launch = launching
    pause(rollout)
    resume(rollout)
    go(world, rollout, "succeeded")
    asked = Launch.objects.filter(replica=launch.replica, release=world.new).order_by("pk")
    assert [one.state for one in asked] == ["stopped", "ready"]


def test_the_way_back_begins_from_an_empty_unit(launching):
    world, rollout, _ = launching
    turn_back(rollout)
    go(world, rollout, "rolled_back")
    assert live_launch("glm52-r1").release == world.old


@pytest.fixture
def draining():
    """A rollout whose first wave drains its unit; nothing of it is read back yet."""
    world = make_world(units=2)
    rollout = running(world, approve="canary")
    reach(world, rollout, 0, "passed")
    while not Drain.objects.exists():
        rollout_advance(rollout.pk)
    assert endpoint("glm52-r1").mode == Endpoint.Mode.DRAIN
    return world, rollout


def endpoint(unit: str) -> Endpoint:
    return Endpoint.objects.get(launch=live_launch(unit))


@pytest.mark.parametrize("is_over", [False, True], ids=["under way", "over"])
@pytest.mark.parametrize("halt", [pause, fire])
def test_a_drain_is_taken_back_so_that_a_halt_cuts_nobody(draining, halt, is_over):
    world, rollout = draining
    if is_over:
        world.answer()
        assert Drain.objects.get().state == "drained"
    halt(rollout)
    drains_advance()
    assert Drain.objects.get().state == ("drained" if is_over else "cancelled")
    found = endpoint("glm52-r1")
    assert (found.mode, found.weight) == ("ready", 100)
    assert live_launch("glm52-r1").release == world.old
    told = said(rollout.waves.get(number=1).explanation)
    assert told == "Halted while glm52-r1 drained: it is in traffic again."


def test_going_on_drains_anew(draining):
    world, rollout = draining
    pause(rollout)
    drains_advance()
    world.answer()
    resume(rollout)
    go(world, rollout, "succeeded")
    old = Launch.objects.get(replica__name="glm52-r1", release=world.old)
    ends = old.drains.order_by("pk").values_list("state", flat=True)
    assert list(ends) == ["cancelled", "drained"]


def test_the_way_back_puts_it_into_traffic(draining):
    world, rollout = draining
    turn_back(rollout)
    go(world, rollout, "rolled_back")
    found = endpoint("glm52-r1")
    assert (found.mode, found.weight, found.launch.release) == ("ready", 100, world.old)
    assert Drain.objects.get(launch=found.launch).state == "cancelled"


def test_a_unit_without_weight_gets_none_by_a_halt(draining):
    _, rollout = draining
    Endpoint.objects.filter(launch=live_launch("glm52-r1")).update(weight=0, mode="maint")
    pause(rollout)
    assert (endpoint("glm52-r1").weight, endpoint("glm52-r1").mode) == (0, "maint")


@pytest.mark.parametrize("halt", [pause, turn_back])
def test_the_gate_of_a_wave_is_cancelled(halt):
    world = make_world(units=2)
    rollout = running(world)
    runs = GateRun.objects.filter(launch__release=world.new)
    while not runs.exists():
        world.answer()
        rollout_advance(rollout.pk)
    halt(rollout)
    assert runs.get().state == "cancelled"


def test_a_gate_that_a_person_asked_for_is_left_alone():
    world = make_world(units=2)
    rollout = running(world)
    launch = live_launch("glm52-r1")
    run = GateRun.objects.create(
        launch=launch, purpose="person:1", checks=["golden"], deadline_at=timezone.now()
    )
    pause(rollout)
    run.refresh_from_db()
    assert run.state == "queued"


@pytest.mark.parametrize("halt", [pause, fire], ids=["pause", "fire"])
def test_a_canary_that_gives_its_spares_back_gets_no_traffic_again(halt):
    world = make_world(units=2)
    rollout = running(world, approve="canary")
    reach(world, rollout, 2, "passed")
    wave = reach(world, rollout, 0, "draining")
    halt(rollout)
    rollout.refresh_from_db()
    assert rollout.state == "paused"
    assert Endpoint.objects.get(launch__replica=wave.replica).mode != "ready"
