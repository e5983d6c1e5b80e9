"""Copies of weights rest on a leaf while a unit with traffic there breaches what it promises."""

from datetime import timedelta

import pytest
from django.utils import timezone

from fleet.execution.models import Scrape
from fleet.models import Holding, Node, WeightsArtefact
from fleet.rules.message import said
from fleet.services.weights_tick import weights_advance
from releases.models import Endpoint, Gateway
from releases.services.pressure import serving_pressure
from tests.rollouts import make_world

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _redis(redis_client):
    """Dispatching nudges the queue."""


@pytest.fixture
def world():
    found = make_world(units=2)
    Gateway.objects.update(seen={"window": []}, seen_at=timezone.now())
    return found


def words() -> str:
    return " ".join(said(why) for why in serving_pressure().values())


def count(unit: str, requests: int, errors: int) -> None:
    """Let the proxy have counted so much of a unit within the window."""
    one = Endpoint.objects.get(launch__replica__name=unit)
    sample = {str(one.launch_id): [one.requests - requests, one.errors - errors]}
    seen = {"window": [{"at": timezone.now().isoformat(), "counts": sample}]}
    Gateway.objects.update(seen=seen)


def test_units_that_serve_well_press_on_nothing(world):
    assert serving_pressure() == {}


def test_a_golden_probe_that_misses_twice_or_is_not_asked_presses_on_its_leaf(world):
    probe = Scrape.objects.filter(key__contains="golden").order_by("pk").first()
    leaf = Node.objects.get(host=probe.host).rack.leaf.number
    Scrape.objects.filter(pk=probe.pk).update(misses=2)
    assert set(serving_pressure()) == {leaf}
    assert "no answer 2 times" in words()
    long_ago = timezone.now() - timedelta(hours=1)
    Scrape.objects.filter(pk=probe.pk).update(misses=0, tried_at=long_ago)
    assert serving_pressure() == {}, "the unit became ready a moment ago"
    Endpoint.objects.get(launch__replica__name="glm52-r1").launch.__class__.objects.update(
        ready_at=long_ago
    )
    assert "was not asked lately" in words()


def test_errors_of_the_window_press_and_a_unit_without_traffic_does_not(world):
    count("glm52-r2", 100, 30)
    assert "glm52-r2 of this leaf answers with errors: 30 %" in words()
    Endpoint.objects.filter(launch__replica__name="glm52-r2").update(weight=0)
    assert serving_pressure() == {}


def test_a_proxy_that_is_not_read_presses(world):
    Gateway.objects.update(seen_at=timezone.now() - timedelta(hours=1))
    assert "the proxy was not read lately" in words()


def test_it_asks_the_database_as_often_for_one_unit_as_for_many(world, django_assert_num_queries):
    with django_assert_num_queries(3):
        serving_pressure()


def test_a_copy_waits_while_its_leaf_is_pressed_and_begins_afterwards(world):
    free, holder = Node.objects.filter(memberships=None)[:2]
    artefact = WeightsArtefact.objects.create(
        model="glm-x", revision="d" * 40, state="ready", total_bytes=10,
        manifest=[{"name": "a", "size": 10, "sha256": "a" * 64}],
    )  # fmt: skip
    Holding.objects.create(node=holder, artefact=artefact, state="ready")
    held = Holding.objects.create(node=free, artefact=artefact, needs=["a"])
    count("glm52-r1", 100, 30)
    weights_advance()
    held.refresh_from_db()
    assert held.state == "wanted"
    assert "answers with errors" in said(held.explanation)
    Gateway.objects.update(seen={"window": []})
    weights_advance()
    held.refresh_from_db()
    assert held.state == "copying", said(held.explanation)
