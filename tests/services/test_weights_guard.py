"""Launch and rollout ask whether the nodes hold the weights, the old ones too, once the revision is known."""

from datetime import timedelta

import pytest
from django.utils import timezone

from fleet.models import Fact, Holding, Image, ImageHolding, Node, Replica, WeightsArtefact
from fleet.rules.message import said
from releases.models import Release, Wave
from releases.services.launches import place_refusals, revision_of
from releases.services.rollout_facts import wave_refusals
from releases.services.weights_held import weights_refusals
from tests.rollouts import make_rollout, make_world

pytestmark = pytest.mark.django_db


def artefact_of(release: Release) -> WeightsArtefact:
    model = release.content["model"]
    return WeightsArtefact.objects.get_or_create(
        model=model["slug"], revision=model["revision"], defaults={"state": "ready"}
    )[0]


def hold(release: Release, unit: Replica, state: str = "ready") -> None:
    for node in Node.objects.filter(memberships__replica=unit):
        Holding.objects.update_or_create(
            node=node, artefact=artefact_of(release), defaults={"state": state}
        )


def about_weights(reasons) -> list[str]:
    return [words for one in reasons if "WA-" in (words := said(one))]


@pytest.fixture
def world():
    return make_world(units=2)


def test_nothing_is_said_while_the_revision_is_no_known_artefact(world):
    unit = Replica.objects.get(name="glm52-r1")
    assert about_weights(place_refusals(replica=unit, release=world.new)) == []


def test_a_launch_is_refused_with_each_node_that_does_not_hold_it(world):
    unit = Replica.objects.get(name="glm52-r1")
    artefact_of(world.new)
    found = about_weights(place_refusals(replica=unit, release=world.new))
    assert len(found) == len(unit.members.all())
    assert "is not known to hold" in found[0]
    hold(world.new, unit, "failed")
    assert "(failed)" in about_weights(place_refusals(replica=unit, release=world.new))[0]
    hold(world.new, unit)
    assert about_weights(place_refusals(replica=unit, release=world.new)) == []


def models_found(unit: Replica, *directories: str, later_s: float = 0) -> None:
    """Let a probe have found these marks on the nodes of a unit, `later_s` from now."""
    at = timezone.now() + timedelta(seconds=later_s)
    for node in Node.objects.filter(memberships__replica=unit):
        rows = [{"directory": f"{node.model_root}/{one}"} for one in directories]
        Fact.objects.update_or_create(
            node=node, key="models",
            defaults={"value": rows, "observed_at": at, "expires_at": at + timedelta(days=1)},
        )  # fmt: skip


def about_revision(unit: Replica, release: Release) -> list[str]:
    found = map(said, place_refusals(replica=unit, release=release))
    return [one for one in found if "hold" in one or "held" in one]


def test_each_node_without_the_revision_is_named_in_one_sentence(world):
    unit = Replica.objects.get(name="glm52-r1")
    count = unit.members.count()
    models_found(unit)
    lacking = about_revision(unit, world.new)
    assert (len(lacking), all("distribute it first" in one for one in lacking)) == (count, True)
    artefact_of(world.new)
    lacking = about_revision(unit, world.new)
    assert (len(lacking), all("spread it to the node" in one for one in lacking)) == (count, True)


def test_a_verified_copy_counts_before_the_next_probe_and_not_after_one_that_misses_it(world):
    unit = Replica.objects.get(name="glm52-r1")
    models_found(unit, later_s=-60)
    hold(world.new, unit)
    Holding.objects.update(verified_at=timezone.now())
    assert about_revision(unit, world.new) == [], "the probe looked before the copy came"
    models_found(unit, later_s=60)
    gone = about_revision(unit, world.new)
    assert (len(gone), "verify it now" in gone[0]) == (unit.members.count(), True)
    models_found(unit, revision_of(world.new.content), later_s=60)
    assert about_revision(unit, world.new) == []


def test_a_wave_waits_until_the_old_weights_are_there_to_go_back_to(world):
    rollout = make_rollout(world)
    wave = Wave.objects.exclude(replica=None).filter(rollout=rollout).first()
    if wave is None:
        wave = Wave.objects.create(
            rollout=rollout, number=1, replica=Replica.objects.get(name="glm52-r1"), old_release=world.old
        )  # fmt: skip
    old = wave.old_release or world.old
    wave.old_release = old
    hold(world.new, wave.replica)
    hold(old, wave.replica, "failed")
    found = about_weights(wave_refusals(rollout, wave))
    assert any("rollback" in one for one in found)
    hold(old, wave.replica)
    assert about_weights(wave_refusals(rollout, wave)) == []


def image_of(release: Release) -> Image:
    pinned = release.content["image"]
    found, _is_new = Image.objects.get_or_create(
        digest=pinned["digest"], defaults={"name": pinned["name"]}
    )
    return found


def hold_image(release: Release, unit: Replica, state: str) -> None:
    for node in Node.objects.filter(memberships__replica=unit):
        ImageHolding.objects.update_or_create(
            node=node, image=image_of(release), defaults={"state": state}
        )


def about_images(reasons) -> list[str]:
    return [words for one in reasons if "IMG-" in (words := said(one))]


def test_the_image_is_asked_for_once_somebody_pulled_it(world):
    unit = Replica.objects.get(name="glm52-r1")
    assert about_images(place_refusals(replica=unit, release=world.new)) == []
    image_of(world.new)
    found = about_images(place_refusals(replica=unit, release=world.new))
    assert "is not known to hold image IMG-" in found[0]
    hold_image(world.new, unit, "pulling")
    assert "(pulling)" in about_images(place_refusals(replica=unit, release=world.new))[0]
    hold_image(world.new, unit, "ready")
    assert about_images(place_refusals(replica=unit, release=world.new)) == []


def test_a_wave_waits_until_the_old_image_is_there_to_go_back_to(world):
    pinned = dict(world.old.content["image"], digest=f"sha256:{'0' * 64}")
    old = Release.objects.create(
        pool=world.pool, title="before", state="superseded", content_sha256="b" * 64,
        content=dict(world.old.content, image=pinned),
    )  # fmt: skip
    wave = make_rollout(world).waves.exclude(replica=None).first()
    wave.old_release = old
    hold_image(world.new, wave.replica, "ready")
    hold_image(old, wave.replica, "failed")
    found = about_images(wave_refusals(wave.rollout, wave))
    assert found
    assert all("which a rollback to" in one for one in found)
    hold_image(old, wave.replica, "ready")
    assert about_images(wave_refusals(wave.rollout, wave)) == []


def test_the_guard_asks_the_database_as_often_for_one_node_as_for_many(
    world, django_assert_num_queries
):
    artefact_of(world.new)
    image_of(world.new)
    nodes = list(Node.objects.select_related("host"))
    for some in (nodes[:1], nodes):
        with django_assert_num_queries(5):
            weights_refusals(world.new, some)
