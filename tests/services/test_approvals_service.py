"""Signatures: by other people with the role, for the facts that were shown, and one answer when two are raced."""

import threading
from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from fleet.models import TrailEntry
from fleet.rules.refusals import Conflict, NeedsReason, NotAllowed
from releases.models import Approval, Release, Rollout, Signature
from releases.services import approvals
from releases.services.approvals import (
    ApprovalRefused,
    FactsMoved,
    OwnRequest,
    approval_ask,
    approval_decide,
    facts_digest,
)
from tests.factories import make_actor, make_person, make_pool

FACTS = {"unit": "glm52-r1", "capacity_after": 2}


class Subject:
    """A kind of request of this test: its facts as they are now, and whom it told."""

    def __init__(self) -> None:
        self.facts = dict(FACTS)
        self.told: list[str] = []

    def decided(self, approval, actor) -> None:
        self.told.append(approval.decision)


@pytest.fixture
def subject(monkeypatch) -> Subject:
    made = Subject()
    kind = approvals._Kind(lambda approval: made.facts, made.decided)
    monkeypatch.setitem(approvals._KINDS, "rollout", kind)
    return made


def make_rollout(needed: int = 1, author: str = "ana") -> Rollout:
    pool = make_pool(approvals_needed=needed)
    release = Release.objects.create(
        pool=pool, title="new", state="reviewed", content={}, content_sha256="c" * 64
    )
    return Rollout.objects.create(
        pool=pool, new_release=release, strategy={}, reason="why", author=make_person(author)
    )


def ask(rollout: Rollout, who: str = "ana", **fields) -> Approval:
    return approval_ask(
        kind="rollout", facts=FACTS, actor=make_actor(who), user=make_person(who),
        rollout=rollout, **fields,
    )  # fmt: skip


def decide(approval: Approval, who: str = "bo", decision: str = "approved", **fields) -> Approval:
    fields = {"reason": "", "facts_digest": approval.facts_digest} | fields
    person = fields.pop("user", None) or make_person(who)
    return approval_decide(
        approval=approval, decision=decision, actor=make_actor(who), user=person, **fields
    )


@pytest.mark.django_db
class TestOneSignature:
    def test_another_person_signs_the_facts_that_were_shown(self, subject):
        approval = decide(ask(make_rollout()), reason="low traffic")
        assert (approval.decision, approval.decided_by.username) == ("approved", "bo")
        assert subject.told == ["approved"]
        told = TrailEntry.objects.get(verb="approval.sign")
        assert (told.actor, told.object_id, told.reason) == (
            "bo",
            approval.rollout.public_id,
            "low traffic",
        )
        assert told.after["facts_digest"] == facts_digest(FACTS)

    def test_the_asker_never_signs_even_with_the_role(self, subject):
        approval = ask(make_rollout(author="chen"), who="ana")
        make_person("ana", role="approver")
        with pytest.raises(OwnRequest):
            decide(approval, "ana")
        assert not Signature.objects.exists()

    def test_the_author_never_signs_what_somebody_else_asked_for(self, subject):
        approval = ask(make_rollout(author="bo"), who="ana")
        with pytest.raises(OwnRequest):
            decide(approval, "bo")

    def test_an_operator_without_the_role_may_not(self, subject):
        approval = ask(make_rollout())
        with pytest.raises(NotAllowed, match="approver"):
            decide(approval, user=make_person("eve", role="operator"))

    def test_an_approver_of_another_pool_may_not(self, subject):
        approval = ask(make_rollout())
        other = make_person("eve", role="approver", pool=make_pool("dsv4"))
        with pytest.raises(NotAllowed, match="pool glm52"):
            decide(approval, user=other)

    def test_an_approver_of_the_pool_may(self, subject):
        rollout = make_rollout()
        own = make_person("eve", role="approver", pool=rollout.pool)
        assert decide(ask(rollout), "eve", user=own).decision == "approved"

    def test_moved_facts_are_not_signed_and_are_named(self, subject):
        approval = ask(make_rollout())
        subject.facts["capacity_after"] = 1
        with pytest.raises(FactsMoved) as refusal:
            decide(approval)
        assert refusal.value.moved == ("capacity_after",)
        assert refusal.value.status == 409
        approval.refresh_from_db()
        assert (approval.decision, subject.told) == ("", [])

    def test_a_digest_that_was_not_shown_is_not_signed(self, subject):
        with pytest.raises(FactsMoved):
            decide(ask(make_rollout()), facts_digest="0" * 64)

    def test_an_expired_request_is_not_signed(self, subject):
        approval = ask(make_rollout())
        Approval.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
        with pytest.raises(ApprovalRefused, match="24 hours"):
            decide(approval)

    def test_a_decided_request_stays_as_it_is(self, subject):
        approval = decide(ask(make_rollout()))
        with pytest.raises(ApprovalRefused, match="approved already, by bo"):
            decide(approval, "cora", user=make_person("cora", role="approver"), decision="denied")

    def test_an_answer_is_one_of_two_words(self, subject):
        with pytest.raises(ApprovalRefused, match="found perhaps"):
            decide(ask(make_rollout()), decision="perhaps")

    def test_asking_anew_withdraws_the_open_request(self, subject):
        rollout = make_rollout()
        first, second = ask(rollout), ask(rollout)
        first.refresh_from_db()
        assert first.decision == "withdrawn"
        assert decide(second).decision == "approved"
        with pytest.raises(ApprovalRefused, match="withdrawn already"):
            decide(first, "cora", user=make_person("cora", role="approver"))


@pytest.mark.django_db
class TestDenial:
    def test_it_needs_words(self, subject):
        with pytest.raises(NeedsReason):
            decide(ask(make_rollout()), decision="denied", reason="  ")

    def test_it_ends_the_request_also_when_the_facts_moved(self, subject):
        approval = ask(make_rollout())
        subject.facts["capacity_after"] = 0
        assert decide(approval, decision="denied", reason="not now").decision == "denied"
        assert subject.told == ["denied"]
        assert TrailEntry.objects.get(verb="approval.reject").reason == "not now"


@pytest.mark.django_db
class TestHowManyOthers:
    def test_two_signatures_are_of_two_people(self, subject):
        approval = ask(make_rollout(needed=2))
        assert decide(approval).decision == ""
        assert decide(approval).decision == "", "signing twice is one signature"
        assert subject.told == []
        last = decide(approval, "cora", user=make_person("cora", role="approver"))
        assert (last.decision, subject.told) == ("approved", ["approved"])

    def test_the_asker_may_want_more_than_the_pool_does(self, subject):
        assert decide(ask(make_rollout(needed=1), needed=2)).decision == ""

    def test_where_nobody_else_is_asked_the_trail_says_so(self, subject):
        approval = ask(make_rollout(needed=0))
        assert (approval.decision, approval.decided_by) == ("approved", None)
        assert subject.told == ["approved"]
        assert TrailEntry.objects.get(verb="approval.ask").after["alone"] is True


@pytest.mark.django_db(transaction=True)
def test_of_a_yes_and_a_no_at_once_one_is_taken(subject):
    approval = ask(make_rollout())
    people = {"approved": make_person("bo"), "denied": make_person("cora", role="approver")}
    gate, answers = threading.Barrier(2), []

    def answer(decision: str) -> None:
        try:
            gate.wait(10)
            decide(approval, decision, user=people[decision], decision=decision, reason="because")
            answers.append(decision)
        except Conflict:
            pass
        finally:
            connection.close()

    both = [threading.Thread(target=answer, args=[decision]) for decision in people]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join(30)
    approval.refresh_from_db()
    assert answers == [approval.decision] == subject.told
