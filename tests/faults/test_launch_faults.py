"""A launch while Redis forgets, the watch sleeps or a node refuses: nothing lost, doubled or left behind.

Who is killed at which point of a launch is in test_kill_matrix.py.
"""

import os
import random
import signal
import time

import pytest

from fleet.execution.models import Command, Host
from fleet.lab import containers
from fleet.models import Replica

pytestmark = [
    pytest.mark.lab,
    pytest.mark.faults,
    pytest.mark.django_db(transaction=True),
]


def state_of(launch) -> str:
    launch.refresh_from_db()
    return launch.state


def assert_started_once(console) -> None:
    """The node is the witness: one container a node was ever made, and one runs."""
    for host in console.lab.hosts():
        assert len(list(containers.all_containers(host.directory))) == 1
        assert len(containers.running(host.directory)) == 1


@pytest.mark.parametrize("seconds", [6, pytest.param(60, marks=pytest.mark.long)])
def test_a_frozen_watch_judges_nothing(console, ready_launch, seconds):
    """Ages grow, nothing is ejected, and nothing is judged when it wakes; 6 s are 60 s of the design."""
    watch = console.watches[0]
    os.kill(watch.pid, signal.SIGSTOP)
    tick_for(console, 1)  # what it had sent before is written by now
    seen_at = Host.objects.latest("seen_at").seen_at
    tick_for(console, seconds)
    assert state_of(ready_launch) == "ready"
    assert Host.objects.latest("seen_at").seen_at == seen_at
    os.kill(watch.pid, signal.SIGCONT)
    console.until(lambda: Host.objects.filter(seen_at__gt=seen_at).count() == 2, "fresh readings")
    assert state_of(ready_launch) == "ready"
    assert Replica.objects.get(pk=ready_launch.replica_id).state == "ready"


def tick_for(console, seconds: float) -> None:
    end = time.monotonic() + seconds
    console.until(lambda: time.monotonic() > end, f"{seconds} s of ticks")


@pytest.mark.parametrize("seed", [5, *(pytest.param(n, marks=pytest.mark.long) for n in range(5))])
def test_redis_emptied_at_random_moments_loses_nothing(console, launch_unit, redis_client, seed):
    chance = random.Random(seed)
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


@pytest.mark.long
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
