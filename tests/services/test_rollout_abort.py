"""Rolling back wins from every state: the first tick after the click does something for the unit at work."""

import pytest
from django.conf import settings

from fleet.models import Brake, TrailEntry
from fleet.rules.message import said
from releases.models import Drain, Endpoint, Launch, Rollout
from releases.services.rollout_tick import rollout_advance
from releases.services.rollouts import rollout_pause, rollout_rollback
from tests.factories import make_actor, make_person
from tests.rollouts import World, go, make_world, reach, running, tick

pytestmark = pytest.mark.django_db
HALTS = {
    "running": lambda rollout: None,
    "paused": lambda rollout: rollout_pause(rollout=rollout, reason="lunch", actor=make_actor()),
    "halted": lambda rollout: Rollout.objects.update(state="paused", fired="golden: wrong"),
    "braked": lambda rollout: Brake.objects.create(cause="too many"),
}


def roll_back(rollout: Rollout) -> None:
    rollout_rollback(
        rollout=rollout, reason="worse answers", actor=make_actor(), user=make_person("ana")
    )
    rollout.refresh_from_db()


def wishes() -> tuple[list, list, list]:
    """What the nodes and the proxy are asked to be."""
    return (
        sorted(Drain.objects.filter(ended_at=None).values_list("launch", "purpose")),
        sorted(
            Launch.objects.filter(state__in=Launch.LIVE).values_list("pk", "state", "stop_reason")
        ),
        sorted(Endpoint.objects.values_list("launch", "weight", "mode")),
    )


def begun(world: World) -> Rollout:
    """A rollout that goes unit by unit from its first tick on."""
    return running(world, has_canary=False, approve="canary")


@pytest.mark.parametrize(
    ("state", "halt"),
    [
        ("draining", "running"),
        ("draining", "paused"),
        ("warming", "braked"),
        ("shifting", "halted"),
        ("observing", "running"),
        ("passed", "paused"),
    ],
)
def test_the_first_tick_after_it_asks_for_something_else(state, halt):
    world = make_world(units=2)
    rollout = begun(world)
    reach(world, rollout, 1, state)
    before = wishes()
    HALTS[halt](rollout)  # which may have undone something already
    roll_back(rollout)
    assert rollout.state == "rolling_back"
    assert rollout_advance(rollout.pk)
    assert wishes() != before


def test_a_unit_that_fails_to_come_up_is_not_waited_for():
    world = make_world(units=2)
    rollout = begun(world)
    reach(world, rollout, 1, "replacing")
    world.launch_ends = "failed"
    go(world, rollout, "paused")
    world.launch_ends = "ready"
    roll_back(rollout)
    rollout_advance(rollout.pk)
    launch = Launch.objects.get(replica__name="glm52-r1", state__in=Launch.LIVE)
    assert launch.release == world.old


def test_a_stop_that_is_under_way_is_proved_first_and_the_old_release_comes_next():
    world = make_world(units=2)
    rollout = begun(world)
    reach(world, rollout, 1, "draining")
    rollout_advance(rollout.pk)  # drained: every rank is asked to stop
    assert world.live("glm52-r1").release == world.old, "it is being stopped"
    roll_back(rollout)
    rollout_advance(rollout.pk)
    assert "glm52-r1: stopping" in said(rollout.waves.get(number=1).explanation)
    world.answer()
    rollout_advance(rollout.pk)
    launch = world.live("glm52-r1")
    assert (launch.release, launch.state) == (world.old, "created")


def test_a_rollout_that_touched_nothing_is_back_at_once():
    world = make_world(units=2)
    rollout = running(world)
    roll_back(rollout)
    tick(world, rollout)
    assert rollout.state == "rolled_back"
    assert not TrailEntry.objects.filter(verb__startswith="wave.").exists()


def test_the_tick_that_carries_it_out_comes_within_five_seconds():
    beats = {row["task"]: row["schedule"] for row in settings.CELERY_BEAT_SCHEDULE.values()}
    assert beats["releases.tasks.tick"] * settings.TIME_SCALE <= 5
