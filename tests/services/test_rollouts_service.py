"""What people do to rollouts: who may go on, what each guard says, and that two at once never both win."""

import threading

import pytest
from django.db import connection
from django.utils import timezone

from fleet.execution.models import Host
from fleet.models import Brake, Replica
from fleet.rules.message import said
from fleet.rules.refusals import Conflict
from releases.models import Endpoint, Gateway, Launch, Rollout
from releases.selectors import incidents
from releases.services.approvals import OwnRequest
from releases.services.releases import release_withdraw
from releases.services.rollout_facts import guard_facts, guards_of, unmet_of, wave_facts
from releases.services.rollout_tick import rollout_advance
from releases.services.rollouts import (
    RolloutRefused,
    rollout_cancel,
    rollout_create,
    rollout_pause,
    rollout_rollback,
    rollout_start,
    rollout_submit,
)
from tests.factories import make_actor, make_person
from tests.rollouts import (
    FAST,
    ask_wave,
    make_release,
    make_rollout,
    make_world,
    reach,
    running,
    sign,
    states,
    submitted,
)

WHO = {"actor": make_actor()}


def reasons(refusal) -> str:
    return " ".join(said(reason) for reason in refusal.value.reasons)


def start(rollout: Rollout) -> Rollout:
    return rollout_start(rollout=rollout, **WHO)


def cancel(rollout: Rollout) -> Rollout:
    return rollout_cancel(rollout=rollout, reason="no", user=make_person("ana"), **WHO)


def roll_back(rollout: Rollout) -> Rollout:
    return rollout_rollback(rollout=rollout, reason="no", user=make_person("ana"), **WHO)


@pytest.mark.django_db
class TestBeforeItRuns:
    def test_a_release_that_nobody_reviewed_is_not_rolled_out(self):
        world = make_world(units=2)
        sealed = make_release(world.pool, "sealed", state="sealed")
        with pytest.raises(RolloutRefused) as refusal:
            rollout_create(
                pool=world.pool, release=sealed, strategy=FAST, reason="x",
                user=make_person("ana"), **WHO,
            )  # fmt: skip
        assert "only a reviewed release" in reasons(refusal)

    def test_a_unit_that_has_the_release_gets_no_wave(self):
        world = make_world(units=3)
        Launch.objects.filter(replica__name="glm52-r2").update(release=world.new)
        rollout = make_rollout(world)
        units = list(rollout.waves.order_by("number").values_list("replica__name", flat=True))
        assert units == [None, "glm52-r1", "glm52-r3"]

    def test_who_had_its_units_read_anew_signs_no_wave_of_it(self):
        world = make_world(units=3)
        rollout = make_rollout(world)
        Launch.objects.filter(replica__name="glm52-r2").update(release=world.new)
        dan = make_person("dan", role="approver")
        rollout = rollout_submit(rollout=rollout, actor=make_actor("dan"), user=dan)
        sign(rollout)
        rollout_start(rollout=rollout, **WHO)
        reach(world, rollout, 1, "awaiting_approval")
        ask_wave(rollout, 1)
        with pytest.raises(OwnRequest):
            sign(rollout, "dan")

    def test_who_submits_it_as_its_author_planned_it_may_sign_a_wave(self):
        world = make_world(units=3)
        dan = make_person("dan", role="approver")
        rollout = rollout_submit(rollout=make_rollout(world), actor=make_actor("dan"), user=dan)
        sign(rollout)
        rollout_start(rollout=rollout, **WHO)
        reach(world, rollout, 1, "awaiting_approval")
        ask_wave(rollout, 1)
        sign(rollout, "dan")

    def test_without_a_gateway_it_is_not_submitted(self):
        rollout = make_rollout(make_world(units=2))
        Endpoint.objects.all().delete()
        Gateway.objects.all().delete()
        with pytest.raises(RolloutRefused) as refusal:
            rollout_submit(rollout=rollout, user=make_person("ana"), **WHO)
        assert "There is no gateway" in reasons(refusal)

    def test_it_starts_only_when_it_was_signed(self):
        rollout = submitted(make_world(units=2))
        with pytest.raises(RolloutRefused):
            start(rollout)
        sign(rollout)
        assert start(rollout).state == "running"

    def test_a_rejected_one_is_a_draft_again(self):
        rollout = submitted(make_world(units=2))
        sign(rollout, decision="denied", reason="not this week")
        assert (rollout.state, said(rollout.explanation)) == ("draft", "Rejected: not this week")

    def test_a_request_that_nobody_answered_in_its_time_is_asked_anew(self):
        rollout = submitted(make_world(units=2))
        with pytest.raises(RolloutRefused):
            rollout_submit(rollout=rollout, user=make_person("ana"), **WHO)
        rollout.approvals.update(expires_at=timezone.now())
        rollout_submit(rollout=rollout, user=make_person("ana"), **WHO)
        sign(rollout)
        assert rollout.state == "approved"
        assert list(rollout.approvals.values_list("decision", flat=True)) == [
            "approved",
            "withdrawn",
        ]

    def test_facts_that_moved_after_the_signature_stop_the_start(self):
        world = make_world(units=3)
        rollout = submitted(world)
        sign(rollout)
        Launch.objects.filter(replica__name="glm52-r2").update(release=world.new)
        Replica.objects.filter(name="glm52-r1").update(generation=5)
        world.pool.promised_units = 1
        world.pool.save()
        with pytest.raises(RolloutRefused) as refusal:
            start(rollout)
        assert "moved after it was approved" in reasons(refusal)

    def test_a_signature_of_the_day_before_starts_nothing(self):
        rollout = submitted(make_world(units=2))
        sign(rollout)
        rollout.approvals.update(expires_at=timezone.now())
        with pytest.raises(RolloutRefused) as refusal:
            start(rollout)
        assert "older than 24 hours" in reasons(refusal)

    def test_a_release_withdrawn_after_the_signature_does_not_start(self):
        world = make_world(units=2)
        rollout = submitted(world)
        sign(rollout)
        type(world.new).objects.filter(pk=world.new.pk).update(state="withdrawn")
        with pytest.raises(RolloutRefused) as refusal:
            start(rollout)
        assert "only a reviewed release" in reasons(refusal)

    def test_what_a_rollout_may_have_to_go_back_to_is_not_withdrawn(self):
        world = make_world(units=2)
        rollout = running(world)
        with pytest.raises(Conflict, match=f"{rollout.public_id} may have to go back"):
            release_withdraw(release=world.old, reason="too old", user=make_person("ana"), **WHO)

    def test_a_second_rollout_of_the_pool_does_not_start(self):
        world = make_world(units=2)
        first, second = submitted(world), submitted(world)
        sign(first)
        sign(second)
        start(first)
        with pytest.raises(RolloutRefused) as refusal:
            start(second)
        assert f"{first.public_id} runs in this pool" in reasons(refusal)

    @pytest.mark.parametrize("state", ["draft", "submitted", "approved"])
    def test_it_is_cancelled_before_it_runs_and_never_begins(self, state):
        rollout = make_rollout(make_world(units=2))
        Rollout.objects.filter(pk=rollout.pk).update(state=state)
        assert cancel(rollout).state == "cancelled"
        assert cancel(rollout).state == "cancelled"
        with pytest.raises(RolloutRefused):
            start(rollout)

    def test_what_runs_is_not_cancelled_but_taken_back(self):
        rollout = running(make_world(units=2))
        with pytest.raises(RolloutRefused):
            cancel(rollout)
        assert roll_back(rollout).state == "rolling_back"
        with pytest.raises(RolloutRefused):
            rollout_pause(rollout=rollout, reason="no", **WHO)

    def test_the_first_wave_is_the_canarys_and_is_not_asked_for(self):
        rollout = running(make_world(units=2))
        with pytest.raises(RolloutRefused) as refusal:
            ask_wave(rollout, 2)
        assert "not the next one" in reasons(refusal)


@pytest.mark.django_db
class TestGuards:
    def unmet(self, rollout: Rollout, number: int = 1) -> str:
        rollout = Rollout.objects.select_related("pool", "new_release").get(pk=rollout.pk)
        facts = wave_facts(rollout, rollout.waves.get(number=number))
        return " ".join(said(text) for text in unmet_of(guards_of(facts)))

    @pytest.fixture
    def world(self):
        return make_world(units=3, spares=2, floor=1)

    @pytest.fixture
    def rollout(self, world):
        return make_rollout(world)

    def test_with_everything_as_it_should_be_none_is_unmet(self, rollout):
        assert (self.unmet(rollout, 0), self.unmet(rollout, 1)) == ("", "")

    def test_capacity(self, world, rollout):
        world.end(world.live("glm52-r3"), "stopped")
        assert "Serving units left: 1, promised: 2." in self.unmet(rollout)

    def test_a_canary_is_no_capacity(self, world, rollout):
        Replica.objects.filter(name="glm52-r3").update(is_canary=True)
        assert "Serving units left: 1, promised: 2." in self.unmet(rollout)

    def test_a_unit_without_traffic_is_no_capacity(self, rollout):
        Replica.objects.filter(name="glm52-r3").update(state="ready")
        assert "Serving units left: 1, promised: 2." in self.unmet(rollout)

    def test_spares(self, rollout):
        Host.objects.filter(name="h100-041").update(reach=Host.Reach.UNREACHABLE)
        assert "Usable spares left: 0, floor: 1." in self.unmet(rollout, 0)
        assert self.unmet(rollout, 1) == "", "a wave on the pool's own nodes takes none"

    def test_a_broken_unit(self, world, rollout):
        world.end(world.live("glm52-r3"), "failed")
        assert "Open in this pool: glm52-r3." in self.unmet(rollout)

    def test_a_hung_unit(self, rollout):
        Replica.objects.filter(name="glm52-r3").update(doubt="hung")
        assert "Open in this pool: glm52-r3." in self.unmet(rollout)

    def test_an_incident_of_the_pool(self, rollout, monkeypatch):
        found = incidents.OpenIncident("INC-0001", "", "open", rollout.pool, None, "/")
        monkeypatch.setattr(incidents, "_FINDERS", [lambda pool: [found]])
        assert self.unmet(rollout) == "Open in this pool: INC-0001."

    def test_a_fired_trigger(self, rollout):
        Rollout.objects.update(triggers=[{"name": "golden", "state": "fired"}])
        assert self.unmet(rollout) == "Triggers have fired: golden."

    def test_a_trigger_without_data_is_shown_to_who_signs(self, rollout):
        Rollout.objects.update(triggers=[{"name": "golden", "state": "no_data"}])
        rollout.refresh_from_db()
        assert guard_facts(rollout, rollout.waves.get(number=1)).silent_triggers == ("golden",)

    @pytest.mark.parametrize("field", [{"reach": "unknown"}, {"key_state": "changed"}])
    def test_a_unit_with_a_node_that_is_not_known(self, rollout, field):
        Host.objects.filter(name="h100-002").update(**field)
        assert "Not known: glm52-r2." in self.unmet(rollout)

    def test_a_unit_in_doubt(self, rollout):
        Replica.objects.filter(name="glm52-r2").update(doubt="unseen")
        assert "Not known: glm52-r2." in self.unmet(rollout)

    def test_another_rollout(self, world, rollout):
        other = make_rollout(world)
        Rollout.objects.filter(pk=other.pk).update(state="paused")
        assert self.unmet(rollout) == f"{other.public_id} runs in this pool."

    def test_the_brake(self, rollout):
        Brake.objects.create(cause="too many")
        assert self.unmet(rollout) == "The mass-change brake is on."


def at_once(*calls) -> list[BaseException | None]:
    """Run calls on threads of their own, together; return what each raised."""
    gate, raised = threading.Barrier(len(calls)), [None] * len(calls)

    def run(place: int) -> None:
        try:
            gate.wait(20)
            calls[place]()
        except (Conflict, RolloutRefused) as refusal:
            raised[place] = refusal
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=[place]) for place in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return raised


@pytest.mark.django_db(transaction=True)
class TestTwoAtOnce:
    def test_a_start_and_a_cancel_do_not_both_win(self):
        rollout = submitted(make_world(units=2))
        sign(rollout)
        refused = at_once(lambda: start(rollout), lambda: cancel(rollout))
        rollout.refresh_from_db()
        assert sum(one is None for one in refused) == 1
        assert rollout.state == ("running" if refused[0] is None else "cancelled")

    def test_a_rejection_and_a_start_do_not_both_win(self):
        rollout = submitted(make_world(units=2))
        make_person("bo")
        reject = lambda: sign(rollout, decision="denied", reason="not now")  # noqa: E731
        refused = at_once(reject, lambda: start(rollout))
        rollout.refresh_from_db()
        assert refused[0] is None
        assert (rollout.state, rollout.started_at) == ("draft", None)

    def test_of_two_starts_in_a_pool_one_is_refused(self):
        world = make_world(units=2)
        first, second = submitted(world), submitted(world)
        sign(first)
        sign(second)
        refused = at_once(lambda: start(first), lambda: start(second))
        assert sum(one is None for one in refused) == 1
        assert Rollout.objects.filter(state="running").count() == 1

    def test_two_conductors_launch_a_canary_once(self):
        rollout = running(make_world(units=2))
        at_once(lambda: rollout_advance(rollout.pk), lambda: rollout_advance(rollout.pk))
        assert Replica.objects.filter(is_canary=True).count() == 1
        assert Launch.objects.filter(replica__is_canary=True).count() == 1
        assert states(rollout)[0] == "replacing"
