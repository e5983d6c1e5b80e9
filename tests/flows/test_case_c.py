"""A unit behind the proxy hangs: its incident opens by itself, and case C is run to the rebuilt unit in traffic."""

from __future__ import annotations

import pytest

from fleet.rules.message import said
from tests.factories import make_actor, make_person
from tests.flows.pools import serving_unit
from tests.needs import four_nodes, needs_haproxy

pytestmark = [
    pytest.mark.lab,
    pytest.mark.django_db(transaction=True),
    needs_haproxy,
    four_nodes,
]


@pytest.fixture
def serving(console):
    return serving_unit(console)


def steps(run) -> dict[str, str]:
    return dict(run.steps.values_list("step_id", "state"))


def told(run) -> str:
    run.refresh_from_db()
    rows = (f"{one.step_id} {one.state}: {said(one.explanation)}" for one in run.steps.all())
    return "; ".join([said(run.explanation), *rows])


def test_a_hang_opens_its_incident_and_case_c_rebuilds_the_unit_on_spares(console, serving):
    from fleet.models import Evidence, Hold, Member
    from releases.models import Endpoint, Launch
    from runbooks.models import Incident, Run
    from runbooks.services.runs import run_start, step_confirm, step_record

    head = serving.plan["positions"][0]["node"]
    console.lab.fault(head, "engine.freeze")
    console.until(Incident.objects.exists, "the incident to open by itself", timeout_s=300)
    incident, run = Incident.objects.get(), Run.objects.get()
    assert (incident.signature, incident.launch) == ("hang", serving)
    assert Endpoint.objects.get(launch=serving).weight == 0, "nobody is sent there any more"
    assert Launch.objects.get(pk=serving.pk).state == "ready", "nothing is ended without a person"

    run_start(run=run, user=make_person("ana"), actor=make_actor())

    def comes_to(name: str, *states: str) -> None:
        try:
            console.until(lambda: steps(run)[name] in states, f"{name}", timeout_s=200)
        except AssertionError as late:
            raise AssertionError(f"{told(run)}\n{late}") from None

    comes_to("hardware", "passed", "failed", "unknown")
    if steps(run)["hardware"] == "unknown":
        step_record(
            run=run, step_id="hardware", outcome="passed", words="looked", actor=make_actor()
        )
    comes_to("stop", "awaiting_confirm")
    assert Evidence.objects.filter(object_id=serving.public_id).count() >= 4
    step_confirm(run=run, step_id="stop", typed=serving.replica.name, actor=make_actor())
    comes_to("cordon", "awaiting_confirm")
    step_confirm(run=run, step_id="cordon", params={"node": head}, actor=make_actor())
    comes_to("rebuild", "awaiting_confirm")
    assert Hold.objects.get(lifted_at=None).node.name == head
    step_confirm(run=run, step_id="rebuild", actor=make_actor())
    comes_to("reweight", "awaiting_confirm")
    rebuilt = Launch.objects.order_by("-pk").first()
    seats = Member.objects.filter(replica=serving.replica, released_at=None)
    old = {place["node"] for place in serving.plan["positions"]}
    assert rebuilt.release == serving.release
    assert not old & {seat.node.name for seat in seats}, "the whole unit moved"
    step_confirm(run=run, step_id="reweight", actor=make_actor())
    console.until(lambda: Run.objects.get().state == "succeeded", "the run to end", timeout_s=300)
    incident.refresh_from_db()
    assert incident.state == "mitigated"
    assert incident.mitigated_at > incident.began_at
    assert Endpoint.objects.get(launch=rebuilt).weight == 100
    rebuilt.replica.refresh_from_db()
    assert rebuilt.replica.shown_state == "serving"
