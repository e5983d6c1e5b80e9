"""The card of a wave shows what would run on each node, and a line that moved after the signature opens nothing."""

import pytest

from fleet.execution.models import Host
from fleet.models import Replica
from releases.models import GateRun, Launch
from releases.services.launches import launch_preview
from tests.rollouts import ask_wave, make_world, reach, running, sign, states, submitted, tick
from tests.views.test_rollout_pages import answer_of, html, page

pytestmark = pytest.mark.django_db


@pytest.fixture
def world():
    """Units that run the old release by its real plan, in which one flag is another."""
    world = make_world(units=2)
    for unit in Replica.objects.filter(pool=world.pool):
        plan = launch_preview(replica=unit, release=world.old).plan
        words = plan["positions"][0]["argv"]
        words[words.index("--max-num-seqs") + 1] = "8"
        Launch.objects.filter(replica=unit).update(plan=plan)
    return world


@pytest.fixture
def asked(world):
    """A rollout without a canary, whose first wave waits for a signature."""
    rollout = running(world, has_canary=False)
    tick(world, rollout)
    ask_wave(rollout, 1)
    return rollout


def test_it_shows_each_nodes_command_beside_the_one_that_runs_there(signed_in, asked):
    shown = html(signed_in("bo").get(page(asked)))
    assert "<span>−</span>--max-num-seqs 8</div>" in shown
    assert "<span>+</span>--max-num-seqs 16</div>" in shown
    assert "--kv-cache-dtype fp8" not in shown, "what is equal is folded"


def test_it_shows_environment_and_digests_where_nothing_runs_yet(signed_in, world):
    Launch.objects.all().update(state="stopped")
    rollout = submitted(world)
    shown = html(signed_in("bo").get(page(rollout)))
    content = world.new.content
    for name, value in content["env"].items():
        assert f"-e {name}={value}" in shown
    assert content["image"]["digest"] in shown
    assert content["model"]["manifest_sha256"] in shown
    assert world.new.content_sha256 in shown
    assert "the command is as on glm52-r1" in shown


def test_it_names_the_gate_runs_that_speak_for_the_release(signed_in, world):
    asked = running(world)
    reach(world, asked, 1, "awaiting_approval")
    ask_wave(asked, 1)
    shown = html(signed_in("bo").get(page(asked)))
    run = GateRun.objects.get(launch__release=world.new)
    assert f'href="/gates/{run.public_id}/"' in shown
    assert f"glm52-c{asked.pk}: Passed" in shown
    GateRun.objects.filter(pk=run.pk).update(state="failed")
    moved = answer_of(signed_in("bo"), asked)
    assert moved.status_code == 409
    assert "gate runs of the release" in html(moved)


def test_a_line_that_moved_before_the_signature_comes_back_named(signed_in, asked):
    Host.objects.filter(name="h100-001").update(address="127.0.64.99")
    moved = answer_of(signed_in("bo"), asked)
    assert moved.status_code == 409
    assert "the commands" in html(moved)
    assert "<span>+</span>-e VLLM_HOST_IP=127.0.64.99</div>" in html(moved)
    assert "<span>−</span>-e VLLM_HOST_IP=127.0.64.1</div>" in html(moved)


def test_a_line_that_moved_after_the_signature_voids_it_and_is_named(signed_in, world, asked):
    sign(asked)
    Host.objects.filter(name="h100-001").update(address="127.0.64.99")
    tick(world, asked, 3)
    assert states(asked)[1] == "awaiting_approval"
    shown = html(signed_in("ana").get(page(asked)))
    assert "Moved since it was signed:" in shown
    assert "<span>+</span>-e VLLM_HOST_IP=127.0.64.99</div>" in shown
    assert Launch.objects.get(replica__name="glm52-r1").release == world.old


def test_the_inbox_shows_the_same_card(signed_in, asked):
    assert "<span>+</span>--max-num-seqs 16</div>" in html(signed_in("bo").get("/inbox/"))
