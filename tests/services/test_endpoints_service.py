"""What units shall get of the traffic: slots, first weights, and what a change forgets."""

import pytest

from fleet.models import Replica, TrailEntry
from fleet.rules.message import said
from releases.models import Endpoint, Launch
from releases.services.endpoints import (
    EndpointMissing,
    SlotsTaken,
    endpoint_agrees,
    endpoint_close,
    endpoint_open,
    endpoint_set,
    first_weight,
)
from releases.services.gateways import endpoints_open_missing, units_follow
from releases.services.launch_moves import launch_move
from tests.factories import make_actor
from tests.traffic import endpoint, make_gateway, make_ready, make_release, proxy_says

pytestmark = pytest.mark.django_db


def put(launch: Launch, weight: int | None = None) -> Endpoint:
    wanted = first_weight(launch) if weight is None else weight
    return endpoint_open(launch=launch, weight=wanted, actor=make_actor())


def set_(launch: Launch, **wanted) -> Endpoint:
    return endpoint_set(launch=launch, actor=make_actor(), **wanted)


def test_without_a_gateway_nothing_is_opened_and_nothing_can_be_wanted():
    launch = make_ready(1, make_release())
    assert put(launch) is None
    endpoint_close(launch=launch, actor=make_actor())
    with pytest.raises(EndpointMissing):
        set_(launch, weight=50)


def test_opening_twice_is_one_endpoint_with_the_first_weight():
    make_gateway()
    launch = make_ready(1, make_release())
    first, again = put(launch, 40), put(launch, 90)
    assert (first.pk, again.weight) == (again.pk, 40)


def test_the_first_release_serves_at_once_and_a_second_waits_beside_it():
    make_gateway()
    old, new = make_release(1), make_release(2)
    first = make_ready(1, old)
    assert put(first).weight == 100
    second = make_ready(2, old)
    assert put(second).weight == 100, "its release serves already"
    other = make_ready(3, new)
    assert (put(other).weight, endpoint(other).slot) == (0, "b")
    assert {endpoint(first).slot, endpoint(second).slot} == {"a"}


def test_a_launch_that_names_its_first_weight_gets_that():
    make_gateway()
    assert put(make_ready(1, make_release(), first_weight=2)).weight == 2


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
    put(launch)
    proxy_says(gateway)
    assert endpoint_agrees(endpoint(launch))
    set_(launch, weight=25, reason="it is slow")
    assert endpoint(launch).seen_weight is None
    assert not endpoint_agrees(endpoint(launch))
    proxy_says(gateway, glm52_r1={"weight": 100})
    assert not endpoint_agrees(endpoint(launch))
    proxy_says(gateway)
    assert endpoint_agrees(endpoint(launch))
    entry = TrailEntry.objects.get(verb="endpoint.set")
    assert (entry.before["weight"], entry.after["weight"], entry.reason) == (100, 25, "it is slow")


def test_wanting_what_is_wanted_changes_nothing():
    make_gateway()
    launch = make_ready(1, make_release())
    before = put(launch).changed_at
    set_(launch, weight=100, mode="ready")
    assert endpoint(launch).changed_at == before
    assert not TrailEntry.objects.filter(verb="endpoint.set").exists()


def test_a_weight_above_zero_puts_a_closed_unit_back_into_traffic():
    make_gateway()
    launch = make_ready(1, make_release())
    put(launch)
    set_(launch, weight=0, mode="maint")
    assert set_(launch, weight=0).mode == "maint"
    assert set_(launch, weight=5).mode == "ready"


@pytest.mark.parametrize("wrong", [{"weight": 101}, {"weight": -1}, {"mode": "closed"}])
def test_what_no_proxy_has_is_refused(wrong):
    make_gateway()
    launch = make_ready(1, make_release())
    put(launch)
    with pytest.raises(ValueError):
        set_(launch, **wrong)


def test_a_unit_serves_only_when_its_weight_was_read_back():
    gateway = make_gateway()
    launch = make_ready(1, make_release())
    put(launch)

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
    put(launch)
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
