"""What is asked of container images and what the tick makes of it, from rows alone: no node is behind them."""

import json
from datetime import timedelta

import pytest
from django.db.models.functions import Now
from django.utils import timezone

from fleet.execution.faults import scaled
from fleet.execution.models import Command, Subject
from fleet.execution.output import Section, sections_pack
from fleet.models import (
    Distribution,
    Holding,
    Image,
    ImageHolding,
    TrailEntry,
    WeightsArtefact,
)
from fleet.rules.images import LOOK_S, PULL_S
from fleet.rules.message import said
from fleet.rules.refusals import Conflict, NotAllowed, Refused
from fleet.services import images, weights_tick
from fleet.services.images_tick import images_advance
from tests.factories import make_actor, make_nodes, make_person

pytestmark = pytest.mark.django_db
DIGEST = f"sha256:{'d' * 64}"
REF = f"registry.internal/vllm-openai@{DIGEST}"
GOOD = "== inspect\n" + json.dumps([{"RepoDigests": [REF], "Size": 123}])


@pytest.fixture(autouse=True)
def _redis(redis_client):
    """Dispatching nudges the queue."""


@pytest.fixture
def nodes():
    return make_nodes(4)


def pull(nodes, **fields) -> Image:
    return images.image_pull(ref=REF, nodes=nodes, actor=make_actor(), **fields)


def row(node) -> ImageHolding:
    return ImageHolding.objects.get(node=node)


def act(node, word: str) -> None:
    images.image_act(holding=row(node), act=word, actor=make_actor())


def end(node, rc: int, text: str) -> None:
    """Let the process of a node end, and its output be read."""
    held = row(node)
    Command.objects.filter(purpose=f"image:{held.pk}/{held.attempt}/start").update(
        state="succeeded", settled_at=Now()
    )
    Subject.objects.filter(pk=held.subject_id).update(state="done", rc=rc, ended_at=Now())
    images_advance()
    command = Command.objects.get(purpose=f"image:{held.pk}/{held.attempt}/out")
    Command.objects.filter(pk=command.pk).update(state="succeeded", settled_at=Now())
    sections_pack(command.pk, [Section("out", body=text.encode())]).save()
    images_advance()


def test_an_image_is_pulled_on_a_node_and_ready_once_docker_names_its_digest(nodes):
    image = pull(nodes[:1], reason="for the night")
    assert row(nodes[0]).state == "wanted"
    assert TrailEntry.objects.get(verb="image.pull").reason == "for the night"
    assert images_advance() == 1
    held = row(nodes[0])
    start = Command.objects.get(purpose=f"image:{held.pk}/1/start")
    assert start.payload["argv"][-2:] == ["pull", REF]
    assert images_advance() == 0, "a second tick changes nothing"
    end(nodes[0], 0, GOOD)
    held = row(nodes[0])
    assert (held.state, held.size_bytes, held.explanation) == ("ready", 123, "")
    assert held.verified_at is not None
    assert images_advance() == 0
    pull(nodes[:1])
    assert row(nodes[0]).state == "ready", "what is verified stays"
    assert Image.objects.get() == image


def test_a_pull_that_fails_says_so_in_dockers_words_and_can_be_asked_again(nodes):
    pull(nodes[:1])
    images_advance()
    end(nodes[0], 1, "Error response from daemon: manifest unknown\n")
    assert row(nodes[0]).state == "failed"
    assert "Error response from daemon: manifest unknown" in said(row(nodes[0]).explanation)
    act(nodes[0], "pull")
    images_advance()
    assert (row(nodes[0]).state, row(nodes[0]).attempt) == ("pulling", 2)


def test_an_image_that_went_away_is_found_by_a_look_and_nothing_is_pulled(nodes):
    pull(nodes[:1])
    images_advance()
    end(nodes[0], 0, GOOD)
    act(nodes[0], "verify")
    images_advance()
    held = row(nodes[0])
    assert Command.objects.get(purpose=f"image:{held.pk}/2/start").payload["argv"][-2] == "check"
    end(nodes[0], 3, "== inspect\n[]\nError response from daemon: No such image: x\n")
    assert (row(nodes[0]).state, row(nodes[0]).verified_at) == ("failed", None)


def test_no_more_pull_into_one_leaf_than_may_and_the_others_say_why(nodes):
    pull(nodes)
    images_advance()
    found = [row(node) for node in nodes]
    assert [one.state for one in found].count("pulling") == 2
    assert "2 downloads run into leaf" in said(found[3].explanation)


def spread(nodes, state: str = "copying", **limits) -> None:
    """Weights on their way to these nodes, from the first of them, within these limits."""
    artefact = WeightsArtefact.objects.create(model="glm", revision="c" * 40, state="ready")
    order = Distribution.objects.create(artefact=artefact, limits=limits)
    for node in nodes[1:]:
        Holding.objects.create(
            node=node, artefact=artefact, distribution=order, state=state, parent=nodes[0]
        )


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"per_leaf": 3}, "3 copies run into leaf"),
        ({"at_once": 3}, "3 downloads run, as many as may at once"),
        ({"store_per_leaf": 1}, ""),
    ],
)
def test_a_pull_waits_for_copies_of_weights_within_the_limits_of_their_distribution(
    nodes, limits, words
):
    spread(nodes, **limits)
    pull(nodes[:2])
    images_advance()
    states = [row(node).state for node in nodes[:2]]
    if words:
        assert states == ["wanted", "wanted"]
        assert words in said(row(nodes[0]).explanation)
    else:
        assert sorted(states) == ["pulling", "wanted"], "one from outside into a leaf"


def test_a_copy_of_weights_waits_for_pulls(nodes):
    pull(nodes[:2])
    images_advance()
    spread(nodes[2:], state="wanted", at_once=2)
    Holding.objects.update(needs=["a.safetensors"], parent=None)
    Holding.objects.create(
        node=nodes[2], artefact=WeightsArtefact.objects.get(), state="ready", needs=[]
    )
    weights_tick.weights_advance()
    assert "2 copies run, as many as may at once" in said(Holding.objects.get(node=nodes[3]).explanation)  # fmt: skip
    ImageHolding.objects.update(state="ready")
    weights_tick.weights_advance()
    assert Holding.objects.get(node=nodes[3]).state == "copying"


@pytest.mark.parametrize("is_check", [False, True])
def test_a_pull_or_a_look_that_does_not_end_is_stopped_with_proof(nodes, is_check):
    pull(nodes[:1])
    images_advance()
    if is_check:
        end(nodes[0], 0, GOOD)
        act(nodes[0], "verify")
        images_advance()
    most_s = LOOK_S if is_check else PULL_S + 60
    ImageHolding.objects.update(state_at=timezone.now() - timedelta(seconds=scaled(most_s - 30)))
    assert images_advance() == 0
    assert row(nodes[0]).stop_for == ""
    ImageHolding.objects.update(state_at=timezone.now() - timedelta(seconds=scaled(most_s + 10)))
    images_advance()
    images_advance()
    assert Command.objects.filter(verb="stop", subject=row(nodes[0]).subject).exists()
    assert row(nodes[0]).state == "pulling", "until its process is gone"
    Subject.objects.update(state="gone", ended_at=Now())
    images_advance()
    late = said(row(nodes[0]).explanation)
    assert (row(nodes[0]).state, "within" in late) == ("failed", True)


def test_pulls_rest_on_a_leaf_whose_units_serve_badly_and_begin_again(nodes, monkeypatch):
    why: dict[int, str] = {}
    monkeypatch.setattr(weights_tick, "_PRESSURES", [lambda: why])
    pull(nodes[:1])
    images_advance()
    why[nodes[0].rack.leaf.number] = "errors"
    images_advance()
    assert (row(nodes[0]).stop_for, row(nodes[0]).explanation) == ("wanted", "errors")
    images_advance()
    assert Command.objects.filter(verb="stop", subject=row(nodes[0]).subject).exists()
    Subject.objects.update(state="gone", ended_at=Now())
    images_advance()
    images_advance()
    assert (row(nodes[0]).state, row(nodes[0]).explanation) == ("wanted", "errors")
    why.clear()
    images_advance()
    assert row(nodes[0]).state == "pulling"


def test_a_pull_is_stopped_with_proof(nodes):
    pull(nodes[:1])
    images_advance()
    act(nodes[0], "stop")
    with pytest.raises(Conflict, match="is being stopped already"):
        act(nodes[0], "stop")
    images_advance()
    assert row(nodes[0]).state == "pulling", "until its process is gone"
    Subject.objects.update(state="gone", ended_at=Now())
    images_advance()
    assert row(nodes[0]).state == "failed"
    assert "Stopped by" in said(row(nodes[0]).explanation)


def test_what_is_refused(nodes):
    with pytest.raises(Refused, match="never a tag alone"):
        images.image_pull(ref="vllm/vllm-openai:latest", nodes=nodes, actor=make_actor())
    with pytest.raises(Refused, match="No node"):
        pull([])
    with pytest.raises(NotAllowed):
        pull(nodes, user=make_person("chen", role="viewer"))
    pull(nodes[:1])
    with pytest.raises(Conflict):
        act(nodes[0], "verify")
    with pytest.raises(Refused, match="Expected pull, verify or stop"):
        act(nodes[0], "rm")
