"""A pool of two units taken to another release behind a real HAProxy, and taken back when an answer is wrong."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from fleet.rules.message import said
from tests.factories import make_actor
from tests.flows.ledger import ledger_of, named_by_the_console
from tests.flows.pools import (
    PATIENCE_S,
    open_waves,
    person,
    serving,
    serving_pool,
    started,
    told,
    until_state,
)
from tests.needs import four_nodes, needs_haproxy

pytestmark = [
    pytest.mark.lab,
    pytest.mark.django_db(transaction=True),
    needs_haproxy,
    four_nodes,
]


@pytest.fixture
def pool(console) -> Any:
    return serving_pool(console)


@pytest.mark.long  # test_rollout_shot_at.py walks the same way, shot at
def test_a_canary_then_unit_by_unit_to_its_end_without_a_lost_request(console, pool):
    from fleet.models import Member
    from releases.models import Launch

    with ledger_of(pool) as ledger:
        # No drain is cut at a deadline, however busy the machine is.
        rollout = started(pool, observe_s=1, drain_deadline_s=3000)
        until_state(console, rollout, "succeeded")
    assert ledger.sent == ledger.answered, ledger.lost
    assert named_by_the_console() == 0
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


@pytest.mark.long
def test_a_weight_counts_once_a_proxy_that_was_killed_meanwhile_says_it(console):
    from fleet.models import TrailEntry
    from releases.models import Endpoint, Gateway

    pool = serving_pool(console, units=1)
    rollout = started(pool, has_canary=False, observe_s=1)
    gateway = Gateway.objects.select_related("subject").get()
    before = gateway.subject.epoch

    def new_endpoint() -> Any:
        return Endpoint.objects.filter(launch__release=rollout.new_release_id).first()

    def shifts() -> bool:
        open_waves(rollout)
        assert rollout.state == "running", told(rollout)
        return rollout.waves.get().state == "shifting"

    console.until(shifts, "the weight to be wanted", PATIENCE_S)
    # Wanted by the last thing that this tick did: nothing of it was ordered yet.
    assert (new_endpoint().weight, new_endpoint().seen_at) == (10, None)
    os.kill(gateway.subject.pid, signal.SIGKILL)
    said_so = []

    def is_started_again() -> bool:
        gateway.subject.refresh_from_db()
        wave = rollout.waves.get()
        if gateway.subject.epoch > before:
            return True
        assert (wave.state, wave.step) == ("shifting", 0)
        assert new_endpoint().seen_weight != 10, "nobody has said so yet"
        said_so.append(said(wave.explanation))
        return False

    console.until(is_started_again, "the proxy to be started again", PATIENCE_S)
    assert said_so[-1] == "Waiting for the proxy to read back the weight."
    until_state(console, rollout, "succeeded")
    gateway.refresh_from_db()
    assert new_endpoint().seen_weight == 100
    observed = TrailEntry.objects.get(verb="wave.observing")
    assert observed.at > gateway.subject.started_at, "not before the new proxy had said it"
