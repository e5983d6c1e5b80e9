"""A conductor killed within a rollout's tick: the tick is undone as a whole, and the next one does it again, once."""

import signal
import sys
from collections import Counter
from typing import Any

import pytest

from fleet.execution.models import Command
from fleet.models import Member, Replica, TrailEntry
from releases.models import Drain, Endpoint, GateRun, Launch, Rollout, Wave
from releases.rules.rollout import decide_rollout
from releases.services.rollout_seen import rollout_seen, waves_of
from releases.services.rollout_tick import rollout_advance
from tests.fault_points import ROLLOUT_POINTS
from tests.rollouts import go, make_world, running, states

pytestmark = [pytest.mark.faults, pytest.mark.django_db(transaction=True)]

DECIDED, APPLIED = ROLLOUT_POINTS
ONE_TICK = (
    "import django; django.setup()\n"
    "from releases.services.rollout_tick import rollouts_advance\n"
    "rollouts_advance()\n"
)
TABLES = (Rollout, Wave, Launch, Drain, GateRun, Endpoint, Replica, Member, Command, TrailEntry)


def everything() -> list[Any]:
    """Every row that a tick of a rollout may touch."""
    return [list(table.objects.order_by("pk").values()) for table in TABLES]


def come_to(world, rollout, effect: str) -> None:
    """Tick until the next tick would have this effect on the unit of wave 1."""
    for _ in range(80):
        rollout.refresh_from_db()
        move = decide_rollout(rollout_seen(rollout, waves_of(rollout), ""))
        if move.number == 1 and move.wave and move.wave.do == effect:
            return
        rollout_advance(rollout.pk)
        world.answer()
    raise AssertionError(f"no tick would {effect}: {states(rollout)}")


# What a tick asks of others is undone with it, whatever it is; before that there is nothing to undo.
SHORT = [(DECIDED, "drain"), (APPLIED, "launch"), (APPLIED, "weight")]
LONG = [(APPLIED, "drain"), (APPLIED, "stop"), (APPLIED, "gate")]


@pytest.mark.parametrize(
    ("point", "effect"), [*SHORT, *(pytest.param(*cell, marks=pytest.mark.long) for cell in LONG)]
)
def test_a_killed_tick_leaves_nothing_and_the_next_one_does_it_once(run_child, point, effect):
    world = make_world(units=2)
    rollout = running(world, approve="canary")
    come_to(world, rollout, effect)
    before = everything()
    conductor = run_child([sys.executable, "-c", ONE_TICK], FAULT_POINT=point)
    assert conductor.wait(60) == -signal.SIGKILL, conductor.log
    assert everything() == before

    assert rollout_advance(rollout.pk)
    assert everything() != before
    go(world, rollout, "succeeded")
    assert_done_once(world)


def assert_done_once(world) -> None:
    """One drain and one stop of each old launch, one new launch of each unit, one gate of each."""
    for unit in Replica.objects.filter(launches__isnull=False).distinct():
        assert unit.launches.filter(release=world.new).count() == 1, unit.name
    for launch in Launch.objects.filter(release=world.new):
        assert launch.gate_runs.count() == 1
    for launch in Launch.objects.filter(release=world.old):
        assert launch.drains.count() == 1
    told = TrailEntry.objects.filter(verb__in=["launch.create", "drain.start", "gate.start"])
    counted = Counter(told.values_list("verb", "object_id"))
    assert set(counted.values()) == {1}
