"""A unit from a click to ready and to its end, on real SSH, with real processes on both nodes."""

import http.client
import json
import os
import signal
from contextlib import closing

import pytest

from fleet.lab import containers
from fleet.models import Evidence, Member, Replica, TrailEntry
from fleet.rules.message import said

pytestmark = [pytest.mark.lab, pytest.mark.django_db(transaction=True)]


def state_of(launch) -> str:
    launch.refresh_from_db()
    return launch.state


def engines_on(lab) -> int:
    """Engines that run on the nodes themselves, whatever the database says."""
    return sum(len(containers.running(host.directory)) for host in lab.hosts())


def answer_of(launch, question: str) -> str:
    """What the unit answers to somebody who asks it directly."""
    head = launch.plan["http"]
    body = {"model": "glm-5.2", "messages": [{"role": "user", "content": question}]}
    with closing(http.client.HTTPConnection(head["address"], head["port"], timeout=10)) as ask:
        ask.request("POST", "/v1/chat/completions", json.dumps(body))
        return json.loads(ask.getresponse().read())["choices"][0]["message"]["content"]


def ended(launch) -> bool:
    return state_of(launch) in {"failed", "stopped"}


def test_a_unit_becomes_ready_by_golden_answers_and_is_stopped_with_proof(console, ready_launch):
    launch = ready_launch
    assert "42" in answer_of(launch, "12 + 30 = ?")
    assert Replica.objects.get(pk=launch.replica_id).state == "ready"
    assert engines_on(console.lab) == 2
    phases = set(launch.positions.values_list("phases__name", flat=True))
    assert {"load", "compile", "capture"} <= phases
    assert launch.positions.get(position=0).reader_state["world_size"] == 16

    from fleet.services.trail import Actor
    from releases.services.launches import launch_stop

    launch_stop(launch=launch, reason="end of the test", actor=Actor(name="ana"))
    console.until(lambda: ended(launch), "the unit to be stopped")
    assert launch.state == "stopped"
    assert engines_on(console.lab) == 0
    assert not Member.objects.filter(is_reserved=True).exists()
    assert TrailEntry.objects.filter(verb="launch.stopping", reason="end of the test").exists()


@pytest.mark.parametrize("position", [0, pytest.param(1, marks=pytest.mark.long)])
def test_a_killed_rank_takes_the_whole_unit_down_with_evidence_first(
    console, ready_launch, position
):
    launch = ready_launch
    node = launch.plan["positions"][position]["node"]
    console.lab.fault(node, "rank.kill", gpu=3)
    console.until(lambda: ended(launch), "the unit to be taken down")
    assert launch.state == "failed"
    assert node in said(launch.cause)
    assert engines_on(console.lab) == 0
    frozen = Evidence.objects.filter(object_id=launch.public_id)
    assert {said(e.title).split(":")[0].split()[0] for e in frozen} == {
        p["node"] for p in launch.plan["positions"]
    }
    assert launch.replica.launches.count() == 1, "never started again by itself, never one rank"


@pytest.mark.long
def test_a_unit_goes_on_when_the_docker_client_of_a_rank_dies(console, ready_launch):
    from fleet.execution.models import LogStream, Subject

    launch = ready_launch
    place = launch.positions.select_related("subject").get(position=1)
    os.kill(place.subject.pid, signal.SIGKILL)

    def is_attached() -> bool:
        assert state_of(launch) == "ready", said(launch.cause)
        return Subject.objects.filter(pk=place.subject_id, state="live", epoch=2).exists()

    console.until(is_attached, "the rank to be followed again")
    stream = LogStream.objects.filter(subject=place.subject_id, node_epoch=2)
    console.until(stream.exists, "its log to go on in the new file")
    assert engines_on(console.lab) == 2
    assert "42" in answer_of(launch, "12 + 30 = ?")
    assert state_of(launch) == "ready"

    from fleet.services.trail import Actor
    from releases.services.launches import launch_stop

    launch_stop(launch=launch, reason="end of the test", actor=Actor(name="ana"))
    console.until(lambda: ended(launch), "the unit to be stopped")
    assert (launch.state, engines_on(console.lab)) == ("stopped", 0)


def test_an_endpoint_that_generates_nothing_is_taken_down(console, ready_launch):
    launch = ready_launch
    console.lab.fault(launch.plan["positions"][0]["node"], "engine.freeze")
    console.until(lambda: ended(launch), "the frozen unit to be taken down")
    assert "generates nothing" in said(launch.cause)


def test_one_node_that_cannot_start_leaves_no_half_unit(console, launch_unit):
    console.lab.fault("h100-002", "start.half")
    launch = launch_unit()
    console.until(lambda: ended(launch), "the launch to fail")
    assert launch.state == "failed"
    assert "h100-002" in said(launch.cause)
    assert engines_on(console.lab) == 0


def test_running_out_of_memory_while_loading_names_the_node(console, launch_unit):
    console.lab.fault("h100-002", "oom.load", gpu=3, on="follower")
    launch = launch_unit()
    console.until(lambda: ended(launch), "the launch to fail")
    assert "h100-00" in said(launch.cause)
    assert engines_on(console.lab) == 0


def test_a_unit_is_launched_again_after_it_failed(console, launch_unit):
    console.lab.fault("h100-002", "start.half")
    first = launch_unit()
    console.until(lambda: ended(first), "the first launch to fail")
    console.lab.clear("h100-002")
    second = launch_unit()
    assert second.generation == first.generation + 1
    console.until(lambda: state_of(second) == "ready", "the second launch to be ready")
