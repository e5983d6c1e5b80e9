"""The pages of incidents and runs: what they show, and what each post does."""

import uuid
from datetime import timedelta

import pytest
from axes.models import AccessAttempt
from django.utils import timezone

from fleet.models import Evidence, Hold
from fleet.rules.message import said, say
from releases.models import Launch, LaunchPosition
from runbooks.models import Incident, Run, RunStep
from runbooks.rules import run as rules
from runbooks.services.incidents import incident_open
from runbooks.services.library import book_for
from runbooks.services.run_moves import step_move
from runbooks.services.run_tick import runs_advance
from runbooks.services.runs import run_propose, run_start
from tests.factories import (
    make_actor,
    make_node,
    make_nodes,
    make_person,
    make_pool,
    make_replica,
)
from tests.traffic import make_release
from tests.views.conftest import WORD

pytestmark = pytest.mark.django_db


@pytest.fixture
def launch() -> Launch:
    """What the unit ran; nothing of it lives any more."""
    unit = make_replica(nodes=make_nodes(2), generation=1)
    launch = Launch.objects.create(
        replica=unit, release=make_release(), generation=1, plan={"positions": []}, state="failed"
    )
    for position, member in enumerate(unit.members.all()):
        LaunchPosition.objects.create(launch=launch, position=position, node=member.node)
    return launch


@pytest.fixture
def incident(launch) -> Incident:
    """The unit hangs; case C is proposed."""
    unit = launch.replica
    incident, _ = incident_open(
        signature="hang",
        pool=unit.pool,
        replica=unit,
        launch=launch,
        title=say("%(unit)s hangs", unit=unit.name),
        symptoms=[{"text": "no token", "source": "LN-0001", "at": timezone.now().isoformat()}],
        began_at=timezone.now() - timedelta(minutes=50),
        actor=make_actor("rule:detector-hang"),
    )
    run_propose(
        incident=incident,
        shelved=book_for("hang"),
        params={"unit": unit.name, "incident": incident.public_id},
        actor=make_actor("rule:detector-hang"),
    )
    return incident


@pytest.fixture
def run(incident) -> Run:
    """Ana started it."""
    return run_start(run=incident.runs.get(), user=make_person("ana"), actor=make_actor())


def post(client, path: str, **fields: str):
    """Send a form with a key of its own and the version that is shown now."""
    fields = {"base_version": str(shown_version(path)), **fields}
    return client.post(path, {"idempotency_key": str(uuid.uuid4()), **fields})


def shown_version(path: str) -> int:
    """The version of what an address is about: a step, a run or an incident."""
    _, kind, _, *rest = path.split("/")
    step = RunStep.objects.filter(step_id=rest[1]).first() if "steps" in rest else None
    return (step or (Run if kind == "runs" else Incident).objects.first()).version


def text_of(answer) -> str:
    return answer.content.decode()


def ask(run: Run, step_id: str) -> RunStep:
    """Bring a run to a step: all before it are done, and it waits for a person."""
    step = run.steps.get(step_id=step_id)
    run.steps.filter(position__lt=step.position).update(state=rules.PASSED)
    run.steps.filter(pk=step.pk).update(state=rules.ASKED)
    Run.objects.filter(pk=run.pk).update(state=rules.WAITING)
    step.refresh_from_db()
    return step


def seal(launch: Launch) -> Evidence:
    return Evidence.objects.create(
        object_kind="launch", object_id=launch.public_id, title="last lines", origin="h100-001",
        body=b"x", size_bytes=1, sha256="ab" * 32,
    )  # fmt: skip


class TestReading:
    def test_the_list_names_what_is_open_and_all_on_request(self, ana, incident):
        assert "glm52-r1 hangs" in text_of(ana.get("/incidents/"))
        Incident.objects.update(state="closed")
        assert incident.public_id not in text_of(ana.get("/incidents/"))
        assert incident.public_id in text_of(ana.get("/incidents/?show=all"))

    @pytest.mark.parametrize("path", ["/incidents/INC-0009/", "/runs/RUN-0009/", "/runs/x/"])
    def test_an_id_nobody_has_is_not_found(self, ana, path):
        assert ana.get(path).status_code == 404

    def test_an_incident_shows_its_chain_and_one_way_on(self, ana, incident, launch):
        piece = seal(launch)
        page = text_of(ana.get(f"/incidents/{incident}/"))
        assert "no token" in page
        assert f'href="/evidence/{piece.pk}/"' in page
        assert "abababababab…" in page
        assert "Not written yet." in page
        assert page.count("btn primary") == 1
        assert f'class="btn primary lg" href="/runs/{incident.runs.get()}/"' in page

    def test_the_time_is_told_against_the_target_of_the_book(self, ana, incident):
        page = text_of(ana.get(f"/incidents/{incident}/"))
        assert "RTO target 45:00" in page
        assert "missed by 5:0" in page
        Incident.objects.update(mitigated_at=incident.began_at + timedelta(minutes=20))
        page = text_of(ana.get(f"/incidents/{incident}/"))
        assert "20:00" in page
        assert "data-running" not in page, "it stopped"

    def test_a_run_shows_the_book_in_the_readers_language(self, signed_in, incident):
        run = incident.runs.get()
        english = text_of(signed_in("ana").get(f"/runs/{run}/"))
        chinese = text_of(signed_in("ana", "zh-hans").get(f"/runs/{run}/"))
        assert "Case C: NCCL hang, replace the whole unit" in english
        assert "Collect before killing" in english
        assert "案例 C：NCCL hang，整组重建" in chinese
        assert "先收证再终止" in chinese
        assert "Collect before killing" not in chinese

    def test_a_step_shows_what_it_found_and_what_that_means(self, ana, run):
        runs_advance()
        runs_advance()
        page = text_of(ana.get(f"/runs/{run}/"))
        assert "The proxy reads back exactly the asked weight." in page
        assert "Nothing of the unit runs, so nothing is sent to it." in page

    def test_the_part_alone_is_the_live_element(self, ana, run):
        headers = {"HX-Request": "true", "HX-Target": "run-live"}
        assert text_of(ana.get(f"/runs/{run}/", headers=headers)).startswith('<div id="run-live"')


class TestIncident:
    def test_taking_acknowledges(self, ana, incident):
        assert post(ana, f"/incidents/{incident}/act/", act="take").status_code == 302
        incident.refresh_from_db()
        assert (incident.owner.username, incident.state) == ("ana", "acknowledged")

    def test_a_note_is_in_the_timeline_and_an_empty_one_is_refused(self, ana, incident):
        where = f"/incidents/{incident}/act/"
        assert post(ana, where, act="note", note=" ").status_code == 422
        post(ana, where, act="note", note="called the vendor")
        assert "called the vendor" in text_of(ana.get(f"/incidents/{incident}/"))

    def test_it_is_closed_only_with_a_cause_evidence_and_no_live_run(self, ana, incident, launch):
        where = f"/incidents/{incident}/act/"
        refused = post(ana, where, act="resolve")
        assert refused.status_code == 409
        for words in ("Write the cause first.", "Link at least one piece", "is not ended yet"):
            assert words in text_of(refused)
        post(ana, where, act="cause", cause="GPU 3 fell off the bus")
        seal(launch)
        Run.objects.update(state="succeeded")
        assert post(ana, where, act="resolve").status_code == 302
        assert post(ana, where, act="close").status_code == 302
        incident.refresh_from_db()
        assert (incident.state, incident.cause) == ("closed", "GPU 3 fell off the bus")

    def test_a_resolved_one_opens_again_unless_another_is_open(self, ana, incident, launch):
        Incident.objects.update(state="resolved")
        again, _ = incident_open(
            signature="hang", pool=incident.pool, replica=incident.replica, launch=launch,
            title="again", symptoms=[], began_at=timezone.now(), actor=make_actor(),
        )  # fmt: skip
        where = f"/incidents/{incident}/act/"
        refused = post(ana, where, act="reopen", base_version="1")
        assert f"{again} is open for the same." in text_of(refused)
        Incident.objects.filter(pk=again.pk).update(state="resolved")
        assert post(ana, where, act="reopen", base_version="1").status_code == 302
        incident.refresh_from_db()
        assert incident.state == "open"

    def test_an_older_page_changes_nothing(self, ana, incident):
        assert (
            post(ana, f"/incidents/{incident}/act/", act="take", base_version="9").status_code
            == 409
        )
        incident.refresh_from_db()
        assert incident.owner is None

    def test_a_book_is_proposed_once(self, ana, incident):
        Run.objects.update(state="aborted")
        for _ in range(2):
            answer = post(
                ana,
                f"/incidents/{incident}/runs/",
                book="case-c",
                base_version=str(incident.version),
            )
            assert answer.status_code == 302
        assert incident.runs.filter(state="proposed").count() == 1
        assert incident.runs.first().params == {"unit": "glm52-r1", "incident": incident.public_id}

    def test_what_is_over_is_left_alone(self, ana, incident):
        Run.objects.update(state="aborted")
        Incident.objects.update(state="closed")
        where = f"/incidents/{incident}"
        for answer in (
            post(ana, f"{where}/act/", act="take"),
            post(ana, f"{where}/act/", act="cause", cause="another"),
            post(ana, f"{where}/runs/", book="case-c"),
        ):
            assert answer.status_code == 409
        assert Run.objects.count() == 1

    def test_a_viewer_reads_and_is_told_why_not_more(self, signed_in, incident):
        chen = signed_in("chen")
        assert "Needs role operator" in text_of(chen.get(f"/incidents/{incident}/"))
        assert post(chen, f"/incidents/{incident}/act/", act="take").status_code == 403


class TestRun:
    def test_starting_puts_it_in_hand(self, ana, incident):
        run = incident.runs.get()
        assert f"Start {run}" in text_of(ana.get(f"/runs/{run}/"))
        assert post(ana, f"/runs/{run}/start/").status_code == 302
        run.refresh_from_db()
        assert (run.state, run.holder.username) == ("running", "ana")

    def test_another_takes_it_over_from_an_old_page(self, signed_in, run):
        bo = signed_in("bo")
        assert f"Take over {run}" in text_of(bo.get(f"/runs/{run}/"))
        assert post(bo, f"/runs/{run}/halt/", act="take", base_version="0").status_code == 302
        run.refresh_from_db()
        assert run.holder.username == "bo"

    def test_aborting_needs_a_reason(self, ana, run):
        assert post(ana, f"/runs/{run}/halt/", act="abort").status_code == 422
        post(ana, f"/runs/{run}/halt/", act="abort", reason="the other unit first")
        run.refresh_from_db()
        assert run.state == "aborted"
        assert "the other unit first" in said(run.explanation)

    def test_the_node_is_chosen_from_those_of_the_launch(self, ana, run):
        ask(run, "cordon")
        page = text_of(ana.get(f"/runs/{run}/"))
        assert "<option>h100-001</option><option>h100-002</option>" in page
        answer = post(
            ana, f"/runs/{run}/steps/cordon/", act="confirm", **{"param-node": "h100-002"}
        )
        assert answer.status_code == 302
        assert Hold.objects.get().node.name == "h100-002"

    def test_no_form_points_a_run_at_another_unit_or_node(self, ana, run):
        """The pool of its unit decided who may act in it."""
        before = run.params
        make_replica("dsv4-r1", pool=make_pool("dsv4"), nodes=[make_node("h100-009")])
        other = {
            "stop": {"param-unit": "dsv4-r1", "typed": "dsv4-r1"},
            "cordon": {"param-node": "h100-009"},
        }
        for name, fields in other.items():
            step = ask(run, name)
            answer = post(ana, f"/runs/{run}/steps/{name}/", act="confirm", **fields)
            assert answer.status_code == 422
            step.refresh_from_db()
            assert step.state == rules.ASKED
        run.refresh_from_db()
        assert run.params == before
        assert not Hold.objects.exists()

    def test_what_waits_for_an_approver_is_recorded_by_nobody_else(self, signed_in, run):
        text = run.book_text.replace('id = "paths"\n', 'id = "paths"\nwho = "approver"\n')
        assert text != run.book_text
        Run.objects.update(book_text=text)
        step = ask(run, "paths")
        RunStep.objects.filter(pk=step.pk).update(state=rules.UNKNOWN)
        shown = [text_of(signed_in(name).get(f"/runs/{run}/")) for name in ("ana", "bo")]
        assert ["Needs role approver" in page for page in shown] == [True, False]
        for name, status in (("ana", 403), ("bo", 302)):
            answer = post(
                signed_in(name), f"/runs/{run}/steps/paths/", act="passed", words="read all 16 logs"
            )
            assert answer.status_code == status, name

    def test_what_is_unknown_is_settled_by_what_a_person_saw(self, ana, run):
        step = ask(run, "paths")
        RunStep.objects.filter(pk=step.pk).update(state=rules.UNKNOWN)
        where = f"/runs/{run}/steps/paths/"
        page = text_of(ana.get(f"/runs/{run}/"))
        assert "Record as passed" in page
        assert "Try step" in page
        assert post(ana, where, act="passed", words=" ").status_code == 422
        assert post(ana, where, act="passed", words="read all 16 logs").status_code == 302
        step.refresh_from_db()
        assert step.state == rules.PASSED
        assert "read all 16 logs" in said(step.explanation)

    def test_a_step_that_failed_is_skipped_with_words_but_never_the_evidence(self, ana, run):
        for name, is_offered in (("freeze", False), ("paths", True)):
            step = ask(run, name)
            RunStep.objects.filter(pk=step.pk).update(state=rules.STEP_FAILED)
            assert ("Skip this step" in text_of(ana.get(f"/runs/{run}/"))) is is_offered
            answer = post(ana, f"/runs/{run}/steps/{name}/", act="skipped", words="not needed")
            assert answer.status_code == (302 if is_offered else 409)

    def test_a_form_about_a_step_is_stale_when_that_step_moved_and_not_when_others_did(
        self, ana, run
    ):
        step = ask(run, "paths")
        where, words = f"/runs/{run}/steps/paths/", {"act": "skipped", "words": "seen by hand"}
        drawn = shown_version(where)
        for name in ("lag", "hardware"):
            other = run.steps.get(step_id=name)
            RunStep.objects.filter(pk=other.pk).update(state=rules.AT_WORK)
            other.refresh_from_db()
            step_move(step=other, to=rules.UNKNOWN, explanation="", actor=make_actor("rule:run"))
        step_move(step=step, to=rules.AT_WORK, explanation="", actor=make_actor("bo"))
        step_move(step=step, to=rules.STEP_FAILED, explanation="", actor=make_actor("rule:run"))
        stale = post(ana, where, base_version=str(drawn), **words)
        assert (stale.status_code, "seen by hand" in text_of(stale)) == (409, True)
        assert post(ana, where, base_version=str(drawn + 2), **words).status_code == 302

    def test_nothing_else_can_be_done_to_a_step(self, ana, run):
        ask(run, "stop")
        assert post(ana, f"/runs/{run}/steps/stop/", act="delete").status_code == 422
        assert post(ana, f"/runs/{run}/steps/no-step/", act="confirm").status_code == 422


class TestDestructiveStep:
    @pytest.fixture
    def stop(self, run) -> RunStep:
        return ask(run, "stop")

    @pytest.fixture
    def stale(self, old_sign_in):
        """Ana signed in six minutes ago."""
        return old_sign_in("ana", 360)

    def confirm(self, client, stop: RunStep, **fields: str):
        return post(client, f"/runs/{stop.run}/steps/stop/", act="confirm", **fields)

    def state(self, stop: RunStep) -> str:
        stop.refresh_from_db()
        return stop.state

    def test_its_target_must_be_typed(self, signed_in, stop):
        ana = signed_in("ana")
        page = text_of(ana.get(f"/runs/{stop.run}/"))
        assert "Type glm52-r1 to confirm" in page
        assert 'type="password"' not in page, "the sign-in is fresh"
        assert self.confirm(ana, stop, typed="glm52-r2").status_code == 422
        assert self.state(stop) == rules.ASKED
        assert self.confirm(ana, stop, typed="glm52-r1").status_code == 302
        assert self.state(stop) == rules.AT_WORK

    def test_an_old_sign_in_is_proved_again(self, stale, stop):
        assert 'type="password"' in text_of(stale.get(f"/runs/{stop.run}/"))
        refused = self.confirm(stale, stop, typed="glm52-r1")
        assert refused.status_code == 403
        assert "give your password again" in text_of(refused)
        assert 'value="glm52-r1"' in text_of(refused), "what was typed comes back"
        assert self.state(stop) == rules.ASKED
        assert self.confirm(stale, stop, typed="glm52-r1", password=WORD).status_code == 302
        assert self.state(stop) == rules.AT_WORK
        assert 'type="password"' not in text_of(stale.get(f"/runs/{stop.run}/"))

    def test_wrong_passwords_count_and_lock_out(self, stale, stop):
        for _ in range(4):
            refused = self.confirm(stale, stop, typed="glm52-r1", password="wrong")
            assert "The password is wrong." in text_of(refused)
            assert 'value="wrong"' not in text_of(refused)
        assert AccessAttempt.objects.get().failures_since_start == 4
        assert self.confirm(stale, stop, typed="glm52-r1", password="wrong").status_code == 429
        assert self.confirm(stale, stop, typed="glm52-r1", password=WORD).status_code == 429
        assert self.state(stop) == rules.ASKED

    def test_a_password_is_never_shown_again(self, stale, stop):
        refused = self.confirm(stale, stop, typed="glm52-r2", password=WORD)
        assert refused.status_code == 422
        assert WORD not in text_of(refused)
