"""A pool of two units taken to another release behind a real HAProxy, and taken back when an answer is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.rules.message import said
from tests.factories import make_actor
from tests.needs import needs_haproxy

pytestmark = [
    pytest.mark.lab,
    pytest.mark.django_db(transaction=True),
    needs_haproxy,
]
PATIENCE_S = 600.0  # many launches one after the other, on a busy machine
# No client asks here, so that a window without requests is none to wait for.
STRATEGY = {
    "canary_weights": [5],
    "wave_weights": [10, 100],
    "min_requests": 0,
    "drain_deadline_s": 300,
}


@pytest.fixture
def lab(lab_of, settings):
    four = lab_of(4)
    settings.SSH_KEY_FILE = four.key_path
    yield four
    four.reset()


@pytest.fixture
def pool(console) -> Any:
    """Two units of one node that serve their first release through the gateway, and two spares."""
    from fleet.models import Member, Node, Pool, Replica
    from releases.models import Release
    from releases.services.gateway_seed import gateway_seed
    from releases.services.launches import launch_create

    Member.objects.all().delete()
    Pool.objects.filter(is_spare=True).update(spare_floor=1)
    Pool.objects.filter(slug="dsv4").update(promised_units=1)
    pool = Pool.objects.get(slug="dsv4")
    gateway_seed(console.lab.gateway_row(), actor=make_actor("rule:seed"))
    old = Release.objects.filter(pool=pool).order_by("pk").first()
    for number, node in enumerate(Node.objects.order_by("pk")[:2], start=1):
        unit, _ = Replica.objects.get_or_create(name=f"dsv4-r{number}", defaults={"pool": pool})
        Member.objects.create(replica=unit, node=node, position=0)
        launch_create(replica=unit, release=old, actor=make_actor())
    wanted = {"dsv4-r1": old.pk, "dsv4-r2": old.pk}
    console.until(lambda: serving(pool) == wanted, "both to serve", PATIENCE_S)
    return pool


def serving(pool) -> dict[str, int]:
    """Units that serve by the proxy's own word, with their release."""
    from releases.models import Endpoint

    rows = Endpoint.objects.filter(launch__replica__pool=pool, seen_mode="ready", seen_weight=100)
    return dict(rows.values_list("launch__replica__name", "launch__release_id"))


def person(name: str) -> Any:
    from django.contrib.auth import get_user_model

    return get_user_model().objects.get(username=name)


def started(pool, **strategy: Any) -> Any:
    """Made and submitted by Ana, signed by Bo, started by Ana."""
    from releases.models import Release
    from releases.services import rollouts

    release = Release.objects.filter(pool=pool).order_by("pk").last()
    ana = {"actor": make_actor("ana"), "user": person("ana")}
    rollout = rollouts.rollout_create(
        pool=pool, release=release, strategy=STRATEGY | strategy, reason="other arguments", **ana
    )
    rollouts.rollout_submit(rollout=rollout, **ana)
    sign(rollout)
    return rollouts.rollout_start(rollout=rollout, actor=make_actor("ana"))


def sign(rollout) -> None:
    from releases.services.approvals import approval_decide

    asked = rollout.approvals.get(decision="")
    approval_decide(
        approval=asked, decision="approved", facts_digest=asked.facts_digest, reason="",
        actor=make_actor("bo"), user=person("bo"),
    )  # fmt: skip


def open_waves(rollout) -> None:
    """Ask for the wave that waits and let Bo sign it; a guard that is not met yet is asked again later."""
    from releases.services.approvals import FactsMoved
    from releases.services.rollouts import RolloutRefused, wave_ask

    rollout.refresh_from_db()
    wave = rollout.waves.filter(state="awaiting_approval").first()
    if rollout.state != "running" or wave is None:
        return
    if wave.approvals.filter(decision="approved").exists():
        return
    try:
        wave_ask(
            rollout=rollout, number=wave.number, reason="quiet", actor=make_actor("ana"),
            user=person("ana"),
        )  # fmt: skip
        sign(rollout)
    except (RolloutRefused, FactsMoved):
        pass


def until_state(console, rollout, wanted: str) -> None:
    def reached() -> bool:
        open_waves(rollout)
        assert rollout.state in {"running", "rolling_back", wanted}, told(rollout)
        return rollout.state == wanted

    console.until(reached, f"the rollout to be {wanted}", PATIENCE_S)


def told(rollout) -> str:
    waves = [f"{w.number} {w.state}: {said(w.explanation)}" for w in rollout.waves.all()]
    return "\n".join([rollout.state, said(rollout.explanation), *waves])


def test_a_canary_then_unit_by_unit_to_its_end(console, pool):
    from fleet.models import Member
    from releases.models import Launch

    rollout = started(pool, observe_s=1)
    until_state(console, rollout, "succeeded")
    new = rollout.new_release_id
    assert serving(pool) == {"dsv4-r1": new, "dsv4-r2": new}
    assert Member.objects.filter(released_at=None).count() == 2, "the spares are free again"
    assert Launch.objects.filter(release=new).count() == 3
    assert not Launch.objects.filter(release=new, gate_runs=None).exists()
    for launch in Launch.objects.exclude(release=new):
        assert launch.state == "stopped"
        assert list(launch.drains.values_list("state", flat=True)) == ["drained"]


@pytest.mark.long
def test_a_wrong_answer_in_the_second_wave_halts_it_and_every_unit_goes_back(console, pool):
    from fleet.models import TrailEntry
    from releases.models import Launch
    from releases.services.rollouts import rollout_rollback

    rollout = started(pool, observe_s=120)
    old = set(serving(pool).values())

    def second_observes() -> bool:
        open_waves(rollout)
        assert rollout.state == "running", told(rollout)
        return rollout.waves.get(number=2).state == "observing"

    console.until(second_observes, "the second wave to be observed", PATIENCE_S)
    launch = Launch.objects.get(replica__name="dsv4-r2", state="ready")
    node = launch.plan["positions"][0]["node"]
    console.lab.fault(node, "answer.wrong")
    until_state(console, rollout, "paused")
    assert "wrong answer" in said(rollout.fired)
    assert rollout.waves.get(number=2).state == "observing", (
        "nothing was done before a person said so"
    )
    console.lab.clear(node)
    rollout_rollback(
        rollout=rollout, reason="wrong answers", actor=make_actor("ana"), user=person("ana")
    )
    until_state(console, rollout, "rolled_back")
    assert set(serving(pool)) == {"dsv4-r1", "dsv4-r2"}
    assert set(serving(pool).values()) == old
    order = TrailEntry.objects.filter(verb__in=["wave.rolled_back", "wave.retired"]).order_by("pk")
    assert [entry.after["wave"] for entry in order] == [2, 1, 0]
    proof = TrailEntry.objects.get(verb="rollout.rolled_back").after["proof"]
    assert proof["dsv4-r2"]["generation"] == 3
