"""A rollout carried on tick by tick: to its end, halted, taken back, and never out of its bounds."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from fleet.execution.models import Host, Scrape
from fleet.models import Brake, Replica, TrailEntry
from fleet.rules.message import said
from releases.models import Endpoint, GateRun, Launch
from releases.rules.gates import CHECKS
from releases.services.rollout_seen import newest_gate, rollout_seen, waves_of
from releases.services.rollout_tick import rollout_advance, rollouts_advance
from releases.services.rollouts import (
    RolloutRefused,
    rollout_pause,
    rollout_resume,
    rollout_rollback,
)
from releases.services.spares import spares_usable
from tests.factories import make_actor, make_hold, make_person
from tests.rollouts import ask_wave, go, make_world, reach, running, sign, states, tick

pytestmark = pytest.mark.django_db

AT_WORK = ("draining", "replacing", "warming", "shifting", "observing")


def why(rollout) -> str:
    return said(rollout.explanation)


def roll_back(rollout) -> None:
    rollout_rollback(
        rollout=rollout, reason="worse answers", actor=make_actor(), user=make_person("ana")
    )
    rollout.refresh_from_db()


def resume(rollout, reason="looked at it"):
    rollout_resume(rollout=rollout, reason=reason, actor=make_actor(), user=make_person("ana"))
    rollout.refresh_from_db()


class TestToItsEnd:
    def test_every_unit_gets_the_release_and_the_spares_are_given_back(self):
        world = make_world(units=3, spares=2)
        rollout = go(world, running(world), "succeeded")
        assert states(rollout) == {0: "retired", 1: "passed", 2: "passed", 3: "passed"}
        live = Launch.objects.filter(state="ready").select_related("replica")
        assert {launch.replica.name for launch in live} == {"glm52-r1", "glm52-r2", "glm52-r3"}
        assert {launch.release_id for launch in live} == {world.new.pk}
        assert set(Endpoint.objects.values_list("weight", "mode")) == {(100, "ready")}
        assert (world.lowest, spares_usable()) == (2, 2)
        assert rollout.ended_at is not None
        world.new.refresh_from_db()
        assert world.new.state == "in_service"

    def test_each_unit_was_drained_then_gated_before_it_got_traffic(self):
        world = make_world(units=2)
        go(world, running(world), "succeeded")
        for launch in Launch.objects.filter(release=world.old):
            assert [drain.state for drain in launch.drains.all()] == ["drained"]
        for launch in Launch.objects.filter(release=world.new):
            assert launch.first_weight == 0
            assert [run.state for run in launch.gate_runs.all()] == ["passed"]

    def test_a_tick_when_nothing_happened_changes_nothing(self):
        world = make_world(units=2)
        rollout = running(world)
        reach(world, rollout, 1, "awaiting_approval")
        rollout_advance(rollout.pk)
        before = TrailEntry.objects.count(), states(rollout)
        assert rollout_advance(rollout.pk) is False
        assert (TrailEntry.objects.count(), states(rollout)) == before

    def test_a_weight_that_the_proxy_did_not_say_yet_is_waited_for_and_it_is_told(self):
        world = make_world(units=2)
        rollout = running(world, approve="canary")
        reach(world, rollout, 1, "warming")
        while rollout.waves.get(number=1).state != "shifting":
            world.answer()
            rollout_advance(rollout.pk)
        for _ in range(3):
            rollout_advance(rollout.pk)
            wave = rollout.waves.get(number=1)
            assert (wave.state, wave.step) == ("shifting", 0)
            assert said(wave.explanation) == "Waiting for the proxy to read back the weight."
        world.answer()
        go(world, rollout, "succeeded")

    def test_no_wave_begins_without_its_own_signature(self):
        world = make_world(units=2)
        rollout = running(world)
        tick(world, rollout, 40)
        assert states(rollout) == {0: "passed", 1: "awaiting_approval", 2: "pending"}
        assert Launch.objects.filter(release=world.new).count() == 1

    def test_the_rollouts_own_signature_opens_all_when_the_strategy_says_so(self):
        world = make_world(units=2)
        rollout = running(world, approve="canary")
        tick(world, rollout, 60)
        assert rollout.state == "succeeded"

    def test_without_a_canary_the_first_wave_needs_its_signature(self):
        world = make_world(units=2, spares=0)
        rollout = running(world, has_canary=False)
        tick(world, rollout, 5)
        assert states(rollout) == {1: "awaiting_approval", 2: "pending"}
        go(world, rollout, "succeeded")

    def test_a_signed_wave_whose_facts_moved_waits_for_another_signature(self):
        world = make_world(units=3)
        rollout = running(world)
        reach(world, rollout, 1, "awaiting_approval")
        ask_wave(rollout, 1)
        sign(rollout)
        Replica.objects.filter(name="glm52-r1").update(generation=7)  # another plan
        tick(world, rollout, 3)
        assert states(rollout)[1] == "awaiting_approval"
        told = "What was signed for wave 1 is not so any more: it has to be asked for again."
        assert (why(rollout), said(rollout.waves.get(number=1).explanation)) == (told, told)
        ask_wave(rollout, 1)
        sign(rollout)
        reach(world, rollout, 1, "passed")

    def test_a_wave_that_was_signed_the_day_before_waits_for_another_signature(self):
        world = make_world(units=2)
        rollout = running(world)
        reach(world, rollout, 1, "awaiting_approval")
        ask_wave(rollout, 1)
        sign(rollout)
        rollout.approvals.update(expires_at=timezone.now())
        tick(world, rollout, 3)
        assert states(rollout)[1] == "awaiting_approval"
        assert "older than 24 hours" in why(rollout)

    def test_going_on_asks_again_for_a_signed_wave_whose_facts_moved(self):
        world = make_world(units=2)
        rollout = running(world, has_canary=False)
        reach(world, rollout, 1, "awaiting_approval")
        ask_wave(rollout, 1)
        sign(rollout)
        rollout_pause(rollout=rollout, reason="lunch", actor=make_actor())
        Replica.objects.filter(name="glm52-r1").update(generation=7)  # another plan
        resume(rollout)
        asked = rollout.approvals.get(decision="")
        assert (asked.kind, asked.wave.number, asked.ask_reason) == ("wave", 1, "looked at it")
        tick(world, rollout, 3)
        assert states(rollout)[1] == "awaiting_approval"
        sign(rollout)
        reach(world, rollout, 1, "passed")

    def test_going_on_asks_for_nothing_when_what_was_signed_is_still_so(self):
        world = make_world(units=2)
        rollout = running(world, has_canary=False)
        reach(world, rollout, 1, "awaiting_approval")
        ask_wave(rollout, 1)
        sign(rollout)
        rollout_pause(rollout=rollout, reason="lunch", actor=make_actor())
        resume(rollout)
        assert not rollout.approvals.filter(decision="").exists()
        reach(world, rollout, 1, "passed")

    def test_a_guard_that_is_unmet_holds_a_signed_wave(self):
        world = make_world(units=3)
        rollout = running(world, approve="canary")
        world.pool.promised_units = 3
        world.pool.save()
        tick(world, rollout, 40)
        assert states(rollout)[1] in ("pending", "awaiting_approval")
        assert "Serving units left: 2, promised: 3" in why(rollout)

    def test_a_unit_that_could_not_come_up_again_is_not_taken_out_of_service(self):
        world = make_world(units=3)
        rollout = running(world, approve="canary")
        make_hold(world.live("glm52-r1").replica.members.get().node)
        tick(world, rollout, 40)
        assert states(rollout) == {0: "passed", 1: "pending", 2: "pending", 3: "pending"}
        assert "h100-001 is held by" in why(rollout)
        assert world.live("glm52-r1").release == world.old

    def test_no_further_unit_is_taken_to_a_release_that_was_withdrawn(self):
        world = make_world(units=2)
        rollout = running(world, approve="canary")
        reach(world, rollout, 1, "passed")
        type(world.new).objects.filter(pk=world.new.pk).update(state="withdrawn")
        tick(world, rollout, 10)
        assert states(rollout)[2] == "pending"
        assert "is withdrawn" in why(rollout)

    def test_a_gate_run_over_a_part_of_the_checks_opens_nothing(self):
        world = make_world(units=2)
        rollout, launch = running(world), world.live("glm52-r1")
        runs = GateRun.objects
        runs.all().delete()
        runs.create(launch=launch, purpose="a", checks=["transport"], state="passed")
        assert newest_gate(rollout, launch) is None
        whole = runs.create(launch=launch, purpose="b", checks=list(CHECKS), state="passed")
        runs.create(launch=launch, purpose="c", checks=["transport"], state="inconclusive")
        assert newest_gate(rollout, launch) == whole
        bad = runs.create(launch=launch, purpose="d", checks=["transport"], state="failed")
        assert newest_gate(rollout, launch) == bad


class TestHalts:
    def test_a_failed_gate_halts_and_counts_as_a_trigger(self):
        world = make_world()
        rollout = running(world)
        world.gate_ends = "failed"
        go(world, rollout, "paused")
        assert states(rollout)[0] == "failed"
        assert said(rollout.fired) == "The gate failed: as told"

    def test_a_gate_that_proved_nothing_halts_and_is_asked_again_after_going_on(self):
        world = make_world()
        rollout = running(world)
        world.gate_ends = "inconclusive"
        go(world, rollout, "paused")
        assert (rollout.fired, "proved nothing" in why(rollout)) == ("", True)
        world.gate_ends = "passed"
        resume(rollout)
        reach(world, rollout, 0, "passed")
        runs = GateRun.objects.filter(launch__release=world.new)
        assert list(runs.order_by("pk").values_list("state", flat=True)) == [
            "inconclusive",
            "passed",
        ]

    def test_a_unit_that_does_not_come_up_halts_and_is_tried_again_with_two_signatures(self):
        world = make_world()
        rollout = running(world)
        reach(world, rollout, 1, "replacing")
        world.launch_ends = "failed"
        go(world, rollout, "paused")
        assert said(rollout.fired) == "glm52-r1 did not come up: out of memory"
        world.launch_ends = "ready"
        resume(rollout)
        assert rollout.state == "paused", "two have to sign first"
        sign(rollout)
        assert rollout.state == "paused"
        sign(rollout, "fay")
        assert (rollout.state, rollout.fired) == ("running", "")
        reach(world, rollout, 1, "passed")

    def test_too_few_requests_in_the_window_are_inconclusive(self):
        world = make_world()
        rollout = running(world)
        world.requests = 0
        go(world, rollout, "paused")
        assert "Requests in the window: 0, needed: 5." in why(rollout)
        assert rollout.fired == ""

    def test_the_brake_pauses(self):
        world = make_world()
        rollout = running(world)
        reach(world, rollout, 0, "warming")
        Brake.objects.create(cause="too many")
        tick(world, rollout)
        assert (rollout.state, why(rollout)) == ("paused", "The mass-change brake is on.")

    def test_a_broken_unit_of_the_pool_pauses(self):
        world = make_world()
        rollout = running(world)
        reach(world, rollout, 0, "warming")
        world.end(world.live("glm52-r3"), "failed", "gone")
        tick(world, rollout)
        assert (rollout.state, why(rollout)) == ("paused", "Open in this pool: glm52-r3.")

    @pytest.mark.parametrize(
        ("state", "node", "words"),
        [
            ("draining", {"reach": "unreachable"}, "h100-001 of glm52-r1 does not answer."),
            ("warming", {"reach": "unknown"}, "h100-001 of glm52-r1 does not answer."),
            (
                "observing",
                {"key_state": "changed"},
                "h100-001 of glm52-r1: its host key is changed, not pinned.",
            ),
        ],
        ids=["away", "never seen", "another key"],
    )
    def test_a_node_that_went_away_in_a_wave_pauses_and_is_named(self, state, node, words):
        world = make_world(units=2)
        rollout = running(world, has_canary=False)
        reach(world, rollout, 1, state)
        host = Host.objects.filter(name="h100-001")
        host.update(**node)
        before = Launch.objects.count(), states(rollout)
        tick(world, rollout, 3)
        assert (rollout.state, why(rollout)) == ("paused", words)
        assert (Launch.objects.count(), states(rollout)) == before
        with pytest.raises(RolloutRefused) as refusal:
            resume(rollout)
        assert said(refusal.value.reasons[0]) == words
        host.update(reach="ok", key_state="pinned")
        resume(rollout)
        reach(world, rollout, 1, "passed")

    def test_a_node_that_missed_a_probe_holds_the_wave_and_pauses_nothing(self):
        world = make_world(units=2)
        rollout = running(world, has_canary=False)
        reach(world, rollout, 1, "observing")
        Host.objects.filter(name="h100-001").update(reach="suspect")
        tick(world, rollout, 3)
        assert (rollout.state, states(rollout)[1]) == ("running", "observing")
        assert why(rollout) == "A node of glm52-r1 does not answer."
        Host.objects.update(reach="ok")
        reach(world, rollout, 1, "passed")

    def test_fewer_units_than_are_promised_pause_a_wave_that_has_begun(self):
        world = make_world()
        rollout = running(world, has_canary=False)
        reach(world, rollout, 1, "replacing")
        other = Replica.objects.filter(name="glm52-r3")
        other.update(doubt="unseen")
        tick(world, rollout)
        words = "Other units in service: 1, promised: 2."
        assert (rollout.state, why(rollout)) == ("paused", words)
        with pytest.raises(RolloutRefused):
            resume(rollout)
        other.update(doubt="")
        resume(rollout)
        reach(world, rollout, 1, "passed")

    def test_a_canary_whose_node_is_away_is_waited_for_while_it_gives_its_spares_back(self):
        world = make_world(units=2)
        rollout = running(world)
        reach(world, rollout, 2, "passed")
        reach(world, rollout, 0, "draining")
        canary = Host.objects.filter(node__memberships__replica__is_canary=True)
        canary.update(reach="unreachable")
        tick(world, rollout, 3)
        assert (rollout.state, states(rollout)[0]) == ("running", "draining")
        canary.update(reach="ok")
        go(world, rollout, "succeeded")

    def test_fewer_units_than_are_promised_pause_no_canary_that_gives_its_spares_back(self):
        world = make_world(units=2)
        rollout = running(world)
        reach(world, rollout, 2, "passed")
        reach(world, rollout, 0, "draining")
        Replica.objects.filter(is_canary=False).update(doubt="unseen")
        go(world, rollout, "succeeded")

    def test_nothing_new_begins_while_it_is_paused(self):
        world = make_world()
        rollout = running(world, approve="canary")
        reach(world, rollout, 1, "draining")
        rollout_pause(rollout=rollout, reason="lunch", actor=make_actor())
        before = Launch.objects.count(), states(rollout)
        tick(world, rollout, 5)
        assert (Launch.objects.count(), states(rollout), rollout.state) == (*before, "paused")
        resume(rollout)
        go(world, rollout, "succeeded")

    def test_one_that_was_paused_behind_its_last_wave_goes_on_to_its_end(self):
        world = make_world(units=2)
        rollout = running(world)
        reach(world, rollout, 2, "passed")
        rollout_pause(rollout=rollout, reason="lunch", actor=make_actor())
        resume(rollout)
        go(world, rollout, "succeeded")

    def test_an_interrupted_window_is_observed_from_its_beginning(self):
        world = make_world()
        rollout = running(world, observe_s=3600)
        wave = reach(world, rollout, 0, "observing")
        rollout_pause(rollout=rollout, reason="lunch", actor=make_actor())
        resume(rollout)
        tick(world, rollout)
        again = rollout.waves.get(number=0)
        assert again.observing_since > wave.observing_since
        assert again.requests_at_since > wave.requests_at_since


class TestTriggers:
    def fire(self, world, rollout) -> None:
        reach(world, rollout, 2, "observing")
        Scrape.objects.update(misses=2, status=200, found="41")

    def test_two_golden_misses_in_wave_two_halt_at_the_next_tick_and_ask(self):
        world = make_world()
        rollout = running(world, observe_s=0)
        reach(world, rollout, 1, "passed")
        self.fire(world, rollout)
        tick(world, rollout)
        assert rollout.state == "paused"
        assert "wrong answer 2 times" in said(rollout.fired)
        assert [row["state"] for row in rollout.triggers if row["name"] == "golden"] == ["fired"]
        tick(world, rollout, 3)
        assert rollout.state == "paused", "a person decides"

    def test_with_on_trigger_rollback_it_goes_back_by_itself(self):
        world = make_world()
        rollout = running(world, on_trigger="rollback")
        self.fire(world, rollout)
        go(world, rollout, "rolled_back")
        assert {launch.release_id for launch in Launch.objects.filter(state="ready")} == {
            world.old.pk
        }

    def test_one_that_fires_in_a_pause_asks_for_two_signatures_too(self):
        world = make_world()
        rollout = running(world)
        reach(world, rollout, 0, "observing")
        rollout_pause(rollout=rollout, reason="lunch", actor=make_actor())
        Scrape.objects.update(misses=2)
        tick(world, rollout, 2)
        assert "no answer 2 times" in said(rollout.fired)
        assert TrailEntry.objects.filter(verb="rollout.fire").count() == 1
        Scrape.objects.update(misses=0)
        tick(world, rollout)
        resume(rollout)
        assert rollout.state == "paused", "two have to sign first"

    def test_a_window_does_not_end_on_readings_that_stopped(self):
        world = make_world()
        rollout = running(world)
        reach(world, rollout, 0, "observing")
        Scrape.objects.filter(key__endswith="golden").update(tried_at=None)
        rollout_advance(rollout.pk)
        assert "no data of golden" in said(rollout.waves.get(number=0).explanation)
        assert rollout.waves.get(number=0).step == 0
        reach(world, rollout, 0, "passed")

    def test_errors_of_the_new_release_fire(self):
        world = make_world()
        rollout = running(world)
        reach(world, rollout, 0, "observing")
        world.errors = 10
        tick(world, rollout, 2)
        assert (rollout.state, "Errors of the new release" in said(rollout.fired)) == (
            "paused",
            True,
        )

    def test_errors_of_the_old_release_do_not(self):
        world = make_world()
        rollout = running(world)
        Endpoint.objects.filter(launch__release=world.old).update(errors=1000, requests=1000)
        reach(world, rollout, 0, "passed")
        assert rollout.fired == ""

    def test_going_on_needs_the_trigger_to_be_quiet(self):
        world = make_world()
        rollout = running(world)
        self.fire(world, rollout)
        tick(world, rollout)
        with pytest.raises(RolloutRefused) as refusal:
            resume(rollout)
        assert "Golden answers" in said(refusal.value.reasons[0])

    def test_what_was_counted_before_going_on_is_not_counted_again(self):
        world = make_world()
        rollout = running(world)
        reach(world, rollout, 0, "observing")
        world.errors = 10
        tick(world, rollout, 2)
        world.errors = 0
        world.requests = 50
        from releases.models import Rollout

        Rollout.objects.update(triggers=[])
        rollout.refresh_from_db()
        resume(rollout)
        sign(rollout)
        sign(rollout, "fay")
        reach(world, rollout, 0, "passed")

    def test_before_a_unit_has_the_release_there_is_nothing_to_judge(self):
        world = make_world()
        rollout = running(world)
        tick(world, rollout)
        assert rollout.triggers == []


class TestTakenBack:
    def test_touched_units_go_back_newest_first_and_it_is_proved(self):
        world = make_world()
        rollout = running(world)
        reach(world, rollout, 2, "observing")
        roll_back(rollout)
        go(world, rollout, "rolled_back")
        assert states(rollout) == {
            0: "retired",
            1: "rolled_back",
            2: "rolled_back",
            3: "pending",
        }
        told = TrailEntry.objects.filter(verb__in=["wave.rolled_back", "wave.retired"])
        assert [entry.after["wave"] for entry in told.order_by("pk")] == [2, 1, 0]
        proof = TrailEntry.objects.get(verb="rollout.rolled_back").after["proof"]
        assert proof["glm52-r2"]["release"] == world.old.public_id
        assert (proof["glm52-r2"]["generation"], proof["glm52-r2"]["weight_read"]) == (3, 100)
        assert proof[f"glm52-c{rollout.pk}"] == {"launch": None}
        assert (world.lowest, spares_usable()) == (2, 2)

    @pytest.mark.parametrize(
        ("state", "is_halted"),
        [
            *((state, False) for state in (*AT_WORK, "passed")),
            ("draining", True),
            ("warming", True),
        ],
    )
    def test_it_can_be_taken_back_from_every_state_of_a_wave(self, state, is_halted):
        world = make_world(units=2)
        rollout = running(world)
        reach(world, rollout, 1, state)
        if is_halted:
            rollout_pause(rollout=rollout, reason="lunch", actor=make_actor())
        roll_back(rollout)
        go(world, rollout, "rolled_back")
        self.assert_as_before(world)

    def test_it_can_be_taken_back_after_a_wave_that_failed(self):
        world = make_world(units=2)
        rollout = running(world, approve="canary")
        reach(world, rollout, 0, "passed")
        world.gate_ends = "failed"
        go(world, rollout, "paused")
        assert states(rollout)[1] == "failed"
        roll_back(rollout)
        go(world, rollout, "rolled_back")
        self.assert_as_before(world)

    def assert_as_before(self, world) -> None:
        live = Launch.objects.filter(state="ready").select_related("replica")
        assert {launch.replica.name for launch in live} == {"glm52-r1", "glm52-r2"}
        assert {launch.release_id for launch in live} == {world.old.pk}
        assert set(Endpoint.objects.values_list("weight", "mode")) == {(100, "ready")}
        assert world.lowest >= world.pool.promised_units, "one unit out of service at a time"

    def test_the_brake_and_an_incident_do_not_hold_it(self):
        world = make_world()
        rollout = running(world)
        reach(world, rollout, 1, "observing")
        roll_back(rollout)
        Brake.objects.create(cause="too many")
        world.end(world.live("glm52-r3"), "failed", "gone")
        go(world, rollout, "rolled_back")

    def test_a_unit_that_does_not_come_back_is_said_and_can_be_tried_again(self):
        world = make_world()
        rollout = running(world)
        reach(world, rollout, 1, "observing")
        roll_back(rollout)
        world.launch_ends = "failed"
        go(world, rollout, "rollback_failed")
        assert why(rollout) == "glm52-r1 did not come up: out of memory"
        world.launch_ends = "ready"
        roll_back(rollout)
        go(world, rollout, "rolled_back")

    def test_a_unit_that_changed_after_it_was_taken_back_is_no_proof(self):
        world = make_world()
        rollout = running(world)
        reach(world, rollout, 1, "observing")
        roll_back(rollout)
        reach(world, rollout, 1, "rolled_back")
        world.end(world.live("glm52-r1"), "failed", "gone")
        go(world, rollout, "rollback_failed")
        assert why(rollout) == "glm52-r1 is not as it was before."


def test_one_rollout_that_cannot_be_advanced_stops_no_other(caplog):
    world = make_world(units=2)
    rollout = running(world)
    type(rollout).objects.update(strategy={"nonsense": 1})
    assert rollouts_advance() == 0
    assert "could not be advanced" in caplog.text
    rollout.refresh_from_db()
    assert why(rollout) == "The console could not judge it: BadStrategy"


def test_a_tick_asks_as_often_for_many_units_as_for_few():
    world = make_world(units=6)
    rollout = running(world)
    reach(world, rollout, 2, "observing")
    rollout_seen(rollout, waves_of(rollout), "")  # what a row remembers is not asked twice
    counts = []
    for waves in (waves_of(rollout)[:3], waves_of(rollout)):
        with CaptureQueriesContext(connection) as asked:
            rollout_seen(rollout, waves, "")
        counts.append(len(asked))
    assert counts[0] == counts[1]
