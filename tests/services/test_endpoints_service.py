"""What units shall get of the traffic: slots, first weights, and what a change forgets."""

import pytest

from fleet.models import Replica, TrailEntry
from fleet.rules.message import said
from releases.models import Endpoint, Launch
from releases.services.endpoints import (
    EndpointMissing,
    SlotsTaken,
    custom_weight,
    endpoint_agrees,
    endpoint_close,
    endpoint_open,
    endpoint_set,
)
from releases.services.gateways import endpoints_open_missing, units_follow
from releases.services.launch_moves import launch_move
from tests.factories import make_actor
from tests.traffic import endpoint, give, make_gateway, make_ready, make_release, proxy_says

pytestmark = pytest.mark.django_db


def put(launch: Launch) -> Endpoint | None:
    return endpoint_open(launch=launch, actor=make_actor())


def set_(launch: Launch, **wanted) -> Endpoint:
    return endpoint_set(launch=launch, actor=make_actor(), **wanted)


def test_without_a_gateway_nothing_is_opened_and_nothing_can_be_wanted():
    launch = make_ready(1, make_release())
    assert put(launch) is None
    endpoint_close(launch=launch, actor=make_actor())
    with pytest.raises(EndpointMissing):
        set_(launch, weight=50)


def test_opening_twice_is_one_endpoint_and_it_begins_without_traffic():
    make_gateway()
    launch = make_ready(1, make_release())
    assert put(launch).weight == 0
    give(launch, 40)
    assert put(launch).weight == 40
    assert Endpoint.objects.count() == 1


def test_the_custom_is_a_full_unit_for_a_first_release_and_nothing_beside_one_that_serves():
    make_gateway()
    old, new = make_release(1), make_release(2)
    first = make_ready(1, old)
    assert custom_weight(first) == 100
    give(first)
    second = make_ready(2, old)
    assert custom_weight(second) == 100, "its release serves already"
    other = make_ready(3, new)
    put(second), put(other)
    assert (custom_weight(other), endpoint(other).slot) == (0, "b")
    assert {endpoint(first).slot, endpoint(second).slot} == {"a"}


def test_a_third_release_waits_until_a_slot_is_empty():
    make_gateway()
    first, second = make_ready(1, make_release(1)), make_ready(2, make_release(2))
    put(first), put(second)
    third = make_ready(3, make_release(3))
    with pytest.raises(SlotsTaken) as refusal:
        put(third)
    assert "REL-" in said(refusal.value.sentence)
    assert endpoints_open_missing() == 0
    endpoint(first).delete()
    Launch.objects.filter(pk=first.pk).update(state="stopped")
    assert endpoints_open_missing() == 1
    assert endpoint(third).slot == "a"


def test_what_was_read_back_is_forgotten_with_a_new_wish_and_agrees_only_when_read_again():
    gateway = make_gateway()
    launch = make_ready(1, make_release())
    give(launch)
    proxy_says(gateway)
    assert endpoint_agrees(endpoint(launch))
    set_(launch, weight=25, reason="it is slow")
    assert endpoint(launch).seen_weight is None
    assert not endpoint_agrees(endpoint(launch))
    proxy_says(gateway, glm52_r1={"weight": 100})
    assert not endpoint_agrees(endpoint(launch))
    proxy_says(gateway)
    assert endpoint_agrees(endpoint(launch))
    entry = TrailEntry.objects.filter(verb="endpoint.set").latest("pk")
    assert (entry.before["weight"], entry.after["weight"], entry.reason) == (100, 25, "it is slow")


def test_wanting_what_is_wanted_changes_nothing():
    make_gateway()
    launch = make_ready(1, make_release())
    before = give(launch).changed_at, TrailEntry.objects.count()
    set_(launch, weight=100, mode="ready")
    assert (endpoint(launch).changed_at, TrailEntry.objects.count()) == before


def test_a_weight_above_zero_puts_a_closed_unit_back_into_traffic():
    make_gateway()
    launch = make_ready(1, make_release())
    give(launch)
    set_(launch, weight=0, mode="maint")
    assert set_(launch, weight=0).mode == "maint"
    assert set_(launch, weight=5).mode == "ready"


@pytest.mark.parametrize("wrong", [{"weight": 101}, {"weight": -1}, {"mode": "closed"}])
def test_what_no_proxy_has_is_refused(wrong):
    make_gateway()
    launch = make_ready(1, make_release())
    give(launch)
    with pytest.raises(ValueError):
        set_(launch, **wrong)


def test_a_unit_serves_only_when_its_weight_was_read_back():
    gateway = make_gateway()
    launch = make_ready(1, make_release())
    give(launch)

    def state() -> str:
        units_follow()
        return Replica.objects.get().state

    assert state() == "ready"
    proxy_says(gateway)
    assert state() == "serving"
    assert not units_follow(), "a second tick changes nothing"
    set_(launch, mode="drain")
    assert state() == "serving", "wanted is not read back"
    proxy_says(gateway)
    assert state() == "draining"
    set_(launch, mode="ready", weight=0)
    proxy_says(gateway)
    assert state() == "ready"


def test_traffic_that_goes_leaves_a_doubt_as_it_is():
    gateway = make_gateway()
    launch = make_ready(1, make_release())
    give(launch)
    proxy_says(gateway)
    units_follow()
    Replica.objects.update(doubt="hung")
    set_(launch, weight=0)
    proxy_says(gateway)
    units_follow()
    unit = Replica.objects.get()
    assert (unit.state, unit.shown_state) == ("ready", "hung")


@pytest.mark.parametrize("to", ["freezing", "stopping"])
def test_a_unit_that_goes_down_is_closed_first(to):
    make_gateway()
    launch = make_ready(1, make_release())
    put(launch)
    launch_move(launch=launch, to=to, explanation="because", actor=make_actor())
    assert endpoint(launch).mode == "maint"
