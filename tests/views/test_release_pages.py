import re
import uuid

import pytest
from django.utils import timezone

from fleet.models import TrailEntry
from releases.models import Approval, Launch, Release
from releases.services.releases import release_draft, release_review_ask, release_seal
from releases.views.release_drawn import diff_lines
from tests.contents import CONTENT, content_with
from tests.factories import make_actor, make_node, make_person, make_pool, make_replica
from tests.views.conftest import WORD

pytestmark = pytest.mark.django_db
NEXT = content_with("args", [["--max-model-len", "65536"]])


@pytest.fixture
def serving() -> Release:
    pool = make_pool()
    make_replica("glm52-r1", pool=pool, nodes=[make_node("h100-001"), make_node("h100-002")])
    return Release.objects.create(
        pool=pool,
        title="glm-5.2 first",
        state="in_service",
        content=CONTENT,
        content_sha256="c" * 64,
        sealed_at=timezone.now(),
    )


@pytest.fixture
def drafted(serving) -> Release:
    return draft_from(serving, NEXT)


def draft_from(origin: Release, content: dict) -> Release:
    return release_draft(
        pool=origin.pool,
        title="glm-5.2 next",
        content=content,
        actor=make_actor(),
        user=make_person("ana"),
        based_on=origin,
    )


def post(client, release: Release, act: str, **fields):
    release.refresh_from_db()
    key = {"idempotency_key": str(uuid.uuid4()), "base_version": release.version}
    return client.post(f"/releases/{release.public_id}/{act}/", {**key, **fields})


def page(client, release: Release, query: str = "") -> str:
    answer = client.get(f"/releases/{release.public_id}/{query}")
    assert answer.status_code == 200
    return answer.content.decode()


class TestList:
    def test_it_shows_each_release_with_its_state_and_the_units_that_run_it(
        self, ana, serving, drafted
    ):
        unit = serving.pool.replicas.get()
        Launch.objects.create(
            replica=unit, release=serving, generation=1, plan={}, plan_sha256="0", state="ready"
        )
        rows = {
            row.pk: (row.units, mark.state)
            for row, mark in ana.get("/releases/").context["releases"]
        }
        assert rows == {serving.pk: (1, "in_service"), drafted.pk: (0, "draft")}

    def test_a_pool_alone(self, ana, serving):
        other = Release.objects.create(
            pool=make_pool("dsv4"), title="other", content=CONTENT, content_sha256="d" * 64
        )
        shown = [row for row, _mark in ana.get("/releases/?pool=dsv4").context["releases"]]
        assert shown == [other]


class TestPage:
    def test_it_shows_what_changes_against_the_one_in_service_and_what_follows(
        self, ana, serving, drafted
    ):
        text = page(ana, drafted)
        assert f"Changes against {serving.public_id}" in text
        assert "131072" in text
        assert "65536" in text
        assert "The memory of every rank is measured anew" in text
        assert "A 2.2, 12.3" in text

    def test_the_launch_command_is_a_diff_without_what_differs_in_every_plan(self, ana, drafted):
        side = ana.get(f"/releases/{drafted.public_id}/").context["side"]
        signed = [(line.sign, line.text) for line in side.lines if line.sign]
        assert signed == [
            ("-", "--max-model-len 131072"),
            ("-", "--enable-prefix-caching"),
            ("+", "--max-model-len 65536"),
        ]
        assert side.node == "h100-001"

    def test_another_one_can_be_chosen(self, ana, serving, drafted):
        third = draft_from(serving, content_with("env", {}))
        text = page(ana, drafted, f"?with={third.public_id}")
        assert f"Changes against {third.public_id}" in text

    def test_a_draft_names_all_that_is_not_pinned_and_its_button_is_shut(self, ana, serving):
        draft = draft_from(serving, content_with("image.digest", "v0.23.0"))
        answer = ana.get(f"/releases/{draft.public_id}/")
        assert answer.context["refusals"] == [
            "image.digest: expected a digest: sha256: and 64 hex digits, not a tag, found v0.23.0."
        ]
        text = answer.content.decode()
        assert "Cannot be sealed" in text
        assert answer.context["side"] is None

    def test_a_first_draft_without_any_pin_is_shown(self, ana, serving):
        draft = draft_from(serving, {})
        assert "Cannot be sealed" in page(ana, draft)

    def test_in_chinese_a_reason_is_chinese(self, signed_in, serving):
        draft = draft_from(serving, content_with("image.digest", "v0.23.0"))
        text = page(signed_in("ana", "zh-hans"), draft)
        assert "应为" in text

    def test_it_says_which_units_run_it(self, ana, serving):
        unit = serving.pool.replicas.get()
        Launch.objects.create(
            replica=unit, release=serving, generation=3, plan={}, plan_sha256="0", state="loading"
        )
        assert "/replicas/glm52-r1/gen/3/launch/" in page(ana, serving)

    @pytest.mark.parametrize("name", ["REL-9999", "REL-x", "nothing", "REL-99999999999"])
    def test_what_is_no_release_is_not_found(self, ana, name):
        assert ana.get(f"/releases/{name}/").status_code == 404

    def test_the_jump_field_finds_it(self, ana, serving):
        answer = ana.get(f"/jump/?q={serving.public_id.lower()}")
        assert answer["Location"] == f"/releases/{serving.public_id}/"


class TestForms:
    def test_a_draft_is_made_from_a_release_and_opens_as_a_form(self, ana, serving):
        answer = post(ana, serving, "draft", title="second try")
        draft = Release.objects.get(title="second try")
        assert answer["Location"] == f"/releases/{draft.public_id}/edit/"
        assert draft.content == serving.content
        assert draft.author.username == "ana"

    def test_a_pools_first_draft_pins_nothing_yet(self, ana, serving):
        key = {"idempotency_key": str(uuid.uuid4()), "pool": "glm52", "title": "first"}
        ana.post("/releases/new/", key)
        draft = Release.objects.get(title="first")
        assert draft.content["shape"]["nodes"] == 2
        assert ana.get(f"/releases/{draft.public_id}/edit/").status_code == 200

    def test_saving_keeps_what_was_typed(self, ana, drafted):
        answer = post(ana, drafted, "edit", title="x", args="--max-num-seqs 24", env="A=1")
        assert answer.status_code == 302
        drafted.refresh_from_db()
        assert drafted.content["args"] == [["--max-num-seqs", "24"]]
        assert drafted.content["env"] == {"A": "1"}

    def test_what_cannot_be_read_comes_back_with_its_reason_and_is_not_stored(self, ana, drafted):
        answer = post(ana, drafted, "edit", title="kept", args="max-num-seqs 24")
        assert answer.status_code == 422
        text = answer.content.decode()
        assert "expected one flag a line" in text
        assert "max-num-seqs 24</textarea>" in text
        assert "kept" in text
        drafted.refresh_from_db()
        assert drafted.version == 1

    def test_an_older_page_changes_nothing(self, ana, drafted):
        key = {"idempotency_key": str(uuid.uuid4()), "base_version": 99, "title": "x"}
        assert ana.post(f"/releases/{drafted.public_id}/edit/", key).status_code == 409

    def test_lines_come_back_as_lines_when_somebody_was_faster(self, ana, drafted):
        lines = "--max-num-seqs 24\r\n--seed 7"
        key = {"idempotency_key": str(uuid.uuid4()), "base_version": 99, "title": "x"}
        answer = ana.post(f"/releases/{drafted.public_id}/edit/", {**key, "args": lines})
        kept = re.search(
            r'<textarea[^>]* name="args"[^>]*>\n(.*?)</textarea>', answer.content.decode(), re.S
        )
        assert kept[1].split() == lines.split()

    def test_sealing_what_is_not_pinned_is_refused_by_name(self, ana, serving):
        draft = draft_from(serving, content_with("image.digest", "latest"))
        answer = post(ana, draft, "seal")
        assert answer.status_code == 422
        assert "image.digest: expected a digest" in answer.content.decode()

    def test_golden_prompts_that_no_post_could_carry_stay_as_they_are(self, ana, serving):
        prompt = CONTENT["golden"][0]
        many = [prompt | {"id": f"p{n}", "expect": "42" * 400} for n in range(80)]
        long = draft_from(serving, content_with("golden", many))
        text = ana.get(f"/releases/{long.public_id}/edit/").content.decode()
        assert 'name="golden"' not in text
        assert "this form takes 60,000" in text.replace("\u202f", ",").replace("&nbsp;", ",")
        post(ana, long, "edit", title="another title")
        long.refresh_from_db()
        assert (long.title, long.content["golden"]) == ("another title", many)

    def test_a_sealed_release_has_no_form(self, ana, serving):
        answer = ana.get(f"/releases/{serving.public_id}/edit/")
        assert answer.status_code == 422
        assert "never changes" in answer.content.decode()

    def test_withdrawing_needs_a_reason(self, ana, serving):
        assert post(ana, serving, "withdraw", reason="").status_code == 422
        post(ana, serving, "withdraw", reason="wrong driver")
        serving.refresh_from_db()
        assert serving.state == "withdrawn"


class TestReview:
    @pytest.fixture
    def asked(self, drafted) -> Release:
        release_seal(release=drafted, actor=make_actor())
        release_review_ask(release=drafted, actor=make_actor(), user=make_person("ana"))
        return drafted

    def sign(self, client, release, **fields):
        digest = client.get(f"/releases/{release.public_id}/").context["seen"].request.facts_digest
        return post(client, release, "sign", facts_digest=digest, decision="approved", **fields)

    def test_asking_shows_that_it_waits(self, ana, drafted):
        release_seal(release=drafted, actor=make_actor())
        post(ana, drafted, "ask", reason="shorter context")
        text = page(ana, drafted)
        assert "In review" in text
        assert "0 of 2" in text
        assert "shorter context" in text

    def test_its_author_is_told_that_another_signs(self, ana, asked):
        assert (
            ana.get(f"/releases/{asked.public_id}/").context["sign_refusal"]
            == "Needs role approver"
        )
        make_person("ana", role="approver")
        text = page(ana, asked)
        assert "another approver signs" in text

    def test_two_approvers_make_it_reviewed(self, signed_in, asked):
        make_person("bea", role="approver")
        for name in ("bo", "bea"):
            assert self.sign(signed_in(name), asked).status_code == 302
        asked.refresh_from_db()
        assert asked.state == "reviewed"
        text = page(signed_in("chen"), asked)
        assert "Signed by" in text
        assert "bea" in text
        assert TrailEntry.objects.get(verb="release.reviewed").actor == "rule:release-review"

    def test_a_signature_for_other_facts_is_refused(self, signed_in, asked):
        answer = post(signed_in("bo"), asked, "sign", facts_digest="0" * 64, decision="approved")
        assert answer.status_code == 409
        assert "facts moved" in answer.content.decode()

    def test_a_request_that_nobody_answered_in_time_is_asked_anew(self, signed_in, ana, asked):
        Approval.objects.update(expires_at=timezone.now())
        text = page(ana, asked)
        assert "not answered within 24 hours" in text
        assert "In review" not in ana.get("/releases/").content.decode()
        assert post(ana, asked, "ask", reason="again").status_code == 302
        assert self.sign(signed_in("bo"), asked).status_code == 302

    def test_an_old_sign_in_gives_the_password_again(self, old_sign_in, asked):
        stale = old_sign_in("bo", 3660)
        refused = self.sign(stale, asked, reason="read it all")
        assert refused.status_code == 403
        text = refused.content.decode()
        assert "give your password again" in text
        assert 'type="password"' in text
        assert "read it all</textarea>" in text, "what was typed comes back"
        assert f'hx-get="/releases/{asked.public_id}/"' in text, "it goes on hearing"
        assert not Approval.objects.get().signatures.exists()
        assert self.sign(stale, asked, password=WORD).status_code == 302
        assert Approval.objects.get().signatures.count() == 1
        assert 'type="password"' not in page(old_sign_in("chen", 3660), asked)

    def test_an_old_sign_in_may_reject(self, old_sign_in, asked):
        stale = old_sign_in("bo", 3660)
        assert post(stale, asked, "sign", decision="denied", reason="no").status_code == 422
        answer = post(stale, asked, "sign", decision="denied", reason="wrong driver")
        assert answer.status_code == 302
        assert Approval.objects.get().decision == "denied"

    def test_without_a_request_there_is_nothing_to_sign(self, signed_in, serving):
        assert post(signed_in("bo"), serving, "sign", decision="approved").status_code == 409


def test_equal_lines_far_from_a_difference_are_folded():
    old = [f"line {n}" for n in range(20)]
    new = [*old[:10], "other", *old[11:]]
    drawn = [(line.sign, line.folded) for line in diff_lines(old, new)]
    assert drawn == [
        ("", 8), ("", 0), ("", 0), ("-", 0), ("+", 0), ("", 0), ("", 0), ("", 7)
    ]  # fmt: skip


def test_equal_commands_fold_to_one_line():
    (line,) = diff_lines(["a", "b"], ["a", "b"])
    assert line.folded == 2
