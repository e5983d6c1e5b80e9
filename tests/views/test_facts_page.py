"""One fact over the fleet in one sentence; and how often the fleet is probed by itself."""

import uuid
from datetime import timedelta

import pytest
from django.utils import timezone

from fleet.models import Fact, Hold, ProbeSchedule
from tests.factories import make_command, make_node, make_nodes

pytestmark = pytest.mark.django_db


def tell(
    node, value, *, key: str = "driver_version", age_s: float = 20, ttl_s: float = 3600, **fields
):
    at = timezone.now() - timedelta(seconds=age_s)
    Fact.objects.create(
        node=node, key=key, value=value, observed_at=at, section="gpu-query",
        expires_at=at + timedelta(seconds=ttl_s), **fields,
    )  # fmt: skip


def test_the_one_that_differs_is_named_with_source_and_age(ana):
    nodes = make_nodes(5)
    for node in nodes:
        tell(node, "575.2" if node.name == "h100-003" else "570.1")
    page = ana.get("/fleet/facts/")
    assert page.context["headline"] == "4 agree, h100-003 differs."
    html = page.content.decode()
    assert "h100-[001-002,004-005]" in html
    assert "gpu-query" in html
    assert html.count("data-age") == 2, "one age each"


def test_a_fact_leads_to_the_raw_output_it_came_from(ana):
    node = make_node()
    source = make_command(node.host, state="succeeded")
    tell(node, "570.1", source=source)
    html = ana.get("/fleet/facts/").content.decode()
    assert f"/nodes/{node.name}/probes/{source.pk}/raw/gpu-query/" in html


def test_what_cannot_be_said_is_unknown_and_never_among_those_that_agree(ana):
    one, two, three, _four = make_nodes(4)
    tell(one, "570.1")
    tell(two, "570.1", age_s=90, ttl_s=60)
    tell(three, None, problem="nvidia-smi: no answer")
    page = ana.get("/fleet/facts/?key=driver_version")
    assert page.context["headline"] == "1 agrees. Unknown: h100-[002-004]."
    html = page.content.decode()
    assert "unknown now, was 570.1" in html
    assert "nvidia-smi: no answer" in html
    assert "never asked" in html


def test_a_node_set_narrows_it_and_a_wrong_one_is_told(ana):
    for node in make_nodes(4):
        tell(node, node.name[-1])
    page = ana.get("/fleet/facts/", {"nodes": "h100-[002-003]"})
    assert [fold["names"] for fold in page.context["folds"]] == ["h100-002", "h100-003"]
    assert "2 different values" in page.context["headline"]
    html = ana.get("/fleet/facts/", {"nodes": "h100-[3-1]"}).content.decode()
    assert "The filter cannot be read: expected a rising range" in html


def test_hostile_values_stay_text_and_an_empty_fleet_says_so(ana):
    assert "No node told anything yet" in ana.get("/fleet/facts/?key=nobody").content.decode()
    tell(make_node(), {"x": "<b>bold</b>"}, key="models")
    html = ana.get("/fleet/facts/?key=models").content.decode()
    assert "&lt;b&gt;bold" in html
    assert "<b>bold" not in html


def test_the_interval_is_shown_and_changed_by_an_admin(signed_in):
    make_nodes(2)
    make_node("h100-009", host={"key_state": "unset"})
    dana = signed_in("dana")
    html = dana.get("/fleet/settings/").content.decode()
    assert 'value="9"' in html
    assert "h100-009" in html
    assert "its host key is not pinned" in html
    fields = {"minutes": "2.5", "base_version": "1", "idempotency_key": str(uuid.uuid4())}
    assert dana.post("/fleet/settings/", fields).status_code == 302
    assert ProbeSchedule.objects.get().every_s == 150
    for wrong in ("", "x", "nan", "1e9", "-1", "0.5"):
        fields = {"minutes": wrong, "base_version": "2", "idempotency_key": str(uuid.uuid4())}
        assert dana.post("/fleet/settings/", fields).status_code == 422, wrong
    assert "Needs role admin" in signed_in("chen").get("/fleet/settings/").content.decode()


@pytest.mark.parametrize(
    ("fields", "hours"), [({"lasts": "24"}, 24), ({"lasts": ""}, None), ({"lasts": "24", "hours": "2"}, 2)]
)  # fmt: skip
def test_a_hold_lasts_as_long_as_the_form_says(ana, fields, hours):
    node = make_node()
    posted = {
        "kind": "maintenance", "reason": "new fans", "base_version": str(node.version),
        "idempotency_key": str(uuid.uuid4()), **fields,
    }  # fmt: skip
    assert ana.post(f"/nodes/{node.name}/holds/", posted).status_code == 302
    hold = Hold.objects.get()
    lasts = hold.expires_at and round((hold.expires_at - hold.created_at).total_seconds() / 3600)
    assert lasts == hours
    html = ana.get(f"/nodes/{node.name}/").content.decode()
    assert ("· without end</p>" in html) is (hours is None)
    assert 'name="lasts"' in html


def test_the_settings_say_how_long_probes_are_kept(signed_in, settings):
    settings.PROBES_KEPT_DAYS = 21
    html = signed_in("chen").get("/fleet/settings/").content.decode()
    assert "21 days" in html
    assert "PROBES_KEPT_DAYS" in html
