"""What a tick does to ready units in trouble: a reboot is book-keeping, a judgement of many is held and shown."""

from datetime import timedelta

import pytest
from django.utils import timezone

from fleet.execution.models import Host, Scrape, Subject
from fleet.models import Brake, Replica, TrailEntry
from fleet.rules.message import said
from fleet.selectors.brake import brake_now, is_braked
from fleet.services.brake import brake_clear, brake_judge
from fleet.services.reach import reach_settle
from releases.models import Launch, LaunchPosition, Release
from releases.services.launch_effects import purpose_of
from releases.services.launch_tick import launch_advance
from releases.services.launches import launch_create
from tests.browser.scene import CONTENT
from tests.factories import make_actor, make_node, make_pool, make_replica

pytestmark = pytest.mark.django_db
BOOT, NEXT_BOOT = "1" * 36, "2" * 36


@pytest.fixture
def release() -> Release:
    return Release.objects.create(
        pool=make_pool(), title="glm-5.2", state="sealed", content=CONTENT, content_sha256="c" * 64
    )


@pytest.fixture
def units(release) -> list[Launch]:
    """Five units that are ready, each on two nodes of its own."""
    return [_ready_unit(release, number) for number in range(1, 6)]


def _ready_unit(release: Release, number: int) -> Launch:
    names = [f"h100-{2 * number - 1:03d}", f"h100-{2 * number:03d}"]
    nodes = [make_node(name, host={"boot_id": BOOT}) for name in names]
    replica = make_replica(f"glm52-r{number}", pool=release.pool, nodes=nodes)
    launch = launch_create(replica=replica, release=release, actor=make_actor())
    for place in launch.positions.select_related("node__host"):
        subject = Subject.objects.create(
            host=place.node.host, name=f"{replica}-n{place.position}", state="live", boot_id=BOOT
        )
        LaunchPosition.objects.filter(pk=place.pk).update(subject=subject, phase="ready")
    long_ago = timezone.now() - timedelta(hours=1)
    Launch.objects.filter(pk=launch.pk).update(state="ready", ready_at=long_ago, state_at=long_ago)
    Replica.objects.filter(pk=replica.pk).update(state="ready", state_at=long_ago)
    Scrape.objects.create(
        host=nodes[0].host, key=purpose_of(launch, "golden"), kind="golden", port=8000,
        tried_at=timezone.now(), ok_at=timezone.now(),
    )  # fmt: skip
    launch.refresh_from_db()
    return launch


def launches_advance() -> None:
    """A tick that is never out of time, however slow the machine."""
    for pk in (
        Launch.objects.filter(state__in=Launch.LIVE).order_by("pk").values_list("pk", flat=True)
    ):
        launch_advance(pk)


def reboot_all() -> None:
    Host.objects.update(boot_id=NEXT_BOOT)


def hang(*launches: Launch) -> None:
    keys = [purpose_of(launch, "golden") for launch in launches]
    long_ago = timezone.now() - timedelta(minutes=10)
    Scrape.objects.filter(key__in=keys).update(misses=3, ok_at=long_ago)


def shown(*states: str) -> int:
    return sum(replica.shown_state in states for replica in Replica.objects.all())


def test_units_whose_nodes_were_started_again_go_down_and_the_brake_stays_off(units):
    reboot_all()
    launches_advance()
    reach_settle()
    assert shown("failed") == 5
    assert not is_braked()
    assert set(Launch.objects.values_list("state", flat=True)) == {"freezing"}
    cause = said(Launch.objects.first().cause)
    assert cause == "h100-009 and h100-010 were rebooted: their ranks are gone."


def test_a_reboot_is_not_held_by_a_brake_that_is_on(units):
    Brake.objects.create(cause="too many")
    reboot_all()
    launches_advance()
    assert shown("failed") == 5


def test_a_tick_takes_down_two_units_and_holds_the_third(units):
    hang(*units)
    launches_advance()
    assert shown("failed") == 2
    assert shown("held") == 3
    assert "glm52-r1, glm52-r2, glm52-r3" in said(Brake.objects.get().cause)
    assert Replica.objects.filter(state="ready").count() == 3, "nothing was done to them"
    assert Launch.objects.filter(state="ready").count() == 3


def test_a_held_unit_says_what_is_wrong_with_it_and_is_ready_again_when_it_answers(units):
    hang(*units)
    launches_advance()
    held = units[4].replica
    held.refresh_from_db()
    assert said(held.explanation).startswith("Held by the mass-change brake: The endpoint")
    assert held.turned_at is not None
    Scrape.objects.update(misses=0, ok_at=timezone.now())
    launches_advance()
    held.refresh_from_db()
    assert (held.shown_state, held.turned_at) == ("ready", None)
    told = TrailEntry.objects.filter(verb="replica.doubt", object_id=held.name).order_by("pk")
    assert [row.after["doubt"] for row in told] == ["held", ""]


def test_a_second_tick_tells_the_trail_nothing_new(units):
    hang(*units)
    launches_advance()
    before = TrailEntry.objects.filter(verb__in=["replica.doubt", "brake.pull"]).count()
    for launch in units[2:]:
        launch_advance(launch.pk)
    assert TrailEntry.objects.filter(verb__in=["replica.doubt", "brake.pull"]).count() == before


def test_what_a_person_judged_is_taken_down_and_does_not_pull_it_again(units):
    hang(*units)
    launches_advance()
    brake_clear(brake=brake_now(), reason="a bad release, let them go", actor=make_actor())
    launches_advance()
    assert shown("failed") == 5
    assert brake_judge() is None


def test_a_unit_on_a_node_that_is_away_does_not_count_as_ready(units):
    Host.objects.filter(name="h100-002").update(reach=Host.Reach.UNREACHABLE)
    launches_advance()
    assert shown("ready") == 5, "it answered rightly just now"
    Scrape.objects.update(ok_at=timezone.now() - timedelta(minutes=2))
    launches_advance()
    unit = units[0].replica
    unit.refresh_from_db()
    assert (unit.state, unit.shown_state) == ("ready", "unseen")
    assert "h100-002 cannot be reached" in said(unit.explanation)
    Host.objects.update(reach=Host.Reach.OK)
    launches_advance()
    assert shown("ready") == 5


def test_launching_again_forgets_how_the_unit_failed(units, release):
    reboot_all()
    launches_advance()
    Launch.objects.update(state="failed")
    replica = units[0].replica
    replica.members.update(is_reserved=False)
    launch_create(replica=replica, release=release, actor=make_actor())
    replica.refresh_from_db()
    assert (replica.state, replica.is_reboot_proved, replica.turned_at) == ("reserved", False, None)


def test_a_unit_that_nobody_looks_at_is_unknown_and_recovers_by_itself(units):
    long_ago = timezone.now() - timedelta(minutes=5)
    Scrape.objects.update(tried_at=long_ago, ok_at=long_ago)
    launches_advance()
    assert shown("unseen") == 5
    assert Replica.objects.filter(state="ready").count() == 5, "nothing was done to them"
    told = said(Replica.objects.first().explanation)
    assert f"{long_ago:%H:%M:%S} UTC" in told
    assert not is_braked(), "what is not known is no judgement"
    Scrape.objects.update(tried_at=timezone.now(), ok_at=timezone.now())
    launches_advance()
    assert shown("ready") == 5
