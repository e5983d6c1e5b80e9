"""The counts beside the entries of the navigation: only what a person must act on, on every page."""

import re

import pytest
from django.utils import timezone

from runbooks.services.incidents import incident_move, incident_open
from tests.factories import make_actor, make_pool
from tests.rollouts import ask_wave, make_world, reach, running

pytestmark = pytest.mark.django_db


def counts_of(client, address: str = "/counts/") -> tuple[str, str]:
    page = client.get(address).content.decode()
    found = re.search(r'data-approvals="(\d+)" data-incidents="(\d+)"', page)
    return found[1], found[2]


@pytest.fixture
def asked():
    world = make_world(units=2)
    rollout = running(world)
    reach(world, rollout, 1, "awaiting_approval")
    ask_wave(rollout, 1)
    return rollout


def test_a_request_counts_for_who_may_sign_it_and_not_for_who_asked(signed_in, asked):
    assert counts_of(signed_in("bo")) == ("1", "0")
    assert counts_of(signed_in("ana")) == ("0", "0")
    assert counts_of(signed_in("chen")) == ("0", "0")


def test_an_incident_counts_until_it_is_resolved(ana):
    incident, _new = incident_open(
        signature="test", pool=make_pool(), replica=None, launch=None, title="it hangs",
        symptoms=[], began_at=timezone.now(), actor=make_actor(),
    )  # fmt: skip
    assert counts_of(ana) == ("0", "1")
    incident_move(incident=incident, to="acknowledged", actor=make_actor())
    assert counts_of(ana) == ("0", "1")
    type(incident).objects.update(state="resolved")
    assert counts_of(ana) == ("0", "0")


@pytest.mark.parametrize("address", ["/", "/fleet/", "/audit/", "/gates/", "/inbox/"])
def test_every_page_shows_them_without_script(signed_in, asked, address):
    page = signed_in("bo").get(address).content.decode()
    signs = re.findall(r'data-nav-count="(\w+)"( hidden)?>(\d+)<', page)
    assert sorted(signs) == [
        ("approvals", "", "1"), ("approvals", "", "1"),
        ("incidents", " hidden", "0"), ("incidents", " hidden", "0"),
    ]  # fmt: skip
    assert re.search(r'data-topics="[^"]*\binbox\b', page)


def test_nobody_reads_them_without_signing_in(client):
    assert client.get("/counts/").status_code == 302
