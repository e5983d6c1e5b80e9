"""A fleet that goes silent at once opens one incident of the whole fleet, and nothing is done to any unit."""

from datetime import timedelta

import pytest
from django.utils import timezone

from fleet.execution.models import Command, Host
from fleet.models import Brake, Evidence, Hold, Replica
from fleet.rules.message import said
from fleet.services.brake import brake_clear
from fleet.services.reach import reach_settle
from releases.models import Launch
from releases.services.launch_tick import launch_advance
from runbooks.models import Incident
from runbooks.services.incidents import incident_cause, incident_move
from runbooks.services.suspicion import suspicion_follow
from tests.factories import make_actor, make_nodes, make_person
from tests.traffic import make_ready, make_release

pytestmark = pytest.mark.django_db


def go_silent() -> None:
    Host.objects.update(reach=Host.Reach.UNREACHABLE, missed_since=timezone.now())


def ticks(count: int = 3) -> None:
    for _ in range(count):
        reach_settle()
        for launch in Launch.objects.filter(state__in=Launch.LIVE):
            launch_advance(launch.pk)
        suspicion_follow()


@pytest.fixture
def fleet() -> None:
    """48 nodes, on four of which two units are ready."""
    release = make_release()
    make_ready(23, release), make_ready(24, release)
    make_nodes(44)


def test_48_silent_nodes_open_one_incident_and_nothing_is_done(fleet):
    before = Command.objects.count()
    go_silent()
    ticks()
    incident = Incident.objects.get()
    assert (incident.signature, incident.pool, incident.state) == ("control-plane", None, "open")
    assert "48 of 48 nodes turned bad" in said(incident.symptoms[0]["text"])
    assert Command.objects.count() == before
    assert not Hold.objects.exists()
    assert set(Launch.objects.values_list("state", flat=True)) == {"ready"}
    body = bytes(Evidence.objects.get(object_id=incident.public_id).body).decode()
    assert body.count("unreachable since") == 48


def test_units_are_unknown_then_and_come_back_by_themselves(fleet):
    from fleet.execution.models import Scrape

    go_silent()
    old = timezone.now() - timedelta(minutes=3)
    Scrape.objects.update(tried_at=old, ok_at=old)
    ticks()
    assert {unit.shown_state for unit in Replica.objects.all()} == {"unseen"}
    Host.objects.update(reach=Host.Reach.OK, missed_since=None)
    Scrape.objects.update(tried_at=timezone.now(), ok_at=timezone.now())
    ticks()
    assert {unit.shown_state for unit in Replica.objects.all()} == {"ready"}


def test_clearing_the_brake_mitigates_it_and_its_cause_closes_it(fleet):
    go_silent()
    ticks()
    Host.objects.update(reach=Host.Reach.OK, missed_since=None)
    brake_clear(brake=Brake.objects.get(), reason="a leaf switch", actor=make_actor())
    ticks()
    incident = Incident.objects.get()
    assert incident.state == "mitigated"
    assert "ana cleared the brake: a leaf switch" in said(incident.notes.first().text)
    incident = incident_cause(
        incident=incident, cause="a leaf switch", actor=make_actor(), version=incident.version
    )
    for to in ("resolved", "closed"):
        incident = incident_move(incident=incident, to=to, actor=make_actor())
    ticks()
    assert Incident.objects.count() == 1, "the next brake has one of its own, not this one again"


def test_a_person_sees_and_takes_it(client):
    make_nodes(8)
    go_silent()
    ticks()
    incident = Incident.objects.get()
    client.force_login(make_person("ana"))
    for address in ("/incidents/", f"/incidents/{incident}/", "/inbox/", "/"):
        assert "The control plane is suspect" in client.get(address).content.decode()
    assert "whole fleet" in client.get("/incidents/").content.decode()
