"""Incidents open by themselves, and case C goes from its proposal to the rebuilt unit: rows only, no node."""

from datetime import timedelta

import pytest
from django.utils import timezone

from fleet.execution import states
from fleet.execution.models import Command, CommandOutput, Scrape
from fleet.execution.output import Section, sections_pack
from fleet.models import Evidence, Hold, Member, Replica
from fleet.rules.message import said
from fleet.rules.refusals import Conflict, NeedsReason, Refused
from releases.models import Endpoint, GateRun, Launch, LaunchPosition, Release
from releases.services.launch_moves import launch_move
from runbooks.models import Incident, Run, RunStep
from runbooks.rules import incident as incident_rules
from runbooks.rules import run as rules
from runbooks.services import detectors
from runbooks.services.detectors import detect
from runbooks.services.incidents import incident_cause, incident_move, incident_take
from runbooks.services.library import book_for
from runbooks.services.run_tick import runs_advance
from runbooks.services.runs import (
    run_abort,
    run_propose,
    run_start,
    run_take,
    step_confirm,
    step_record,
)
from tests.browser.scene import CONTENT
from tests.factories import let_know, make_actor, make_node, make_person
from tests.traffic import give, make_gateway, make_ready, make_release, proxy_says

pytestmark = pytest.mark.django_db

KERNEL_LOG = b"[Mon Nov 30 07:00:01 2026] mlx5_core 0000:18:00.0: firmware version: 28.39.1002\n"
EVIDENCE_ANSWER = b"what the node said"


@pytest.fixture
def gateway():
    return make_gateway()


@pytest.fixture
def hung(gateway) -> Launch:
    """A serving unit that the launch rule found to hang."""
    launch = make_ready(1, make_release())
    give(launch)
    proxy_says(gateway)
    Launch.objects.filter(pk=launch.pk).update(explanation="The endpoint generates nothing.")
    Replica.objects.filter(pk=launch.replica_id).update(
        doubt="hung", turned_at=timezone.now() - timedelta(seconds=90)
    )
    launch.refresh_from_db()
    return launch


@pytest.fixture
def run(hung) -> Run:
    """Case C of the hung unit, started by ana."""
    detect()
    return run_start(run=Run.objects.get(), user=make_person("ana"), actor=make_actor())


def step(run: Run, name: str) -> RunStep:
    return run.steps.get(step_id=name)


def iso(at) -> bytes:
    return at.isoformat(timespec="microseconds").replace(".", ",").encode()


def evidence_of(launch: Launch):
    return Command.objects.filter(purpose__contains=f"{launch.public_id}/evidence/")


def answer_evidence(launch: Launch, state: str = "succeeded") -> None:
    evidence_of(launch).update(state=state, settled_at=timezone.now())


def answer_all() -> None:
    """Every node answers: a kernel log without an Xid to whoever asks for one."""
    for command in Command.objects.exclude(state__in=sorted(states.TERMINAL)):
        Command.objects.filter(pk=command.pk).update(state="succeeded", settled_at=timezone.now())
        sections_pack(command.pk, [Section("dmesg", 0, body=KERNEL_LOG)]).save()


def to_step(run: Run, name: str, gateway) -> None:
    """Let the run go by itself, the proxy and the nodes answering, until a step is not pending any more."""
    for _ in range(20):
        runs_advance()
        proxy_says(gateway)
        answer_all()
        if step(run, name).state != rules.PENDING:
            return
    raise AssertionError(f"{name} did not come: {said(Run.objects.get().explanation)}")


class TestDetect:
    def test_a_hung_unit_opens_one_incident_with_its_book(self, hung):
        assert detect() == 1
        assert detect() == 0
        incident = Incident.objects.get()
        assert (incident.signature, incident.replica, incident.launch) == (
            "hang",
            hung.replica,
            hung,
        )
        assert "generates nothing" in said(incident.symptoms[0]["text"])
        assert timezone.now() - incident.began_at >= timedelta(seconds=89), (
            "it began before it was seen"
        )
        run = incident.runs.get()
        assert (run.book_id, run.state, run.params["unit"]) == ("case-c", "proposed", "glm52-r1")
        assert run.steps.count() == len(book_for("hang").book.steps)

    def test_a_unit_that_a_rule_took_down_opens_one_too_and_a_wanted_stop_none(self):
        release = make_release()
        lost, ended = make_ready(1, release), make_ready(2, release)
        for launch, cause in ((lost, "h100-002 lost its ranks."), (ended, "")):
            Launch.objects.filter(pk=launch.pk).update(
                state="stopping", cause=cause, state_at=timezone.now()
            )
        assert detect() == 1
        assert detect() == 0
        assert Incident.objects.get().launch == lost

    def test_an_incident_never_stands_without_its_book_and_holds_up_no_other(
        self, gateway, monkeypatch, caplog
    ):
        release = make_release()
        for number in (1, 2):
            launch = make_ready(number, release)
            Replica.objects.filter(pk=launch.replica_id).update(doubt="hung")

        def dies(*, incident, **rest):
            if incident.replica.name == "glm52-r1":
                raise OSError("died between the two")
            return run_propose(incident=incident, **rest)

        with monkeypatch.context() as broken:
            broken.setattr(detectors, "run_propose", dies)
            assert detect() == 1
        assert "could be opened" in caplog.text
        assert detect() == 1
        assert [incident.runs.count() for incident in Incident.objects.all()] == [1, 1]

    def lose(self, launch: Launch) -> None:
        Launch.objects.filter(pk=launch.pk).update(
            state="freezing", cause="h100-002 lost its ranks.", state_at=timezone.now()
        )
        Replica.objects.filter(pk=launch.replica_id).update(state="failed", doubt="")

    def test_a_hung_unit_that_is_lost_gets_a_line_in_its_case_once(self, hung):
        detect()
        self.lose(hung)
        assert (detect(), detect()) == (0, 0)
        incident = Incident.objects.get()
        notes = [said(note.text) for note in incident.notes.order_by("pk")]
        assert notes[1:] == [f"{hung.public_id} too: h100-002 lost its ranks."]
        assert [one["signature"] for one in incident.symptoms] == ["hang", "rank-lost"]

    def test_the_next_generation_lost_in_an_open_case_gets_a_line_there(self, gateway):
        first = make_ready(1, make_release())
        self.lose(first)
        assert detect() == 1
        Launch.objects.filter(pk=first.pk).update(state="failed", ended_at=timezone.now())
        again = Launch.objects.create(
            replica=first.replica, release=first.release, generation=2, plan=first.plan,
            plan_sha256="b" * 64, ready_at=timezone.now(),
        )  # fmt: skip
        self.lose(again)
        assert (detect(), detect()) == (0, 0)
        incident = Incident.objects.get()
        assert incident.launch == first
        assert incident.notes.count() == 2
        assert again.public_id in said(incident.notes.first().text)

    def test_what_was_told_in_a_case_opens_no_other_when_that_is_over(self, hung):
        detect()
        self.lose(hung)
        detect()
        Incident.objects.update(state="closed")
        assert detect() == 0

    def test_old_failures_are_history(self):
        launch = make_ready(1, make_release())
        Launch.objects.filter(pk=launch.pk).update(
            state="failed", cause="long ago", state_at=timezone.now() - timedelta(days=1)
        )
        assert detect() == 0


class TestRun:
    def test_nothing_happens_before_a_person_starts_it(self, hung):
        detect()
        assert runs_advance() == 0
        assert Endpoint.objects.get().weight == 100

    def test_starting_twice_starts_once_and_the_incident_is_being_mitigated(self, run):
        again = run_start(run=run, user=make_person("bo"), actor=make_actor("bo"))
        assert again.holder.username == "ana"
        assert run.incident.state == "open"  # as it was read before
        assert Incident.objects.get().state == incident_rules.MITIGATING

    def test_the_weight_goes_to_zero_first_and_is_proved_by_the_read_back(self, run, gateway):
        runs_advance()
        assert Endpoint.objects.get().weight == 0
        assert step(run, "weight-zero").state == rules.AT_WORK
        runs_advance()
        assert step(run, "weight-zero").state == rules.AT_WORK, "not read back yet"
        proxy_says(gateway)
        runs_advance()
        assert step(run, "weight-zero").state == rules.PASSED

    def test_a_read_back_that_never_comes_is_unknown_and_only_the_safe_side_goes_on(self, run):
        runs_advance()
        RunStep.objects.filter(step_id="weight-zero").update(deadline_at=timezone.now())
        runs_advance()
        assert step(run, "weight-zero").state == rules.UNKNOWN
        assert step(run, "freeze").state == rules.AT_WORK
        assert step(run, "stop").state == rules.PENDING

    def test_evidence_is_sealed_before_the_stop_may_be_confirmed(self, run, gateway, hung):
        to_step(run, "stop", gateway)
        freeze = step(run, "freeze")
        assert freeze.state == rules.PASSED
        assert step(run, "stop").state == rules.ASKED
        assert Run.objects.get().state == rules.WAITING
        assert hung.__class__.objects.get(pk=hung.pk).state == "ready", "nobody stopped it"

    def test_a_node_that_gave_no_evidence_makes_it_unknown(self, run, gateway, hung):
        runs_advance()
        proxy_says(gateway)
        runs_advance()
        answer_evidence(hung, "failed")
        runs_advance()
        freeze = step(run, "freeze")
        assert freeze.state == rules.UNKNOWN
        assert "h100-001" in said(freeze.explanation)

    def test_evidence_for_which_nobody_was_asked_is_unknown(self, run, gateway, hung):
        LaunchPosition.objects.update(subject=None)
        for _ in range(3):
            runs_advance()
            proxy_says(gateway)
        assert step(run, "freeze").state == rules.UNKNOWN

    def test_a_retry_asks_only_who_did_not_answer_and_seals_nothing_twice(self, run, gateway, hung):
        runs_advance()
        proxy_says(gateway)
        runs_advance()
        silent = evidence_of(hung).filter(host__name="h100-001")
        silent.update(state="failed", settled_at=timezone.now())
        answer_all()
        runs_advance()
        asked, sealed = evidence_of(hung).count(), set(Evidence.objects.values_list("origin"))
        step_confirm(run=run, step_id="freeze", actor=make_actor())
        again = evidence_of(hung).exclude(state__in=["succeeded", "failed"])
        assert {command.host.name for command in again} == {"h100-001"}
        assert evidence_of(hung).count() == asked + 2
        answer_all()
        runs_advance()
        assert step(run, "freeze").state == rules.PASSED
        origins = list(Evidence.objects.values_list("origin"))
        assert len(origins) == len(set(origins)) > len(sealed)

    def test_a_later_loss_of_the_same_launch_is_read_anew(self, run, gateway, hung):
        to_step(run, "stop", gateway)
        before = set(evidence_of(hung).values_list("purpose", flat=True))
        launch_move(
            launch=hung, to="freezing", explanation="", cause="a rank is gone", actor=make_actor()
        )
        fresh = evidence_of(hung).exclude(purpose__in=before)
        assert fresh.count() == len(before)
        assert not fresh.filter(state="succeeded").exists()
        answer_all()
        sealed = Evidence.objects.count()
        launch_move(launch=hung, to="stopping", explanation="", actor=make_actor())
        assert Evidence.objects.count() == 2 * sealed

    @pytest.mark.parametrize(
        ("ago", "state"),
        [
            (timedelta(hours=3), rules.PASSED),
            (timedelta(minutes=5), rules.STEP_FAILED),
            (timedelta(seconds=1), rules.STEP_FAILED),
        ],
        ids=["before", "shortly before", "since"],
    )
    def test_only_an_xid_of_the_incidents_window_is_new(self, run, gateway, ago, state):
        xid = (
            b" NVRM: Xid (PCI:0000:18:00): 79, pid=123, name=python, GPU has fallen off the bus.\n"
        )
        to_step(run, "hardware", gateway)
        command = Command.objects.get(purpose=f"{step(run, 'hardware').purpose}/h100-001")
        assert command.payload["sections"][0]["argv"] == ["dmesg", "--time-format", "iso"]
        answer_all()
        log = iso(timezone.now() - timedelta(hours=4)) + b" mlx5_core 0000:18:00.0: firmware\n"
        log += iso(timezone.now() - ago) + xid
        CommandOutput.objects.filter(command=command).delete()
        sections_pack(command.pk, [Section("dmesg", 0, body=log)]).save()
        runs_advance()
        assert step(run, "hardware").state == state

    def test_the_stop_needs_its_target_typed(self, run, gateway, hung):
        to_step(run, "stop", gateway)
        for typed in ("", "glm52-r2"):
            with pytest.raises(Refused):
                step_confirm(run=run, step_id="stop", typed=typed, actor=make_actor())
        step_confirm(run=run, step_id="stop", typed="glm52-r1", actor=make_actor())
        hung.refresh_from_db()
        assert hung.state == "stopping"
        runs_advance()
        assert step(run, "stop").state == rules.AT_WORK, "nothing is proved gone yet"

    def test_confirming_twice_begins_once(self, run, gateway):
        to_step(run, "stop", gateway)
        for _ in range(2):
            step_confirm(run=run, step_id="stop", typed="glm52-r1", actor=make_actor())
        assert step(run, "stop").attempt == 1

    def test_a_step_that_is_not_asked_cannot_be_begun(self, run):
        with pytest.raises(Conflict):
            step_confirm(run=run, step_id="stop", typed="glm52-r1", actor=make_actor())

    def test_an_old_page_is_refused(self, run, gateway):
        version = run.version
        to_step(run, "stop", gateway)
        with pytest.raises(Conflict):
            step_confirm(
                run=run, step_id="stop", typed="glm52-r1", actor=make_actor(), version=version
            )

    def test_the_unit_comes_up_whole_on_spares_without_the_suspect(self, run, gateway, hung):
        spares = make_nodes_from(10, 3)
        self.stop(run, gateway, hung)
        runs_advance()
        asked = step(run, "cordon")
        assert asked.state == rules.ASKED, "no log names the suspect, so a person does"
        step_confirm(run=run, step_id="cordon", params={"node": "h100-002"}, actor=make_actor())
        runs_advance()
        hold = Hold.objects.get()
        assert (hold.node.name, hold.lifted_at) == ("h100-002", None)
        assert run.public_id in hold.reason
        to_step(run, "rebuild", gateway)
        step_confirm(run=run, step_id="rebuild", actor=make_actor())
        newest = Launch.objects.order_by("-id").first()
        assert newest.pk != hung.pk
        assert (newest.release, newest.first_weight) == (hung.release, 0)
        seated = {m.node.name for m in newest.replica.members.filter(released_at=None)}
        assert seated <= {node.name for node in spares}
        runs_advance()
        assert step(run, "rebuild").state == rules.AT_WORK

    def test_no_spares_is_a_failed_step_in_words_and_may_be_tried_again(self, run, gateway, hung):
        self.stop(run, gateway, hung)
        runs_advance()
        step_confirm(run=run, step_id="cordon", params={"node": "h100-002"}, actor=make_actor())
        to_step(run, "rebuild", gateway)
        step_confirm(run=run, step_id="rebuild", actor=make_actor())
        rebuild = step(run, "rebuild")
        assert rebuild.state == rules.STEP_FAILED
        assert "spare" in said(rebuild.explanation)
        make_nodes_from(10, 2)
        step_confirm(run=run, step_id="rebuild", actor=make_actor())
        assert step(run, "rebuild").state == rules.AT_WORK
        assert Launch.objects.count() == 2

    def test_of_a_rebuild_that_is_refused_half_way_nothing_stays(self, run, gateway, hung):
        make_nodes_from(10, 3)
        self.stop(run, gateway, hung)
        runs_advance()
        step_confirm(run=run, step_id="cordon", params={"node": "h100-002"}, actor=make_actor())
        to_step(run, "rebuild", gateway)
        Release.objects.update(state="withdrawn")
        seats = list(Member.objects.values_list("node", "released_at"))
        step_confirm(run=run, step_id="rebuild", actor=make_actor())
        rebuild = step(run, "rebuild")
        assert (rebuild.state, Launch.objects.count()) == (rules.STEP_FAILED, 1)
        assert "withdrawn" in said(rebuild.explanation)
        assert list(Member.objects.values_list("node", "released_at")) == seats

    def test_a_suspect_that_nobody_knows_is_not_passed_over(self, run, gateway, hung):
        Run.objects.update(params={**run.params, "node": "h100-002, h100-999"})
        self.stop(run, gateway, hung)
        runs_advance()
        runs_advance()
        cordon = step(run, "cordon")
        assert (cordon.state, "h100-999" in said(cordon.explanation)) == (rules.STEP_FAILED, True)

    def stop(self, run: Run, gateway, launch: Launch) -> None:
        to_step(run, "stop", gateway)
        step_confirm(run=run, step_id="stop", typed="glm52-r1", actor=make_actor())
        Launch.objects.filter(pk=launch.pk).update(state="stopped", ended_at=timezone.now())
        Replica.objects.filter(pk=launch.replica_id).update(state="stopped", doubt="")
        Endpoint.objects.filter(launch=launch).delete()
        runs_advance()
        assert step(run, "stop").state == rules.PASSED

    def test_the_ramp_waits_for_read_back_and_dwell_and_falls_to_zero_on_a_miss(
        self, run, gateway, hung
    ):
        RunStep.objects.exclude(step_id__in=["reweight", "mitigate"]).update(state=rules.PASSED)
        Endpoint.objects.update(weight=0)
        runs_advance()
        step_confirm(run=run, step_id="reweight", actor=make_actor())
        assert Endpoint.objects.get().weight == 10
        for _ in range(2):
            proxy_says(gateway)
            runs_advance()
        assert Endpoint.objects.get().weight == 10, "the dwell is not over"
        reweight = step(run, "reweight")
        reweight.facts["since"] = (timezone.now() - timedelta(hours=1)).isoformat()
        reweight.save()
        runs_advance()
        assert Endpoint.objects.get().weight == 100
        Scrape.objects.filter(key__endswith="golden").update(misses=2, error="wrong answer")
        runs_advance()
        assert step(run, "reweight").state == rules.STEP_FAILED
        assert Endpoint.objects.get().weight == 0

    def ramp(self, run: Run, gateway) -> None:
        """Begin to give the weight back; the first step was read back an hour ago."""
        RunStep.objects.exclude(step_id__in=["reweight", "mitigate"]).update(state=rules.PASSED)
        Endpoint.objects.update(weight=0)
        runs_advance()
        step_confirm(run=run, step_id="reweight", actor=make_actor())
        proxy_says(gateway)
        runs_advance()
        reweight = step(run, "reweight")
        reweight.facts["since"] = (timezone.now() - timedelta(hours=1)).isoformat()
        reweight.save()

    @pytest.mark.parametrize("fields", [{"ok_at": None}, {"misses": 1}, {"key": "gone"}])
    def test_the_ramp_does_not_rise_on_an_answer_that_nobody_got(self, run, gateway, fields):
        self.ramp(run, gateway)
        Scrape.objects.filter(key__endswith="golden").update(**fields)
        runs_advance()
        assert Endpoint.objects.get().weight == 10
        assert step(run, "reweight").state == rules.AT_WORK

    @pytest.mark.parametrize("fields", [{"weight": 0}, {"mode": "drain"}])
    def test_the_ramp_leaves_alone_what_somebody_else_wants(self, run, gateway, fields):
        self.ramp(run, gateway)
        Endpoint.objects.update(**fields)
        runs_advance()
        reweight = step(run, "reweight")
        assert reweight.state == rules.STEP_FAILED
        assert said(reweight.explanation) == "Somebody else wants 0 % now."

    def test_the_ramp_ends_in_words_when_a_gate_failed_meanwhile(self, run, gateway, hung):
        self.ramp(run, gateway)
        launch = Endpoint.objects.get().launch
        GateRun.objects.create(launch=launch, purpose="x", checks=["transport"], state="failed")
        runs_advance()
        reweight = step(run, "reweight")
        assert (reweight.state, Endpoint.objects.get().weight) == (rules.STEP_FAILED, 10)
        assert "has passed no gate" in said(reweight.explanation)

    def test_the_end_marks_the_incident_as_mitigated(self, run):
        RunStep.objects.exclude(step_id="mitigate").update(state=rules.PASSED)
        for _ in range(3):
            runs_advance()
        incident = Incident.objects.get()
        assert (incident.state, Run.objects.get().state) == ("mitigated", "succeeded")
        assert incident.mitigated_at

    def test_an_unknown_step_is_settled_by_words_of_a_person(self, run):
        RunStep.objects.filter(step_id="weight-zero").update(state=rules.UNKNOWN)
        with pytest.raises(NeedsReason):
            step_record(
                run=run, step_id="weight-zero", outcome="passed", words=" ", actor=make_actor()
            )
        step_record(
            run=run, step_id="weight-zero", outcome="passed", words="saw 0", actor=make_actor()
        )
        settled = step(run, "weight-zero")
        assert (settled.state, settled.confirmed_by) == ("passed", "ana")

    def test_evidence_cannot_be_skipped(self, run):
        RunStep.objects.filter(step_id="freeze").update(state=rules.STEP_FAILED)
        with pytest.raises(Conflict):
            step_record(
                run=run, step_id="freeze", outcome="skipped", words="no", actor=make_actor()
            )

    def test_an_abort_needs_a_reason_and_begins_nothing_more(self, run, gateway):
        with pytest.raises(NeedsReason):
            run_abort(run=run, reason="", actor=make_actor())
        run_abort(run=run, reason="false alarm", actor=make_actor())
        assert runs_advance() == 0
        assert set(run.steps.values_list("state", flat=True)) == {rules.CANCELLED}

    def test_one_that_cannot_be_advanced_says_so(self, run, caplog):
        Run.objects.update(book_text="")
        assert runs_advance() == 0
        told = said(Run.objects.get().explanation)
        assert told == "The console could not judge it: BrokenBook"

    def test_another_person_takes_it_over(self, run):
        assert (
            run_take(run=run, user=make_person("bo"), actor=make_actor("bo")).holder.username
            == "bo"
        )

    def test_a_second_proposal_of_the_same_book_is_the_same_run(self, run):
        again = run_propose(
            incident=run.incident, shelved=book_for("hang"), params={}, actor=make_actor()
        )
        assert again == run

    def test_none_is_proposed_for_an_incident_that_was_resolved_meanwhile(self, run):
        seen_open = Incident.objects.get()
        Run.objects.update(state="aborted")
        Incident.objects.update(state="resolved")
        with pytest.raises(Conflict, match="is over"):
            run_propose(incident=seen_open, shelved=book_for("hang"), params={}, actor=make_actor())


class TestIncident:
    def test_it_is_closed_only_with_cause_and_evidence(self, hung):
        detect()
        incident = Incident.objects.get()
        run_abort(run=Run.objects.get(), reason="by hand", actor=make_actor())
        with pytest.raises(Conflict, match="cause"):
            incident_move(incident=incident, to="resolved", actor=make_actor())
        incident = incident_cause(
            incident=incident, cause="a cable", actor=make_actor(), version=incident.version
        )
        with pytest.raises(Conflict, match="evidence"):
            incident_move(incident=incident, to="resolved", actor=make_actor())
        Evidence.objects.create(
            object_kind="launch",
            object_id=hung.public_id,
            title="log",
            origin="h100-001",
            body=EVIDENCE_ANSWER,
            size_bytes=len(EVIDENCE_ANSWER),
            sha256="0" * 64,
        )
        incident = incident_move(incident=incident, to="resolved", actor=make_actor())
        assert incident_move(incident=incident, to="closed", actor=make_actor()).closed_at

    def test_taking_it_acknowledges_it(self, hung):
        detect()
        taken = incident_take(
            incident=Incident.objects.get(), user=make_person("ana"), actor=make_actor()
        )
        assert (taken.state, taken.owner.username) == ("acknowledged", "ana")


def make_nodes_from(first: int, count: int):
    """Spare nodes whose names do not collide with those of the units."""

    model = CONTENT["model"]
    return [
        let_know(make_node(f"h100-{number:03d}"), f"{model['slug']}/{model['revision']}")
        for number in range(first, first + count)
    ]
