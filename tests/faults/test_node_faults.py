"""Nodes that fail under a ready unit: what is proved takes the whole unit down, what is unknown keeps it."""

import pytest

from fleet.execution.models import Command, Host
from fleet.lab import containers
from fleet.models import Evidence, Hold, Member, Node, Replica
from fleet.rules.message import said
from tests.flows.conftest import probe_all

pytestmark = [
    pytest.mark.lab,
    pytest.mark.faults,
    pytest.mark.django_db(transaction=True),
]
HEAD, FOLLOWER = "h100-001", "h100-002"


def state_of(launch) -> str:
    launch.refresh_from_db()
    return launch.state


def engines_on(console, name: str) -> int:
    return len(containers.running(console.lab.host(name).directory))


@pytest.mark.long  # a hang is also what opens case C
def test_a_hung_rank_takes_the_whole_unit_down_with_evidence_first(console, ready_launch):
    launch = ready_launch
    console.lab.fault(FOLLOWER, "rank.hang", gpu=3)
    console.until(lambda: state_of(launch) == "failed", "the unit to be taken down")
    assert "hangs" in (cause := said(launch.cause)) or "generates nothing" in cause, cause
    assert (engines_on(console, HEAD), engines_on(console, FOLLOWER)) == (0, 0)
    frozen = Evidence.objects.filter(object_id=launch.public_id)
    assert {said(one.title).split(":")[0].split()[0] for one in frozen} == {HEAD, FOLLOWER}
    newest_reading = Command.objects.filter(purpose__contains="/evidence/").latest("pk")
    first_stop = Command.objects.filter(purpose__contains="/stop/").earliest("pk")
    assert newest_reading.pk < first_stop.pk
    assert launch.replica.launches.count() == 1, "never started again by itself"


def test_a_dead_node_keeps_what_is_reserved_until_its_ranks_are_proved_gone(console, ready_launch):
    launch = ready_launch
    console.lab.fault(FOLLOWER, "node.dead")
    console.until(lambda: state_of(launch) == "stopping", "the head to miss its follower")
    console.until(
        lambda: Host.objects.get(name=FOLLOWER).reach == "unreachable", "it to be unreachable"
    )
    console.until(
        lambda: launch.positions.get(position=0).stop.state == "succeeded", "the head's stop"
    )
    console.until(
        lambda: launch.positions.get(position=1).stop.state == "unknown", "a stop without an answer"
    )
    assert HEAD in said(launch.cause), "what a node said, not that the other one is silent"
    assert state_of(launch) == "stopping"
    assert Member.objects.filter(is_reserved=True).count() == 2
    assert engines_on(console, HEAD) == 0

    console.lab.clear(FOLLOWER)
    console.until(lambda: state_of(launch) == "failed", "the proof from the node")
    assert not Member.objects.filter(is_reserved=True).exists()


@pytest.mark.long  # the short set reboots one in tests/flows/test_reboot.py
def test_a_rebooted_node_takes_the_whole_unit_down_and_must_be_probed_again(console, ready_launch):
    launch = ready_launch
    console.lab.fault(FOLLOWER, "node.reboot")
    console.until(lambda: state_of(launch) == "failed", "the unit to be taken down")
    assert FOLLOWER in said(launch.cause)
    assert (engines_on(console, HEAD), engines_on(console, FOLLOWER)) == (0, 0)
    console.until(
        lambda: Node.objects.get(host__name=FOLLOWER).state == "acceptance", "a new acceptance"
    )
    assert Node.objects.get(host__name=HEAD).state == "ready"
    probe_all(console)


def test_another_host_key_blocks_the_node_and_leaves_its_unit_alone(console, ready_launch):
    launch = ready_launch
    pinned = Host.objects.get(name=FOLLOWER).host_key
    console.lab.fault(FOLLOWER, "ssh.hostkey")
    console.until(lambda: Hold.objects.filter(lifted_at=None).exists(), "the node to be held")
    hold = Hold.objects.get(lifted_at=None)
    assert (hold.node.name, hold.owner) == (FOLLOWER, "host-key")
    assert hold.reason.count("SHA256:") == 2
    host = Host.objects.get(name=FOLLOWER)
    assert (host.key_state, host.host_key) == ("changed", pinned)
    assert state_of(launch) == "ready"
    assert Replica.objects.get(pk=launch.replica_id).state == "ready"
    assert (engines_on(console, HEAD), engines_on(console, FOLLOWER)) == (1, 1)
    assert Host.objects.get(name=HEAD).key_state == "pinned"


@pytest.mark.long
def test_a_slow_phase_is_waited_for(console, launch_unit):
    console.lab.fault(FOLLOWER, "launch.slow", phase="load", factor=20)
    launch = launch_unit()
    console.until(lambda: state_of(launch) in {"ready", "failed", "stopped"}, "the launch to end")
    assert launch.state == "ready", said(launch.cause)
