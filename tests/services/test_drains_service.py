"""Out of traffic with proof: what counts as proof, what is cut, and that nobody is stopped before."""

from datetime import timedelta

import pytest
from django.utils import timezone

from fleet.models import Replica, TrailEntry
from fleet.rules.message import said
from releases.models import Drain, Launch
from releases.services.drains import drain_advance, drain_start, drains_advance
from releases.services.endpoints import endpoint_set
from releases.services.launch_tick import launch_advance
from releases.services.launches import launch_stop
from tests.factories import make_actor
from tests.traffic import (
    endpoint,
    engine_says,
    give,
    make_gateway,
    make_ready,
    make_release,
    proxy_says,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def gateway():
    make_release()
    return make_gateway()


@pytest.fixture
def launch(gateway) -> Launch:
    from releases.models import Release

    ready = make_ready(1, Release.objects.get())
    give(ready)
    proxy_says(gateway)
    return ready


def start(launch: Launch, purpose: str = "wave:1", deadline_s: float = 600) -> Drain:
    return drain_start(
        launch=launch,
        purpose=purpose,
        deadline_s=deadline_s,
        actor=make_actor(),
        reason="maintenance",
    )


def advanced(drain: Drain) -> Drain:
    drain_advance(drain.pk)
    drain.refresh_from_db()
    return drain


def is_late(drain: Drain) -> None:
    Drain.objects.filter(pk=drain.pk).update(deadline_at=timezone.now() - timedelta(seconds=1))


def closed_long_ago(drain: Drain) -> None:
    Drain.objects.filter(pk=drain.pk).update(state_at=timezone.now() - timedelta(minutes=1))


def closing(gateway, launch) -> Drain:
    drain = start(launch)
    proxy_says(gateway)
    engine_says(launch, running=0)
    return advanced(drain)


def test_it_closes_and_is_drained_only_by_two_fresh_zeros(gateway, launch):
    drain = start(launch)
    assert endpoint(launch).mode == "drain"
    assert advanced(drain).state == "draining", "not read back yet"
    proxy_says(gateway, glm52_r1={"running": 2})
    assert advanced(drain).state == "draining"
    assert "by the proxy: 2" in said(drain.explanation)
    proxy_says(gateway)
    assert advanced(drain).state == "draining", "the engine was not read since"
    engine_says(launch, running=0)
    assert advanced(drain).state == "closing"
    assert endpoint(launch).mode == "maint"
    proxy_says(gateway)
    assert advanced(drain).state == "closing", "the engine was read before it was closed"
    engine_says(launch, running=0)
    assert advanced(drain).state == "drained"
    assert (drain.proof["proxy"], drain.proof["engine"]) == (0, 0)
    assert drain.proof["at"]
    assert drain.ended_at is not None
    assert drain.cut is None


def test_what_still_runs_at_the_deadline_is_cut_and_counted(gateway, launch):
    drain = start(launch)
    proxy_says(gateway, glm52_r1={"running": 3})
    is_late(drain)
    assert advanced(drain).state == "closing"
    proxy_says(gateway, glm52_r1={"running": 3})
    closed_long_ago(drain)
    assert advanced(drain).state == "cut"
    assert drain.cut == 3
    assert "requests cut: 3" in said(drain.explanation)


def test_a_session_that_asks_until_the_deadline_gets_its_last_answer(gateway, launch):
    drain = start(launch)
    proxy_says(gateway, glm52_r1={"running": 1})
    is_late(drain)
    assert advanced(drain).state == "closing"
    proxy_says(gateway, glm52_r1={"running": 1})
    assert advanced(drain).state == "closing"
    proxy_says(gateway)
    assert advanced(drain).state == "closing", "the engine was not read since"
    engine_says(launch, running=0)
    assert advanced(drain).state == "drained"
    assert drain.cut is None


def test_an_old_read_back_proves_nothing(gateway, launch):
    drain = closing(gateway, launch)
    proxy_says(gateway)
    engine_says(launch, running=0)
    old = timezone.now() - timedelta(minutes=1)
    type(endpoint(launch)).objects.update(seen_at=old)
    assert advanced(drain).state == "closing"


def test_one_purpose_is_one_drain_and_an_open_one_is_adopted(launch):
    first = start(launch)
    assert start(launch).pk == first.pk
    assert start(launch, purpose="stop:LN-1").pk == first.pk
    assert TrailEntry.objects.filter(verb="drain.start").count() == 1


def test_a_launch_behind_no_gateway_is_drained_at_once():
    drain = start(make_ready(1, make_release()))
    assert drain.state == "drained"
    assert "no gateway" in said(drain.explanation)


def test_a_unit_put_back_into_traffic_ends_its_drain_and_the_wish_to_stop_it(gateway, launch):
    launch_stop(launch=launch, reason="maintenance", actor=make_actor())
    drain = Drain.objects.get()
    endpoint_set(launch=launch, mode="ready", actor=make_actor())
    assert advanced(drain).state == "cancelled"
    launch.refresh_from_db()
    assert launch.stop_reason == ""


def test_a_unit_that_is_taken_down_meanwhile_ends_its_drain(gateway, launch):
    drain = start(launch)
    proxy_says(gateway, glm52_r1={"running": 2})
    Launch.objects.update(state="freezing")
    assert advanced(drain).state == "cut"
    assert drain.cut == 2


def test_a_second_tick_changes_nothing(gateway, launch):
    start(launch)
    drains_advance()
    before = TrailEntry.objects.count()
    assert drains_advance() == 0
    assert TrailEntry.objects.count() == before


# -- a person's stop


def stop(launch: Launch, **how) -> Launch:
    return launch_stop(launch=launch, reason="maintenance", actor=make_actor(), **how)


def ticked(launch: Launch) -> Launch:
    launch_advance(launch.pk)
    launch.refresh_from_db()
    return launch


def test_a_stop_drains_first_and_ends_by_itself(gateway, launch):
    assert stop(launch).state == "ready"
    assert ticked(launch).state == "ready"
    assert "out of traffic" in said(launch.explanation)
    proxy_says(gateway)
    engine_says(launch, running=0)
    drains_advance()
    proxy_says(gateway)
    engine_says(launch, running=0)
    drains_advance()
    assert Drain.objects.get().state == "drained"
    assert ticked(launch).state == "stopping"
    assert "maintenance" in said(launch.explanation)
    assert Replica.objects.get().state == "stopping"


def test_stopping_now_cuts_and_says_how_many(gateway, launch):
    stop(launch)
    proxy_says(gateway, glm52_r1={"running": 4})
    assert stop(launch, is_now=True).state == "stopping"
    drain = Drain.objects.get()
    assert (drain.state, drain.cut) == ("cut", 4)
    assert endpoint(launch).mode == "maint"


def test_stopping_now_without_a_fresh_count_says_that_it_is_not_known(gateway, launch):
    stop(launch)
    stop(launch, is_now=True)
    drain = Drain.objects.get()
    assert drain.cut is None
    assert "not known" in said(drain.explanation)


def test_asking_twice_to_stop_is_one_wish(launch):
    stop(launch), stop(launch)
    assert TrailEntry.objects.filter(verb="launch.stop").count() == 1
    assert Drain.objects.count() == 1


def test_what_was_drained_before_is_stopped_at_once(gateway, launch):
    drain = closing(gateway, launch)
    proxy_says(gateway)
    engine_says(launch, running=0)
    assert advanced(drain).state == "drained"
    assert stop(launch).state == "stopping"


def test_a_unit_behind_no_gateway_is_stopped_at_once():
    assert stop(make_ready(1, make_release())).state == "stopping"


def test_a_hang_takes_the_traffic_away_and_leaves_the_unit(gateway, launch):
    from fleet.execution.models import Scrape

    long_ago = timezone.now() - timedelta(minutes=10)
    Scrape.objects.filter(kind="golden").update(misses=3, ok_at=long_ago)
    assert ticked(launch).state == "ready"
    wanted = endpoint(launch)
    assert (wanted.weight, wanted.mode) == (0, "maint")
    assert launch.replica.shown_state == "hung"
    changed_at = wanted.changed_at
    ticked(launch)
    assert endpoint(launch).changed_at == changed_at, "done once"
    Scrape.objects.filter(kind="golden").update(misses=0, ok_at=timezone.now())
    ticked(launch)
    unit = Replica.objects.get()
    assert (unit.shown_state, endpoint(launch).weight) == ("ready", 0), "a person gives it back"


def test_a_hang_is_told_to_the_detectors_at_once(
    gateway, launch, monkeypatch, django_capture_on_commit_callbacks
):
    from fleet.execution.models import Scrape
    from runbooks import tasks

    asked = []
    monkeypatch.setattr(tasks.tick, "apply_async", lambda **_: asked.append(1))
    with django_capture_on_commit_callbacks(execute=True):
        ticked(launch)
    assert asked == [], "it is well"
    Scrape.objects.filter(kind="golden").update(
        misses=3, ok_at=timezone.now() - timedelta(minutes=10)
    )
    with django_capture_on_commit_callbacks(execute=True):
        ticked(launch)
    assert asked == [1]
