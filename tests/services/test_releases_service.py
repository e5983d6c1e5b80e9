import pytest
from django.db import IntegrityError, transaction

from fleet.models import Replica, TrailEntry
from fleet.rules.message import said
from fleet.rules.refusals import Conflict, NeedsReason, Refused
from releases.models import Launch, Release, Rollout
from releases.services.approvals import FactsMoved, OwnRequest, approval_decide, facts_digest
from releases.services.releases import (
    ReleaseRefused,
    release_draft,
    release_edit,
    release_in_service,
    release_review_ask,
    release_seal,
    release_withdraw,
    releases_settle,
    review_facts,
)
from releases.services.seed import releases_seed
from tests.contents import CONTENT, content_with
from tests.factories import make_actor, make_person, make_pool, make_replica

pytestmark = pytest.mark.django_db


def draft(pool=None, content=CONTENT, user=None, **fields) -> Release:
    pool = pool or make_pool("glm52")
    fields = {"title": "glm-5.2 next", "actor": make_actor(), **fields}
    return release_draft(pool=pool, content=content, user=user, **fields)


def sealed(**fields) -> Release:
    return release_seal(release=draft(**fields), actor=make_actor())


def sign(approval, user, decision="approved", digest=None, reason="read it"):
    return approval_decide(
        approval=approval,
        decision=decision,
        facts_digest=digest or approval.facts_digest,
        reason=reason,
        actor=make_actor(user.username),
        user=user,
    )


def ask(release, user):
    return release_review_ask(release=release, actor=make_actor(), user=user)


def verbs() -> list[str]:
    entries = TrailEntry.objects.filter(object_kind="release").order_by("id")
    return list(entries.values_list("verb", flat=True))


@pytest.fixture
def reviewed() -> Release:
    pool = make_pool("glm52")
    releases_seed()
    return Release.objects.filter(pool=pool).earliest("id")


class TestDraft:
    def test_a_draft_may_say_what_another_release_says_and_is_told(self, reviewed):
        copy = draft(pool=reviewed.pool, content=reviewed.content, based_on=reviewed)
        assert (copy.state, copy.based_on, copy.is_rehearsal) == ("draft", reviewed, True)
        assert verbs()[-1] == "release.draft"

    def test_editing_changes_the_hash_and_saving_the_same_writes_nothing(self):
        release = draft()
        for _ in range(2):
            release = release_edit(
                release=release,
                title="x",
                content=content_with("env", {}),
                actor=make_actor(),
                user=None,
            )
        assert (release.version, release.content["env"]) == (2, {})
        assert verbs() == ["release.draft", "release.edit"]

    @pytest.mark.parametrize("title", ["", "  ", "x" * 121])
    def test_it_needs_a_title(self, title):
        with pytest.raises(Refused, match="title of 1 to 120"):
            draft(title=title)


class TestSeal:
    def test_a_pinned_draft_is_sealed_once(self):
        release = sealed()
        assert release.state == "sealed"
        assert release.sealed_at is not None
        with pytest.raises(Conflict, match="cannot become sealed"):
            release_seal(release=release, actor=make_actor())

    def test_everything_unpinned_is_named_and_nothing_is_sealed(self):
        content = content_with("model.revision", "main", content_with("image.digest", "v0.23.0"))
        release = draft(content=content)
        with pytest.raises(ReleaseRefused) as caught:
            release_seal(release=release, actor=make_actor())
        named = [said(reason).partition(":")[0] for reason in caught.value.reasons]
        assert named == ["model.revision", "image.digest"]
        release.refresh_from_db()
        assert (release.state, verbs()) == ("draft", ["release.draft"])

    def test_what_another_release_pins_already_is_not_sealed_again(self):
        first = sealed()
        with pytest.raises(ReleaseRefused, match=f"{first.public_id} pins exactly the same"):
            release_seal(release=draft(pool=first.pool), actor=make_actor())

    def test_a_sealed_release_is_not_edited(self):
        with pytest.raises(Conflict, match="never changes"):
            release_edit(release=sealed(), title="x", content={}, actor=make_actor(), user=None)


class TestDatabase:
    """Whoever writes past the services is refused by the database itself."""

    @pytest.mark.parametrize(
        "change",
        [{"content": {}}, {"content_sha256": "0" * 64}, {"title": "x"}, {"state": "draft"}],
        ids=lambda change: next(iter(change)),
    )
    def test_it_refuses_to_change_what_a_sealed_release_is(self, change):
        release = sealed()
        with pytest.raises(IntegrityError, match="is sealed"), transaction.atomic():
            Release.objects.filter(pk=release.pk).update(**change)

    def test_it_refuses_to_delete_a_sealed_release_and_not_a_draft(self):
        release = sealed()
        draft(pool=release.pool).delete()
        with pytest.raises(IntegrityError, match="is sealed"), transaction.atomic():
            release.delete()

    def test_it_lets_its_state_move(self):
        release = sealed()
        Release.objects.filter(pk=release.pk).update(state="withdrawn", version=9)


class TestReview:
    def test_two_others_must_sign_and_each_counts_once(self):
        ana, bo, cy = (make_person(name, "approver") for name in ("ana", "bo", "cy"))
        release = sealed(user=ana)
        approval = ask(release, ana)
        for _ in range(2):
            sign(approval, bo)
        release.refresh_from_db()
        assert release.state == "sealed"
        sign(approval, cy)
        release.refresh_from_db()
        assert release.state == "reviewed"
        assert release.reviewed_at is not None

    def test_neither_its_author_nor_who_asked_signs_it(self):
        ana, bo = make_person("ana", "approver"), make_person("bo", "approver")
        approval = ask(sealed(user=ana), bo)
        for user in (ana, bo):
            with pytest.raises(OwnRequest):
                sign(approval, user)

    def test_who_edited_it_last_never_signs_it(self):
        ana, bo, cy = (make_person(name, "approver") for name in ("ana", "bo", "cy"))
        release = release_edit(
            release=draft(user=ana),
            title="glm-5.2 other",
            content=content_with("env", {}),
            actor=make_actor("bo"),
            user=bo,
        )
        approval = ask(release_seal(release=release, actor=make_actor()), ana)
        with pytest.raises(OwnRequest, match="edited it last"):
            sign(approval, bo)
        sign(approval, cy)

    def test_saving_it_unchanged_makes_nobody_its_editor(self):
        ana, bo = make_person("ana", "operator"), make_person("bo", "approver")
        release = draft(user=ana)
        release_edit(
            release=release, title=release.title, content=CONTENT, actor=make_actor(), user=bo
        )
        sign(ask(release_seal(release=release, actor=make_actor()), ana), bo)

    def test_a_rehearsal_needs_one_and_the_trail_says_so(self, reviewed):
        ana, bo = make_person("ana", "operator"), make_person("bo", "approver")
        content = content_with("env", {}, reviewed.content)
        release = sealed(pool=reviewed.pool, content=content, based_on=reviewed, user=ana)
        sign(ask(release, ana), bo)
        release.refresh_from_db()
        assert release.state == "reviewed"
        entry = TrailEntry.objects.get(verb="approval.ask")
        assert entry.after["needed"] == 1

    def test_a_no_leaves_it_sealed_and_it_can_be_asked_again(self):
        ana, bo = make_person("ana", "operator"), make_person("bo", "approver")
        release = sealed(user=ana)
        sign(ask(release, ana), bo, decision="denied", reason="the driver is not ours")
        release.refresh_from_db()
        assert release.state == "sealed"
        assert ask(release, ana).decision == ""

    def test_a_signature_is_for_the_hash_that_was_shown(self):
        ana, bo = make_person("ana", "operator"), make_person("bo", "approver")
        approval = ask(sealed(user=ana), ana)
        other = facts_digest({**review_facts(approval.release), "content_sha256": "0" * 64})
        with pytest.raises(FactsMoved):
            sign(approval, bo, digest=other)

    def test_only_a_sealed_one_is_asked_for(self, reviewed):
        with pytest.raises(Conflict, match="only a sealed release"):
            ask(reviewed, make_person("ana", "operator"))


class TestWithdraw:
    def test_it_is_told_with_its_reason_and_ends_the_open_request(self):
        ana = make_person("ana", "operator")
        release = sealed(user=ana)
        approval = ask(release, ana)
        release_withdraw(release=release, reason="wrong driver", actor=make_actor(), user=ana)
        approval.refresh_from_db()
        assert approval.decision == "withdrawn"
        assert TrailEntry.objects.get(verb="release.withdrawn").reason == "wrong driver"

    def test_it_needs_words(self):
        with pytest.raises(NeedsReason):
            release_withdraw(release=sealed(), reason=" ", actor=make_actor(), user=None)

    def test_a_draft_is_not_withdrawn(self):
        with pytest.raises(Conflict):
            release_withdraw(release=draft(), reason="no use", actor=make_actor(), user=None)


class TestInService:
    def test_a_reviewed_release_enters_service_once(self, reviewed):
        for _ in range(2):
            release_in_service(release=reviewed, actor=make_actor())
        reviewed.refresh_from_db()
        assert (reviewed.state, reviewed.version) == ("in_service", 2)
        assert verbs().count("release.in_service") == 1

    def test_a_superseded_one_comes_back_when_a_pool_is_rolled_back(self, reviewed):
        Release.objects.update(state="superseded")
        assert release_in_service(release=reviewed, actor=make_actor()).state == "in_service"

    @pytest.mark.parametrize("state", ["sealed", "withdrawn"])
    def test_what_nobody_signed_or_somebody_withdrew_stays_what_it_is(self, reviewed, state):
        Release.objects.update(state=state)
        assert release_in_service(release=reviewed, actor=make_actor()).state == state


class TestSettle:
    @pytest.fixture
    def old_and_new(self, reviewed) -> tuple[Release, Release]:
        Release.objects.update(state="in_service")
        first, second = Release.objects.filter(pool=reviewed.pool).order_by("id")
        return first, second

    def run_unit(self, release: Release, name: str, state: str = "ready") -> None:
        unit = make_replica(name, pool=release.pool)
        Launch.objects.create(
            replica=unit, release=release, generation=1, plan={}, plan_sha256="0" * 64, state=state
        )

    def test_the_old_one_is_superseded_when_its_last_unit_is_gone(self, old_and_new):
        old, new = old_and_new
        self.run_unit(old, "glm52-r1", state="stopped")
        self.run_unit(new, "glm52-r2")
        assert (releases_settle(), releases_settle()) == (1, 0)
        states = [Release.objects.get(pk=row.pk).state for row in (old, new)]
        assert states == ["superseded", "in_service"]

    def test_while_one_unit_runs_it_both_are_in_service(self, old_and_new):
        for number, release in enumerate(old_and_new, 1):
            self.run_unit(release, f"glm52-r{number}")
        assert releases_settle() == 0

    def test_a_reviewed_one_is_in_service_once_a_unit_launched_by_hand_serves(self, reviewed):
        self.run_unit(reviewed, "glm52-r1")
        assert releases_settle() == 0, "ready is not serving"
        Replica.objects.update(state="serving")
        assert (releases_settle(), releases_settle()) == (1, 0)
        reviewed.refresh_from_db()
        assert reviewed.state == "in_service"
        entry = TrailEntry.objects.get(verb="release.in_service")
        assert (entry.actor, entry.object_id) == ("rule:release-settle", reviewed.public_id)

    @pytest.mark.parametrize("unit", [{"doubt": "hung"}, {"is_canary": True}], ids=str)
    def test_neither_a_unit_in_doubt_nor_a_canary_puts_it_in_service(self, reviewed, unit):
        self.run_unit(reviewed, "glm52-r1")
        Replica.objects.update(state="serving", **unit)
        assert releases_settle() == 0

    def test_while_a_rollout_is_at_work_its_waves_say_what_is_in_service(self, reviewed):
        self.run_unit(reviewed, "glm52-r1")
        Replica.objects.update(state="serving")
        Rollout.objects.create(
            pool=reviewed.pool, new_release=reviewed, strategy={}, state="running",
            author=make_person("ana"),
        )  # fmt: skip
        assert releases_settle() == 0

    def test_what_nobody_signed_serves_and_is_not_the_pools(self, reviewed):
        self.run_unit(sealed(pool=reviewed.pool), "glm52-r1")
        Replica.objects.update(state="serving")
        assert releases_settle() == 0

    def test_a_pool_without_any_unit_keeps_what_was_in_service(self, old_and_new):
        assert releases_settle() == 0
