"""Before a unit is asked anything, each node proves that it runs the image and the plan of the launch."""

import json
from datetime import timedelta

import pytest
from django.utils import timezone

from fleet.execution.models import Command, Subject
from fleet.execution.output import Section, sections_pack
from fleet.models import Replica
from fleet.rules.message import said
from releases.models import Launch, LaunchPosition
from releases.services.launch_tick import launch_advance
from releases.services.launches import launch_create
from tests.factories import make_actor, make_command, make_node, make_replica
from tests.traffic import make_release

pytestmark = pytest.mark.django_db
OTHER = "sha256:" + "9" * 64


@pytest.fixture
def loading() -> Launch:
    """A unit of two nodes whose engine answers already; what its containers are was only asked."""
    release = make_release()
    nodes = [make_node("h100-001"), make_node("h100-002")]
    unit = make_replica("glm52-r1", pool=release.pool, nodes=nodes)
    launch = launch_create(replica=unit, release=release, actor=make_actor())
    for place in launch.positions.select_related("node__host"):
        host, name = place.node.host, f"r1-n{place.position}"
        subject = Subject.objects.create(host=host, name=name, state="live", epoch=1)
        start = make_command(host, f"start/{name}", verb="start", state="succeeded")
        LaunchPosition.objects.filter(pk=place.pk).update(
            subject=subject, start=start, phase="ready"
        )
    soon = timezone.now() + timedelta(minutes=1)
    Launch.objects.update(state="starting", start_deadline_at=soon)
    Replica.objects.update(state="launching")
    launch_advance(launch.pk)
    launch.refresh_from_db()
    return launch


def asked() -> list[Command]:
    return list(Command.objects.filter(purpose__contains="/identity/").order_by("pk"))


def answer(launch: Launch, number: int, image: str = "", at: str = "10:00") -> None:
    """The node answers its n-th question: the container of the launch's own image, unless told otherwise."""
    pinned = launch.release.content["image"]
    config = {
        "Image": image or f"{pinned['name']}@{pinned['digest']}",
        "Labels": {"fleet.plan_sha": launch.plan_sha256},
    }
    command = asked()[number]
    text = json.dumps([{"Id": "ab12", "State": {"StartedAt": at}, "Config": config}]).encode()
    sections_pack(command.pk, [Section("container", rc=0, body=text)]).save()
    Command.objects.filter(pk=command.pk).update(state="succeeded", settled_at=timezone.now())


def advanced(launch: Launch) -> str:
    launch_advance(launch.pk)
    launch.refresh_from_db()
    return launch.state


def test_every_node_is_asked_once_and_nothing_goes_on_before_all_answered(loading):
    assert (loading.state, len(asked())) == ("loading", 2)
    answer(loading, 0)
    assert advanced(loading) == "loading"
    assert said(loading.explanation) == "Not proved yet what runs on h100-002."
    answer(loading, 1)
    assert advanced(loading) == "warming"
    assert len(asked()) == 2


def test_a_rank_of_another_image_takes_both_nodes_down_and_both_digests_are_named(loading):
    answer(loading, 0)
    answer(loading, 1, image=f"vllm@{OTHER}")
    assert advanced(loading) == "freezing"
    pinned = loading.release.content["image"]["digest"]
    assert said(loading.cause) == f"h100-002: image {OTHER} runs, the release pins {pinned}."
    assert not Command.objects.filter(purpose__contains="/golden/").exists()
    Launch.objects.update(state_at=timezone.now() - timedelta(minutes=10))
    assert advanced(loading) == "stopping"
    assert Command.objects.filter(verb="stop").count() == 2


def test_an_answer_that_did_not_come_is_asked_for_again_later_and_of_that_node_only(loading):
    answer(loading, 0)
    silent = Command.objects.filter(pk=asked()[1].pk)
    silent.update(state="failed", settled_at=timezone.now())
    assert (advanced(loading), len(asked())) == ("loading", 2)
    silent.update(created_at=timezone.now() - timedelta(minutes=1))
    for _ in range(2):  # the second tick waits for the new question
        assert advanced(loading) == "loading"
    assert [command.host.name for command in asked()] == ["h100-001", "h100-002", "h100-002"]


@pytest.mark.parametrize("state", ["warming", "ready"])
def test_a_container_that_is_followed_anew_is_proved_anew(loading, state):
    for number in (0, 1):
        answer(loading, number)
    assert advanced(loading) == "warming"
    Launch.objects.update(state=state)
    Replica.objects.update(state=state)
    Subject.objects.filter(name="r1-n1").update(epoch=2)
    assert advanced(loading) == state
    assert [command.host.name for command in asked()][2:] == ["h100-002"]
    answer(loading, 2)
    assert advanced(loading) == state, "its client died, and the container is the same"
    Subject.objects.filter(name="r1-n1").update(epoch=3)
    advanced(loading)
    answer(loading, 3, at="10:07")
    assert advanced(loading) == "freezing"
    assert "h100-002: its container was started again" in said(loading.cause)
