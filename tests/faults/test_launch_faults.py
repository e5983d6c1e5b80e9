"""A launch while its console is being killed around it: nothing lost, doubled or left behind."""

import os
import random
import signal
import time
from pathlib import Path

import pytest

from fleet.execution.models import Command, Host
from fleet.lab import containers
from fleet.models import Replica
from tests.flows.conftest import probe_all
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.lab,
    pytest.mark.faults,
    pytest.mark.django_db(transaction=True),
]

HAND_POINTS = [
    "claimed",
    "connected",
    "permitted",
    "start-sent",
    "answer-read",
    "before-settle-commit",
    "after-settle-commit",
]
CONDUCTOR_POINTS = [
    "launch-decided",
    "launch-preflight",
    "launch-starting",
    "launch-loading",
    "launch-warming",
    "launch-ready",
    "after-commit-before-enqueue",
    "after-enqueue",
]
# The ones at which the node and the database know different things; the rest run in the long set.
SHORT = {"start-sent", "before-settle-commit", "launch-starting", "after-commit-before-enqueue"}


def points(names: list[str]) -> list:
    return [pytest.param(n, marks=() if n in SHORT else pytest.mark.long) for n in names]


def state_of(launch) -> str:
    launch.refresh_from_db()
    return launch.state


def becomes_ready(console, launch) -> None:
    console.until(lambda: state_of(launch) in {"ready", "failed", "stopped"}, "the launch to end")
    assert launch.state == "ready", launch.cause


def assert_started_once(console) -> None:
    """The node is the witness: one container a node was ever made, and one runs."""
    for host in console.lab.hosts():
        assert len(list(containers.all_containers(host.directory))) == 1
        assert len(containers.running(host.directory)) == 1


@pytest.fixture
def fault_file(tmp_path) -> Path:
    """Write a fault point's name into it and the first process to come by dies there, once."""
    return tmp_path / "fault"


@pytest.fixture
def mortal_console(bare_console, fault_file):
    """Two hands that die where the fault file says; both were at work before it is written."""
    bare_console.start_hand(FAULT_POINT=f"@{fault_file}")
    bare_console.start_hand(FAULT_POINT=f"@{fault_file}")
    probe_all(bare_console)
    return bare_console


def dies(console, fault_file: Path, point: str) -> None:
    fired = fault_file.with_name("fault.fired")
    console.until(fired.exists, f"a process to die at {point}")


@pytest.mark.parametrize("point", points(HAND_POINTS))
def test_a_hand_killed_at_any_point_starts_every_rank_exactly_once(
    mortal_console, launch_unit, fault_file, point
):
    fault_file.write_text(point)
    launch = launch_unit()
    dies(mortal_console, fault_file, point)
    becomes_ready(mortal_console, launch)
    assert_started_once(mortal_console)


@pytest.mark.parametrize("point", points(CONDUCTOR_POINTS))
def test_a_conductor_killed_at_any_point_leaves_the_launch_to_the_next(
    console, launch_unit, fault_file, point
):
    console.start_conductor(FAULT_POINT=f"@{fault_file}")
    fault_file.write_text(point)
    launch = launch_unit()
    dies(console, fault_file, point)
    becomes_ready(console, launch)
    assert_started_once(console)


def test_a_worker_killed_with_its_horse_is_replaced_by_another(console, launch_unit):
    launch = launch_unit()
    console.until(lambda: state_of(launch) == "starting", "the unit to start")
    console.hands[0].kill()
    becomes_ready(console, launch)
    assert_started_once(console)


def test_a_watch_killed_during_a_launch_is_replaced_and_no_line_is_lost(console, launch_unit):
    launch = launch_unit()
    console.until(lambda: state_of(launch) == "loading", "the unit to load")
    console.watches[0].kill()
    console.start_watch()
    becomes_ready(console, launch)
    assert_started_once(console)
    assert_log_is_the_nodes_log(console, launch)


def assert_log_is_the_nodes_log(console, launch) -> None:
    """Every line of the node's own file stands in the database once, in order."""
    from fleet.execution.streams import lines_after

    for place in launch.positions.select_related("subject__stream", "node__host"):
        home = console.lab.host(place.node.name).directory / "root" / "home"
        file = home / ".flotilla" / "subjects" / place.subject.name / "out"

        def is_equal(place=place, file=file) -> bool:
            place.subject.stream.refresh_from_db()
            theirs = file.read_bytes().decode(errors="replace").splitlines()
            ours = lines_after(place.subject.stream, 0, 100_000)
            assert [line.number for line in ours] == list(range(1, len(ours) + 1))
            return len(ours) == len(theirs)

        wait_until(is_equal, what=f"all lines of {place.node.name}")


def test_a_frozen_watch_judges_nothing(console, ready_launch):
    """60 s of the design: ages grow, nothing is ejected, and nothing is judged when it wakes."""
    watch = console.watches[0]
    os.kill(watch.pid, signal.SIGSTOP)
    seen_before = Host.objects.order_by("seen_at").first().seen_at
    end = time.monotonic() + 6.0
    wait_until(lambda: [console.tick()] and time.monotonic() > end, what="6 s of ticks")
    assert state_of(ready_launch) == "ready"
    assert Host.objects.order_by("seen_at").first().seen_at <= seen_before
    os.kill(watch.pid, signal.SIGCONT)
    console.until(
        lambda: Host.objects.filter(seen_at__gt=seen_before).count() == 2, "fresh readings"
    )
    assert state_of(ready_launch) == "ready"
    assert Replica.objects.get(pk=ready_launch.replica_id).state == "ready"


def test_redis_emptied_at_random_moments_loses_nothing(console, launch_unit, redis_client):
    chance = random.Random(5)
    launch = launch_unit()

    def flush_and_look() -> bool:
        if chance.random() < 0.3:
            redis_client.flushall()
        return state_of(launch) in {"ready", "failed"}

    console.until(flush_and_look, "the launch to end")
    assert launch.state == "ready", launch.cause
    assert_started_once(console)
    purposes = Command.objects.values_list("purpose", flat=True)
    assert len(purposes) == len(set(purposes))


def test_one_of_two_nodes_refusing_ssh_leaves_no_half_unit(console, launch_unit):
    launch = launch_unit()
    console.lab.fault("h100-002", "ssh.refused")
    console.until(lambda: state_of(launch) in {"failed", "stopping"}, "the launch to give up")
    console.lab.clear("h100-002")
    console.until(lambda: state_of(launch) == "failed", "the clean-up to be proved")
    for host in console.lab.hosts():
        assert not containers.running(host.directory)


def test_a_refused_connection_of_a_ready_unit_ejects_nothing(console, ready_launch):
    """Unreachable is not lost: the unit serves on, its node's age grows."""
    console.lab.fault("h100-002", "ssh.refused")
    console.until(
        lambda: Host.objects.get(name="h100-002").reach == "unreachable", "it to be unreachable"
    )
    assert state_of(ready_launch) == "ready", ready_launch.cause
    console.lab.clear("h100-002")
    console.until(lambda: Host.objects.get(name="h100-002").reach == "ok", "it to be back")
    assert state_of(ready_launch) == "ready"
