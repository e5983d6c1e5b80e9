"""The tick over a gateway without a proxy: what it orders and starts, what it takes in, and what it does not."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from fleet.execution.models import Command, Scrape, Subject
from fleet.execution.output import Section, sections_pack
from fleet.models import TrailEntry
from fleet.rules.message import said
from releases.models import Gateway, Launch
from releases.services.endpoints import endpoint_set
from releases.services.gateway_effects import scrape_key
from releases.services.gateways import gateway_advance, gateway_restart, gateways_advance
from tests.factories import make_actor, make_pool
from tests.proxy_answers import answer_text
from tests.traffic import (
    endpoint,
    give,
    make_gateway,
    make_ready,
    make_release,
    proxy_says,
)

pytestmark = pytest.mark.django_db
SHOW = "show servers state; show stat; show map shares.map\n"


@pytest.fixture
def launch() -> Launch:
    return make_ready(1, make_release())


def orders() -> list[str]:
    rows = Command.objects.filter(verb="exchange").order_by("pk")
    return [row.payload["text"].removesuffix(SHOW).removesuffix("; ") for row in rows]


def settle(command: Command, state: str = "succeeded", **sections: str) -> None:
    now = timezone.now()
    Command.objects.filter(pk=command.pk).update(state=state, sent_at=now, settled_at=now)
    parts = [Section(name, rc=0, body=text.encode()) for name, text in sections.items()]
    if parts:
        sections_pack(command.pk, parts).save(force_insert=True)


def newest(verb: str) -> Command:
    return Command.objects.filter(verb=verb).order_by("-pk").first()


def tick(gateway: Gateway) -> Gateway:
    gateway_advance(gateway.pk)
    gateway.refresh_from_db()
    return gateway


def test_it_writes_the_files_before_it_starts_the_proxy(launch):
    gateway = make_gateway(is_live=False)
    tick(gateway)
    (written,) = Command.objects.filter(host=gateway.host)
    texts = [section["argv"][-1] for section in written.payload["sections"]]
    assert "frontend llm" in texts[0]
    assert "GLM-5.2-FP8" in texts[0] or "glm-5.2" in texts[0]
    tick(gateway)
    assert Command.objects.filter(host=gateway.host).count() == 1, "one at a time"
    settle(written, **{"haproxy.cfg": "x", "shares.map": "x"})
    tick(gateway)
    start = newest("start")
    assert start.payload["argv"] == ["haproxy", "-db", "-f", "haproxy.cfg"]
    assert start.payload["epoch"] == 1
    assert Scrape.objects.get(key=scrape_key(gateway)).kind == "exchange"
    tick(gateway)
    assert Command.objects.filter(verb="start", host=gateway.host).count() == 1


def test_a_proxy_that_ended_is_started_again_under_a_new_epoch():
    gateway = make_gateway()
    tick(gateway)
    settle(gateway.files, **{"haproxy.cfg": "x", "shares.map": "x"})
    Subject.objects.update(state="done", rc=137, epoch=4)
    tick(gateway)
    assert newest("start").payload["epoch"] == 5
    assert "exit code 137" in said(gateway.explanation)


def test_a_file_that_could_not_be_written_is_written_again_and_nothing_starts(settings):
    settings.TIME_SCALE = 1000.0
    gateway = make_gateway(is_live=False)
    tick(gateway)
    settle(gateway.files, state="failed")
    Command.objects.update(created_at=timezone.now() - timedelta(seconds=5))
    tick(gateway)
    assert Command.objects.filter(verb="probe").count() == 2
    assert not Command.objects.filter(verb="start", host=gateway.host).exists()


def test_nothing_is_ordered_before_the_proxy_was_read_back(launch):
    gateway = make_gateway()
    give(launch)
    tick(gateway)
    assert orders() == []
    assert "read back" in said(gateway.explanation)
    assert gateway.differences, "no reading is no agreement"


def test_it_orders_what_the_proxy_has_otherwise_and_one_order_at_a_time(launch):
    gateway = make_gateway()
    give(launch)
    proxy_says(gateway, glm52_r1={"weight": 7})
    assert orders() == ["set server be_glm52_a/glm52-r1 weight 100"]
    endpoint_set(launch=launch, weight=30, actor=make_actor())
    proxy_says(gateway, glm52_r1={"weight": 7})
    assert len(orders()) == 1
    settle(gateway.order, body=answer_text(()))
    proxy_says(gateway, glm52_r1={"weight": 7})
    assert orders()[1:] == ["set server be_glm52_a/glm52-r1 weight 30"]


def test_the_read_back_of_an_order_counts_as_one(launch):
    from releases.selectors.gateways import gateway_routes

    gateway = make_gateway()
    give(launch)
    proxy_says(gateway, glm52_r1={"weight": 7})
    assert "weight is 7, desired 100" in said(gateway.differences[0])
    settle(gateway.order, body=answer_text(gateway_routes(gateway)))
    tick(gateway)
    assert (gateway.differences, endpoint(launch).seen_weight) == ([], 100)


def test_a_torn_answer_is_no_data_and_only_grows_older(launch):
    gateway = make_gateway()
    give(launch)
    proxy_says(gateway)
    seen_at = gateway.seen_at
    torn = answer_text(()).partition("# pxname")[0]
    Scrape.objects.update(answer=torn, ok_at=timezone.now())
    tick(gateway)
    assert (gateway.seen_at, endpoint(launch).seen_weight) == (seen_at, 100)
    Gateway.objects.update(seen_at=timezone.now() - timedelta(minutes=5))
    endpoint_set(launch=launch, weight=30, actor=make_actor())
    tick(gateway)
    assert orders() == [], "nobody knows what it does now"


def test_the_same_order_is_not_given_again_at_once(launch, settings):
    settings.TIME_SCALE = 0.1
    gateway = make_gateway()
    give(launch)
    for _ in range(3):
        proxy_says(gateway, glm52_r1={"weight": 7})
        settle(gateway.order, state="failed")
    assert len(orders()) == 1
    Command.objects.update(created_at=timezone.now() - timedelta(minutes=1))
    proxy_says(gateway, glm52_r1={"weight": 7})
    assert len(orders()) == 2


def test_a_change_of_somebody_else_is_told_in_the_trail_and_our_own_is_not(launch):
    gateway = make_gateway()
    give(launch)
    proxy_says(gateway)
    endpoint_set(launch=launch, weight=30, actor=make_actor())
    proxy_says(gateway, glm52_r1={"weight": 100})
    assert not TrailEntry.objects.filter(verb="gateway.drift").exists()
    settle(gateway.order, body=answer_text(()))
    proxy_says(gateway)
    proxy_says(gateway)
    proxy_says(gateway, glm52_r1={"weight": 7})
    drift = TrailEntry.objects.get(verb="gateway.drift")
    assert drift.after["found"] == ["glm52-r1: weight is 7, desired 30."]
    assert said(gateway.differences[0]) == drift.after["found"][0]


def test_requests_and_errors_are_counted_over_restarts_of_the_proxy(launch):
    gateway = make_gateway()
    give(launch)
    for sessions, errors in ((10, 1), (25, 2)):
        proxy_says(gateway, glm52_r1={"sessions": sessions, "errors": errors})
    assert (endpoint(launch).requests, endpoint(launch).errors) == (25, 2)
    proxy_says(gateway, glm52_r1={"sessions": 3, "errors": 0})
    assert (endpoint(launch).requests, endpoint(launch).errors) == (28, 2)
    Subject.objects.filter(pk=gateway.subject_id).update(epoch=2)
    proxy_says(gateway, glm52_r1={"sessions": 40, "errors": 1})
    assert (endpoint(launch).requests, endpoint(launch).errors) == (68, 3)


def test_a_launch_that_ended_leaves_the_proxy(launch):
    gateway = make_gateway()
    give(launch)
    proxy_says(gateway)
    text = Scrape.objects.get(key=scrape_key(gateway)).answer
    Launch.objects.update(state="stopped")
    Scrape.objects.filter(key=scrape_key(gateway)).update(answer=text, ok_at=timezone.now())
    tick(gateway)
    assert not gateway.endpoints.exists()
    assert "set server be_glm52_a/glm52-r1 state maint" in orders()[-1]


def test_units_that_were_ready_before_the_gateway_came_get_an_endpoint(launch):
    make_gateway()
    assert gateways_advance() > 0
    assert endpoint(launch).weight == 0, "its gate comes first"


def test_a_second_tick_changes_nothing(launch):
    gateway = make_gateway()
    gateways_advance()
    proxy_says(gateway)
    gateways_advance()
    before = (Command.objects.count(), TrailEntry.objects.count())
    assert gateways_advance() == 0
    assert (Command.objects.count(), TrailEntry.objects.count()) == before


def test_a_pool_that_the_proxy_does_not_know_needs_a_start(launch):
    gateway = make_gateway()
    make_release(2, make_pool("glm51"))
    give(launch)
    proxy_says(gateway)
    assert any("started anew" in said(text) for text in gateway.differences)
    assert not Command.objects.filter(verb="stop").exists(), "it would cut what runs"
    assert gateway_restart(gateway=gateway, reason="a new pool", actor=make_actor())
    assert newest("stop").subject_id == gateway.subject_id
    endpoint(launch).delete()
    Launch.objects.update(state="stopped")
    Command.objects.update(state="succeeded", created_at=timezone.now() - timedelta(minutes=1))
    tick(gateway)
    assert Command.objects.filter(verb="stop").count() == 2, "nothing is served through it"


def test_units_that_are_what_was_read_back_cost_no_query_each():
    gateway, release = make_gateway(), make_release()
    counts = []
    for number in (1, 2, 3):
        launch = make_ready(number, release)
        give(launch)
        proxy_says(gateway)
        for _ in range(2):
            gateways_advance()
        with CaptureQueriesContext(connection) as asked:
            gateways_advance()
        counts.append(len(asked))
    assert len(set(counts)) == 1, counts
