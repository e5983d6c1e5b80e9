"""The gateway's page: what is wanted beside what was read back, and what people may do there."""

import uuid
from datetime import timedelta

import pytest
from django.utils import timezone

from fleet.execution.models import Command, Subject
from fleet.rules.message import say
from releases.models import Drain, Gateway, Launch
from releases.services.endpoints import endpoint_set
from releases.services.gateways import units_follow
from tests.factories import make_actor
from tests.traffic import endpoint, make_gateway, make_ready, make_release, proxy_says
from tests.traffic import give as put

pytestmark = pytest.mark.django_db
UNIT = "/replicas/glm52-r1/gen/1"


@pytest.fixture
def gateway() -> Gateway:
    make_release(1), make_release(2)
    return make_gateway()


@pytest.fixture
def launch(gateway) -> Launch:
    from releases.models import Release

    old, new = Release.objects.order_by("pk")
    first, second = make_ready(1, old), make_ready(2, new)
    put(first)
    put(second, 25)
    proxy_says(gateway, glm52_r1={"running": 3, "sessions": 200, "errors": 4})
    units_follow()
    return first


def post(client, address: str, **fields):
    return client.post(address, {"idempotency_key": str(uuid.uuid4()), **fields})


def version_of(launch: Launch) -> int:
    launch.replica.refresh_from_db()
    return launch.replica.version


def give(client, launch: Launch, **fields):
    posted = {"weight": "40", "reason": "it is slow", "base_version": version_of(launch)}
    return post(client, f"{UNIT}/weight/", **{**posted, **fields})


def page(client, query: str = "") -> str:
    return client.get(f"/gateway/{query}").content.decode()


def test_without_a_gateway_the_page_says_so(ana):
    assert "There is no gateway" in page(ana)


def test_it_shows_revisions_with_their_shares_and_units_with_both_weights(ana, launch):
    answer = ana.get("/gateway/")
    text = answer.content.decode()
    assert [slot["percent"] for slot in answer.context["slots"]] == [80, 20]
    assert "Does as wanted" in text
    row = answer.context["slots"][0]["units"][0]
    assert (row["endpoint"].seen_weight, row["running"], row["agrees"]) == (100, 3, True)
    (pool,) = answer.context["pools"]
    assert (pool["requests"], pool["errors"], pool["serving"]) == (200, 4, 2)
    assert pool["errors_percent"] == 2.0


def test_a_difference_is_a_sentence_and_a_wish_not_read_back_is_no_number(ana, launch, gateway):
    endpoint_set(launch=launch, weight=40, actor=make_actor())
    proxy_says(gateway, glm52_r1={"weight": 7})
    text = page(ana)
    assert "glm52-r1: weight is 7, desired 40." in text
    endpoint_set(launch=launch, weight=41, actor=make_actor())
    assert "not since the change" in page(ana)


def test_an_old_read_back_is_not_shown_as_agreement(ana, launch, gateway):
    Gateway.objects.update(seen_at=timezone.now() - timedelta(minutes=5))
    text = page(ana)
    assert "Not read back" in text
    assert "Does as wanted" not in text
    assert "The proxy does everything as wanted." not in text


def test_a_proxy_that_does_not_run_is_the_first_thing_said(ana, launch, gateway):
    Subject.objects.filter(pk=gateway.subject_id).update(state="done", rc=137)
    assert "Proxy does not run" in page(ana)


def test_an_operator_gives_a_weight_with_a_reason(ana, launch):
    answer = give(ana, launch)
    assert answer["Location"] == "/gateway/?pool=glm52"
    assert endpoint(launch).weight == 40


@pytest.mark.parametrize("wrong", ["101", "-1", "ten", "", "1.5", "0000101"])
def test_what_is_no_weight_is_refused_in_words(ana, launch, wrong):
    answer = give(ana, launch, weight=wrong)
    assert answer.status_code == 422
    assert endpoint(launch).weight == 100


def test_without_a_reason_or_on_an_old_page_nothing_changes(ana, launch):
    assert give(ana, launch, reason=" ").status_code == 422
    assert give(ana, launch, base_version=version_of(launch) - 1).status_code == 409
    assert endpoint(launch).weight == 100


def test_a_viewer_reads_and_may_not_act(signed_in, launch):
    chen = signed_in("chen")
    assert "Needs role operator" in page(chen, "?unit=glm52-r1")
    assert give(chen, launch).status_code == 403
    assert post(chen, "/gateway/gw/restart/", reason="why not", confirm="gw").status_code == 403
    assert endpoint(launch).weight == 100


def test_draining_asks_for_a_drain_and_shows_what_it_waits_for(ana, launch, gateway):
    posted = {"reason": "new fans", "base_version": version_of(launch)}
    assert post(ana, f"{UNIT}/drain/", **posted).status_code == 302
    drain = Drain.objects.get()
    assert (drain.reason, endpoint(launch).mode) == ("new fans", "drain")
    text = page(ana, "?unit=glm52-r1")
    assert "to the deadline" in text
    assert "This puts it back into traffic and ends its drain." in text


def test_why_a_unit_is_to_be_stopped_is_told_in_words(ana, launch):
    reason = say("Wave %(n)s of %(rollout)s.", n=3, rollout="RO-0007")
    Launch.objects.filter(pk=launch.pk).update(stop_reason=reason)
    assert "Wave 3 of RO-0007." in page(ana, "?unit=glm52-r1")


def test_a_unit_that_is_not_ready_gets_no_traffic(ana, launch):
    Launch.objects.filter(pk=launch.pk).update(state="freezing")
    assert give(ana, launch).status_code == 409


def test_starting_the_proxy_anew_needs_its_name(ana, launch, gateway):
    address = "/gateway/gw/restart/"
    assert post(ana, address, reason="a new pool", confirm="gx").status_code == 422
    assert not Command.objects.filter(verb="stop").exists()
    assert post(ana, address, reason="a new pool", confirm="gw").status_code == 302
    assert Command.objects.filter(verb="stop", subject=gateway.subject_id).count() == 1


def test_a_unit_whose_slot_is_taken_is_listed(ana, launch):
    make_ready(3, make_release(3))
    assert "Two other releases of its pool" in page(ana)


def test_more_units_cost_no_more_queries(ana, launch, django_assert_max_num_queries):
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    with CaptureQueriesContext(connection) as few:
        page(ana)
    for number in (3, 4):
        more = make_ready(number, launch.release)
        put(more)
    with django_assert_max_num_queries(len(few)):
        page(ana)


def end(client, **fields):
    return post(client, f"{UNIT}/stop/", confirm="glm52-r1", reason="new fans", **fields)


def test_ending_a_served_unit_drains_it_and_the_second_click_says_what_it_cuts(
    ana, launch, gateway
):
    assert "Drain and end glm52-r1" in page_of_launch(ana)
    end(ana)
    launch.refresh_from_db()
    assert (launch.state, launch.stop_reason) == ("ready", "new fans")
    assert "how many requests that is, is not known" in page_of_launch(ana)
    proxy_says(gateway, glm52_r1={"running": 3})
    text = page_of_launch(ana)
    assert "Ending it now cuts 3 requests that still run." in text
    assert "End glm52-r1 now" in text
    end(ana)
    launch.refresh_from_db()
    assert launch.state == "ready", "only the button that says so cuts"
    end(ana, now="1")
    launch.refresh_from_db()
    assert launch.state == "stopping"
    assert Drain.objects.get().cut == 3


def page_of_launch(client) -> str:
    return client.get(f"{UNIT}/launch/").content.decode()
