"""Each probe adds to the short history of a node's cards; it never grows without end."""

from datetime import timedelta

import pytest
from django.utils import timezone

from fleet.models import CardSample, NodeProbe, ProbeRun
from fleet.rules.probe_cards import CardSeen
from fleet.services import probe_store
from fleet.services.probe_store import samples_store
from tests.factories import make_command, make_node, make_nodes

pytestmark = pytest.mark.django_db


def probe_of(node, minutes: int) -> NodeProbe:
    run = ProbeRun.objects.create(scope=node.name)
    at = timezone.now() + timedelta(minutes=minutes)
    command = make_command(node.host, f"probe:{run.pk}/{node.name}", settled_at=at)
    return NodeProbe.objects.create(run=run, node=node, command=command)


def cards(*readings):
    return [
        CardSeen(index, "ok", fields={"sm_clock_mhz": clock, "temperature_c": 40.0})
        for index, clock in readings
    ]


def test_a_card_without_a_reading_is_null_in_its_place():
    samples_store([(probe_of(make_node(), 0), cards((0, 1980.0), (2, None), (3, float("nan"))))])
    assert CardSample.objects.get().sm_clock_mhz == [1980.0, None, None, None]


def test_the_same_probe_stored_twice_is_one_sample():
    probe = probe_of(make_node(), 0)
    for _ in range(2):
        samples_store([(probe, cards((0, 1980.0)))])
    assert CardSample.objects.count() == 1


def test_a_probe_without_cards_adds_nothing():
    samples_store([(probe_of(make_node(), 0), [])])
    assert not CardSample.objects.exists()


def test_an_absurd_index_makes_no_absurd_list():
    samples_store([(probe_of(make_node(), 0), cards((0, 1980.0), (10**9, 1.0)))])
    assert len(CardSample.objects.get().sm_clock_mhz) == probe_store.CARDS_MAX


def test_only_the_last_ones_of_each_node_are_kept(monkeypatch, django_assert_num_queries):
    monkeypatch.setattr(probe_store, "SAMPLES_KEPT", 3)
    one, other = make_nodes(2)
    for minute in range(5):
        samples_store([(probe_of(one, minute), cards((0, float(minute))))])
    samples_store([(probe_of(other, 0), cards((0, 7.0)))])
    kept = [sample.sm_clock_mhz[0] for sample in CardSample.objects.filter(node=one)]
    assert kept == [2.0, 3.0, 4.0]
    assert CardSample.objects.filter(node=other).count() == 1
    fresh = [(probe_of(node, 9), cards((0, 1.0))) for node in (one, other)]
    with django_assert_num_queries(2):
        samples_store(fresh)
