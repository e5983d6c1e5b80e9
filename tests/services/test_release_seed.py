import pytest

from fleet.lab import golden
from fleet.models import TrailEntry
from releases.models import Release
from releases.selectors.releases import release_to_launch, releases_to_launch
from releases.services.seed import releases_seed
from tests.factories import make_pool

pytestmark = pytest.mark.django_db


@pytest.fixture
def glm52():
    pool = make_pool("glm52")
    releases_seed()
    return pool


def first_and_second(pool) -> tuple[Release, Release]:
    first, second = Release.objects.filter(pool=pool).order_by("id")
    return first, second


def test_a_pool_gets_two_reviewed_releases_and_seeding_again_adds_none(glm52):
    assert {release.state for release in first_and_second(glm52)} == {"reviewed"}
    assert releases_seed() == 0


def test_the_second_has_another_revision_manifest_and_arguments(glm52):
    one, other = (release.content for release in first_and_second(glm52))
    assert one["model"]["slug"] == other["model"]["slug"]
    assert one["model"]["revision"] != other["model"]["revision"]
    assert one["model"]["manifest_sha256"] != other["model"]["manifest_sha256"]
    assert one["args"] != other["args"]


def test_the_answer_that_is_asked_again_and_again_proves_which_revision_gave_it(glm52):
    one, other = (release.content["golden"] for release in first_and_second(glm52))
    differing = [a["id"] for a, b in zip(one, other, strict=True) if a["expect"] != b["expect"]]
    assert differing == [one[0]["id"]]


def test_the_expected_answer_is_the_one_of_the_pinned_revision(glm52):
    for release in first_and_second(glm52):
        model = release.content["model"]
        for prompt in release.content["golden"]:
            assert prompt["expect"] == golden.answer(
                model["slug"], model["revision"], prompt["messages"]
            )


def test_the_trail_says_that_one_signature_stood_for_two(glm52):
    entry = TrailEntry.objects.filter(verb="release.review").first()
    assert entry.after["signatures"] == ["rule:seed"]
    assert "stands for those of two people" in entry.reason


def test_a_new_lab_launches_the_first_and_later_the_one_in_service(glm52):
    first, second = first_and_second(glm52)
    assert release_to_launch(glm52) == first
    Release.objects.filter(pk=second.pk).update(state="in_service")
    Release.objects.filter(pk=first.pk).update(state="superseded")
    assert releases_to_launch(glm52) == [second, first]


def test_what_is_a_draft_or_was_withdrawn_is_never_launched(glm52):
    Release.objects.update(state="withdrawn")
    Release.objects.create(pool=glm52, title="draft", content={}, content_sha256="0" * 64)
    assert release_to_launch(glm52) is None
