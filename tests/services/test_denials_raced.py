"""A denial is final, whoever is quicker: nothing that was denied begins, a rollout no more than a wave of it."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from django.db import connection
from django.utils import timezone

from fleet.models import TrailEntry
from fleet.rules.refusals import Conflict
from releases.models import Approval, Drain, Endpoint, Launch, Rollout, Wave
from releases.services.approvals import approval_decide
from releases.services.rollout_tick import rollout_advance
from releases.services.rollouts import (
    RolloutRefused,
    rollout_cancel,
    rollout_start,
    rollout_submit,
)
from tests.factories import make_actor, make_person
from tests.rollouts import World, ask_wave, make_world, running, submitted, tick

pytestmark = pytest.mark.django_db(transaction=True)
TIMES = [6, pytest.param(1000, marks=pytest.mark.long)]


def together(*calls: Callable[[], object]) -> None:
    """Run calls on threads and connections of their own, at once; being refused is one way to lose."""
    gate = Barrier(len(calls))

    def run(call: Callable[[], object]) -> None:
        try:
            gate.wait(20)
            call()
        except (Conflict, RolloutRefused):
            pass
        finally:
            connection.close()

    with ThreadPoolExecutor(len(calls)) as pool:
        list(pool.map(run, calls))


def answer(approval: Approval, who: str, decision: str) -> None:
    approval_decide(
        approval=approval, decision=decision, facts_digest=approval.facts_digest,
        reason="because", actor=make_actor(who), user=make_person(who, role="approver"),
    )  # fmt: skip


@pytest.fixture
def people() -> None:
    for who in ("bo", "cora"):
        make_person(who, role="approver")


@pytest.mark.parametrize("times", TIMES)
def test_a_rollout_that_was_denied_never_started(people, times):
    rollout = submitted(make_world(units=2))
    for _ in range(times):
        asked = rollout.approvals.first()
        together(
            lambda asked=asked: answer(asked, "bo", "denied"),
            lambda asked=asked: answer(asked, "cora", "approved"),
            lambda rollout=rollout: rollout_start(rollout=rollout, actor=make_actor()),
        )
        asked.refresh_from_db()
        rollout.refresh_from_db()
        if asked.decision == "denied":
            assert (rollout.state, rollout.started_at) == ("draft", None)
        else:
            assert (asked.decision, rollout.state in ("approved", "running")) == ("approved", True)
        Rollout.objects.update(state="draft", started_at=None)
        rollout = rollout_submit(rollout=rollout, actor=make_actor(), user=make_person("ana"))


@pytest.mark.parametrize("times", TIMES)
def test_a_wave_that_was_denied_never_began(people, times):
    world = make_world(units=2)
    rollout = running(world, has_canary=False)
    tick(world, rollout)
    for _ in range(times):
        asked = ask_wave(rollout, 1)
        together(
            lambda asked=asked: answer(asked, "bo", "denied"),
            lambda asked=asked: answer(asked, "cora", "approved"),
            lambda: rollout_advance(rollout.pk),
            lambda: rollout_advance(rollout.pk),
        )
        rollout_advance(rollout.pk)  # who came too early looks once more
        asked.refresh_from_db()
        has_begun = rollout.waves.get(number=1).state != "awaiting_approval"
        assert asked.decision in ("approved", "denied")
        assert (
            has_begun
            == (asked.decision == "approved")
            == Drain.objects.filter(ended_at=None).exists()
        )
        put_back(world, rollout)


def test_ten_clicks_of_one_person_are_one_signature(people):
    rollout = submitted(make_world(units=2))
    asked = rollout.approvals.get()
    together(*[lambda: answer(asked, "bo", "approved")] * 10)
    rollout.refresh_from_db()
    assert (rollout.state, asked.signatures.count()) == ("approved", 1)
    assert TrailEntry.objects.filter(verb="approval.sign").count() == 1


def test_a_cancelled_rollout_stays_cancelled_and_the_loser_hears_by_whom(people):
    rollout = submitted(make_world(units=2))
    asked, ana = rollout.approvals.get(), make_person("ana")
    together(
        lambda: answer(asked, "bo", "approved"),
        lambda: rollout_cancel(rollout=rollout, reason="no", actor=make_actor(), user=ana),
    )
    rollout.refresh_from_db()
    assert rollout.state == "cancelled"
    with pytest.raises(Conflict, match=r"already, by (ana|bo)"):
        answer(asked, "cora", "approved")
    with pytest.raises(RolloutRefused):
        rollout_start(rollout=rollout, actor=make_actor())


def put_back(world: World, rollout: Rollout) -> None:
    """The unit as before its wave."""
    Drain.objects.filter(launch__replica__name="glm52-r1").delete()
    Wave.objects.filter(rollout=rollout, number=1).update(state="awaiting_approval")
    launch = Launch.objects.get(replica__name="glm52-r1", state="ready")
    Endpoint.objects.filter(launch=launch).update(
        mode="ready", weight=100, changed_at=timezone.now()
    )
    world.answer()
