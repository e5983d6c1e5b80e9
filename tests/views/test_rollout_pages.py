"""The pages of rollouts and the inbox: what they show, who may act, and what comes back when an answer is refused."""

import uuid

import pytest
from axes.models import AccessAttempt
from django.test import Client
from django.utils import timezone

from fleet.models import TrailEntry
from fleet.services.reach import reach_settle
from fleet.services.replicas import replica_doubt
from releases.models import Approval, Launch, Rollout
from releases.selectors import incidents
from runbooks.services.incidents import incident_open
from tests.factories import make_actor, make_person
from tests.rollouts import ask_wave, make_rollout, make_world, reach, running, sign, submitted
from tests.views.conftest import WORD

pytestmark = pytest.mark.django_db


def post(client: Client, address: str, **fields: str):
    return client.post(address, {"idempotency_key": str(uuid.uuid4()), **fields})


def page(rollout: Rollout) -> str:
    return f"/rollouts/{rollout.public_id}/"


def html(answer) -> str:
    return answer.content.decode()


def answer_of(client, rollout, decision="approved", **fields):
    approval = rollout.approvals.get(decision="")
    fields = {"facts_digest": approval.facts_digest, "decision": decision} | fields
    return post(client, f"{page(rollout)}sign/{approval.pk}/", **fields)


@pytest.fixture
def bo(signed_in) -> Client:
    return signed_in("bo")


@pytest.fixture
def asked():
    """A rollout whose first wave behind the canary waits for a signature, asked for by Ana."""
    world = make_world(units=2)
    rollout = running(world)
    reach(world, rollout, 1, "awaiting_approval")
    ask_wave(rollout, 1)
    return rollout


class TestNew:
    def test_a_draft_is_made_with_the_usual_strategy(self, ana):
        world = make_world(units=2)
        shown = html(ana.get("/rollouts/new/"))
        assert world.new.public_id in shown
        made = post(ana, "/rollouts/new/", pool="glm52", release=str(world.new.pk), reason="faster")
        rollout = Rollout.objects.get()
        assert made.url == page(rollout)
        assert (rollout.state, rollout.strategy["canary_weights"]) == ("draft", [1, 5, 25])
        assert not Launch.objects.filter(release=world.new).exists()

    def test_a_bad_strategy_comes_back_as_a_sentence(self, ana):
        world = make_world(units=2)
        refused = post(
            ana, "/rollouts/new/", pool="glm52", release=str(world.new.pk), reason="faster",
            wave_weights="10, 50",
        )  # fmt: skip
        assert refused.status_code == 409
        assert "Weights of a unit, %: expected 100 at the end, found 10, 50" in html(refused)

    @pytest.mark.parametrize(
        ("field", "found", "words"),
        [
            ("canary_weights", "5; 1", "Canary weights, %: expected rising percents"),
            ("observe_min", "soon", "Window at each weight, min: expected a whole number"),
            ("drain_min", "9999", "Drain deadline, s: expected 0 to 86400"),
        ],
    )
    def test_a_field_is_named_as_the_form_names_it(self, ana, field, found, words):
        world = make_world(units=2)
        fields = {"pool": "glm52", "release": str(world.new.pk), "reason": "faster", field: found}
        assert words in html(post(ana, "/rollouts/new/", **fields))

    @pytest.mark.parametrize(("lab", "window", "requests"), [(True, 60.0, 0), (False, 600.0, 20)])
    def test_a_rehearsed_fleet_waits_for_no_users(self, ana, settings, lab, window, requests):
        settings.IS_REHEARSAL = lab
        world = make_world(units=2)
        post(ana, "/rollouts/new/", pool="glm52", release=str(world.new.pk), reason="faster")
        strategy = Rollout.objects.get().strategy
        assert (strategy["observe_s"], strategy["min_requests"]) == (window, requests)

    def test_in_chinese_a_bad_strategy_is_told_in_chinese(self, signed_in):
        world = make_world(units=2)
        refused = post(
            signed_in("ana", language="zh-hans"), "/rollouts/new/", pool="glm52",
            release=str(world.new.pk), reason="faster", observe_min="9999",
        )  # fmt: skip
        assert refused.status_code == 409
        assert "expected" not in html(refused)

    def test_an_operator_of_another_pool_may_not(self, signed_in, client):
        from tests.factories import make_pool

        world = make_world(units=2)
        eve = make_person("eve", role="operator", pool=make_pool("dsv4"))
        client.force_login(eve)
        refused = post(
            client, "/rollouts/new/", pool="glm52", release=str(world.new.pk), reason="mine"
        )
        assert refused.status_code == 403
        assert not Rollout.objects.exists()


class TestFromDraftToStart:
    def test_it_is_asked_signed_by_another_and_started(self, ana, bo):
        rollout = make_rollout(make_world(units=2))
        act = f"{page(rollout)}act/"
        version = lambda: str(Rollout.objects.get().version)  # noqa: E731
        assert post(ana, act, act="submit", base_version=version()).status_code == 302
        assert "Needs role approver" in html(ana.get(page(rollout)))
        assert answer_of(bo, rollout, reason="low traffic").status_code == 302
        assert post(ana, act, act="start", base_version=version()).status_code == 302
        rollout.refresh_from_db()
        assert rollout.state == "running"

    def test_an_older_page_changes_nothing(self, ana):
        rollout = submitted(make_world(units=2))
        sign(rollout)
        stale = post(ana, f"{page(rollout)}act/", act="start", base_version="1")
        assert stale.status_code == 409
        rollout.refresh_from_db()
        assert rollout.state == "approved"

    def test_without_a_signature_a_direct_post_does_not_start_it(self, ana):
        rollout = make_rollout(make_world(units=2))
        refused = post(ana, f"{page(rollout)}act/", act="start", base_version=str(rollout.version))
        assert refused.status_code == 409
        rollout.refresh_from_db()
        assert rollout.state == "draft"


class TestCard:
    def test_it_shows_what_a_click_touches_and_what_proves_it(self, bo, asked):
        shown = html(bo.get(page(asked)))
        assert "Wave 1 of" in shown
        assert "Drain glm52-r1 on h100-001" in shown
        assert "the last one is quiet" in shown
        assert "promised 1" in shown

    def test_the_asker_is_refused_also_by_a_direct_post(self, signed_in, asked):
        make_person("ana", role="approver")
        refused = answer_of(signed_in("ana"), asked)
        assert refused.status_code == 403
        assert Approval.objects.get(kind="wave").decision == ""

    def test_an_operator_may_not_sign(self, client, asked):
        client.force_login(make_person("eve", role="operator"))
        assert answer_of(client, asked).status_code == 403

    def test_moved_facts_come_back_marked_with_what_was_typed(self, bo, asked):
        asked.pool.promised_units = 2
        asked.pool.save()
        moved = answer_of(bo, asked, reason="looks fine to me")
        assert moved.status_code == 409
        assert "promised units" in html(moved)
        assert "looks fine to me" in html(moved)
        assert Approval.objects.get(kind="wave").decision == ""

    def test_a_request_that_nobody_answered_in_time_is_asked_anew(self, ana, bo, asked):
        Approval.objects.filter(kind="wave").update(expires_at=timezone.now())
        assert "Nothing waits for you." in html(bo.get("/inbox/"))
        shown = html(ana.get(page(asked)))
        assert "not answered within 24 hours" in shown
        assert "Ask for wave 1" in shown

    def test_a_rollouts_own_request_that_is_too_old_can_be_asked_anew(self, ana):
        rollout = submitted(make_world(units=2))
        assert "Ask for approval" not in html(ana.get(page(rollout)))
        rollout.approvals.update(expires_at=timezone.now())
        assert "Ask for approval" in html(ana.get(page(rollout)))

    def test_a_double_click_is_one_signature(self, bo, asked):
        approval = asked.approvals.get(decision="")
        fields = {
            "idempotency_key": str(uuid.uuid4()), "decision": "approved",
            "facts_digest": approval.facts_digest,
        }  # fmt: skip
        answers = [bo.post(f"{page(asked)}sign/{approval.pk}/", fields) for _ in range(2)]
        assert [answer.status_code for answer in answers] == [302, 302]
        assert TrailEntry.objects.filter(verb="approval.sign", after__kind="wave").count() == 1

    def test_a_rejection_needs_words(self, bo, asked):
        assert answer_of(bo, asked, "denied").status_code == 422
        assert answer_of(bo, asked, "denied", reason="not tonight").status_code == 302
        assert "not tonight" in html(bo.get(page(asked)))

    def test_a_pool_that_asks_nobody_says_so_loudly(self, ana):
        world = make_world(units=2, needed=0)
        rollout = submitted(world)
        assert rollout.state == "approved"
        assert "alone" in html(ana.get(page(rollout)))


class TestOldSignIn:
    """Bo signed in an hour and a minute ago."""

    @pytest.fixture
    def stale(self, old_sign_in) -> Client:
        return old_sign_in("bo", 3660)

    def decision(self, rollout: Rollout) -> str:
        return rollout.approvals.order_by("id").last().decision

    def test_it_signs_nothing_and_asks_for_the_password_on_the_card(self, stale, asked):
        for where in (page(asked), "/inbox/"):
            assert 'id="password-sign"' in html(stale.get(where))
        refused = answer_of(stale, asked, reason="looks fine to me")
        assert refused.status_code == 403
        assert "give your password again" in html(refused)
        assert 'id="password-sign"' in html(refused)
        assert "looks fine to me</textarea>" in html(refused), "what was typed comes back"
        assert self.decision(asked) == ""
        assert not Approval.objects.get(decision="").signatures.exists()

    def test_the_password_signs(self, stale, asked):
        assert answer_of(stale, asked, password=WORD).status_code == 302
        assert self.decision(asked) == "approved"

    def test_given_once_it_holds_for_the_next_click(self, stale, asked):
        refused = answer_of(stale, asked, password=WORD, facts_digest="0" * 64)
        assert refused.status_code == 409, "of other facts"
        assert WORD not in html(refused)
        assert 'id="password-sign"' not in html(stale.get(page(asked)))
        assert answer_of(stale, asked).status_code == 302

    def test_wrong_passwords_count_and_lock_out(self, stale, asked):
        for _ in range(4):
            refused = answer_of(stale, asked, password="wrong")
            assert refused.status_code == 403
            assert "The password is wrong." in html(refused)
            assert 'value="wrong"' not in html(refused)
        assert AccessAttempt.objects.get().failures_since_start == 4
        assert answer_of(stale, asked, password="wrong").status_code == 429
        assert answer_of(stale, asked, password=WORD).status_code == 429
        assert self.decision(asked) == ""

    def test_another_persons_password_is_none(self, stale, asked):
        dan = make_person("dan", role="approver")
        dan.set_password("another long word")
        dan.save()
        assert answer_of(stale, asked, password="another long word").status_code == 403
        assert self.decision(asked) == ""

    def test_rejecting_asks_for_none(self, stale, asked):
        assert answer_of(stale, asked, "denied", reason="not tonight").status_code == 302
        assert self.decision(asked) == "denied"

    def test_younger_than_an_hour_it_signs_as_ever(self, old_sign_in, asked):
        client = old_sign_in("bo", 3540)
        assert 'id="password-sign"' not in html(client.get(page(asked)))
        assert answer_of(client, asked).status_code == 302

    def test_who_may_not_sign_is_not_asked(self, old_sign_in, asked):
        assert 'id="password-sign"' not in html(old_sign_in("chen", 3660).get(page(asked)))

    def test_what_is_answered_already_is_told_instead(self, stale, asked):
        approval = Approval.objects.get(decision="")
        sign(asked)
        told = post(
            stale, f"{page(asked)}sign/{approval.pk}/",
            facts_digest=approval.facts_digest, decision="approved",
        )  # fmt: skip
        assert told.status_code == 409
        assert "approved already" in html(told)


class TestHalt:
    def test_rolling_back_needs_the_id_typed_and_no_fresh_page(self, ana, asked):
        halt = f"{page(asked)}halt/"
        assert post(ana, halt, act="rollback", reason="worse", confirm="RO-1").status_code == 422
        done = post(ana, halt, act="rollback", reason="worse", confirm=asked.public_id)
        assert done.status_code == 302
        asked.refresh_from_db()
        assert asked.state == "rolling_back"
        assert Approval.objects.get(kind="wave").decision == "withdrawn"

    def test_rolling_back_after_six_minutes_needs_the_password_too(self, old_sign_in, asked):
        stale, typed = old_sign_in("ana", 360), {"reason": "worse", "confirm": asked.public_id}
        halt = f"{page(asked)}halt/"
        assert 'id="password-back-rail"' in html(stale.get(page(asked)))
        refused = post(stale, halt, act="rollback", **typed)
        assert refused.status_code == 403
        assert "worse</textarea>" in html(refused), "what was typed comes back"
        assert f'value="{asked.public_id}"' in html(refused)
        asked.refresh_from_db()
        assert asked.state == "running"
        assert post(stale, halt, act="rollback", password=WORD, **typed).status_code == 302
        asked.refresh_from_db()
        assert asked.state == "rolling_back"

    def test_a_pause_never_waits_for_a_password(self, old_sign_in, asked):
        done = post(old_sign_in("ana", 360), f"{page(asked)}halt/", act="pause", reason="look")
        assert done.status_code == 302

    def test_a_viewer_sees_why_not(self, signed_in, asked):
        shown = html(signed_in("chen").get(page(asked)))
        assert "Needs role operator" in shown


class TestInbox:
    def test_it_shows_what_waits_for_me_first(self, bo, ana, asked):
        assert "1 waits for you" in html(bo.get("/inbox/"))
        assert "Nothing waits for you." in html(ana.get("/inbox/"))
        assert "Waits for others" in html(ana.get("/inbox/"))

    def test_it_shows_incidents_that_another_app_tells_of(self, bo, asked, monkeypatch):
        found = incidents.OpenIncident(
            "INC-0147", "A unit hangs", "open", asked.pool, asked.created_at, "/incidents/INC-0147/"
        )
        monkeypatch.setattr(incidents, "_FINDERS", [lambda pool: [found]])
        shown = html(bo.get("/inbox/"))
        assert "INC-0147" in shown
        assert "/incidents/INC-0147/" in shown


def test_the_list_and_the_jump_field_lead_to_it(ana, asked):
    assert asked.public_id in html(ana.get("/rollouts/"))
    assert ana.get("/jump/", {"q": asked.public_id.lower()}).url == page(asked)


def test_it_speaks_chinese(signed_in, asked):
    shown = html(signed_in("bo", language="zh-hans").get(page(asked)))
    assert "批准第 1 批" in shown


class TestHearing:
    """The guards of a wave are read anew when what they read has moved, not only when the rollout has."""

    def test_an_incident_a_node_that_goes_away_and_a_doubt_are_heard(
        self, ana, asked, monkeypatch, django_capture_on_commit_callbacks
    ):
        rung: set[str] = set()
        monkeypatch.setattr("fleet.doorbell._send", rung.update)
        heard = set(ana.get(page(asked)).context["topics"])
        unit = asked.pool.replicas.get(name="glm52-r2")
        node = unit.members.first().node

        def incident() -> None:
            incident_open(
                signature="test", pool=asked.pool, replica=unit, launch=None, title="it hangs",
                symptoms=[], began_at=timezone.now(), actor=make_actor(),
            )  # fmt: skip

        def away() -> None:
            node.host.reach = "unreachable"
            node.host.save()
            reach_settle()

        def doubt() -> None:
            replica_doubt(replica=unit, doubt="unseen", explanation="?", actor=make_actor())

        for happens in (incident, away, doubt):
            rung.clear()
            with django_capture_on_commit_callbacks(execute=True):
                happens()
            assert rung & heard, happens.__name__

    def test_its_live_part_asks_again_at_every_topic_that_is_heard(self, ana, asked):
        answer = ana.get(page(asked))
        wanted = ", ".join(f"{topic} from:body" for topic in answer.context["topics"])
        assert f'hx-trigger="{wanted}"' in html(answer)


def test_a_wave_that_waits_is_said_in_every_list_too(bo, asked):
    for address in ("/rollouts/", "/inbox/", "/"):
        (row, mark, _words) = bo.get(address).context["rollouts"][0]
        assert (row, str(mark.word)) == (asked, "Wave 1 waits for approval"), address
