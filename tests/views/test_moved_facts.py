"""A card whose facts moved says so before anybody clicks: which ones, then and now, and who may ask anew."""

import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from releases.models import Approval, Rollout
from releases.views.moved_facts import facts_compared
from runbooks.services.incidents import incident_open
from tests.factories import make_actor
from tests.rollouts import ask_wave, make_world, reach, running, sign, submitted
from tests.views.test_rollout_pages import answer_of, html, page, post

pytestmark = pytest.mark.django_db


@pytest.fixture
def asked():
    """A rollout whose first wave behind the canary waits for a signature, asked for by Ana."""
    world = make_world(units=2)
    rollout = running(world)
    reach(world, rollout, 1, "awaiting_approval")
    ask_wave(rollout, 1)
    return rollout


def break_unit(rollout: Rollout) -> str:
    """Open an incident in the pool; return its name."""
    unit = rollout.pool.replicas.get(name="glm52-r2")
    incident, _new = incident_open(
        signature="test", pool=rollout.pool, replica=unit, launch=None, title="it hangs",
        symptoms=[], began_at=timezone.now(), actor=make_actor(),
    )  # fmt: skip
    return str(incident)


def promise(rollout: Rollout, units: int) -> None:
    rollout.pool.promised_units = units
    rollout.pool.save()


def button(shown: str, decision: str) -> str:
    return re.search(rf'<button[^>]*value="{decision}"[^>]*>', shown)[0]


@pytest.mark.parametrize("where", ["page", "inbox"])
def test_an_incident_since_then_is_told_and_closes_the_button(signed_in, asked, where):
    bo, address = signed_in("bo"), page(asked) if where == "page" else "/inbox/"
    fresh = html(bo.get(address))
    assert "Moved since it was asked" not in fresh
    assert "disabled" not in button(fresh, "approved")

    name = break_unit(asked)
    card = bo.get(address).context["card"]
    moved = {fact.name: (fact.then, fact.now) for fact in card["moved"]}
    assert moved["open_incidents"] == ("none", name)
    assert not next(g for g in card["guards"] if g["word"] == "Open incidents of the pool")[
        "is_met"
    ]
    shown = html(bo.get(address))
    assert f"none, now {name}" in shown
    assert "disabled" in button(shown, "approved")
    assert "it must be asked anew" in shown
    assert "disabled" not in button(shown, "denied"), "no can still be said"


def test_the_inbox_hears_what_moves_the_facts_of_its_card(signed_in, asked):
    answer = signed_in("bo").get("/inbox/")
    assert {"inbox", "incidents", "fleet", asked.topic} <= set(answer.context["topics"])
    assert "incidents from:body" in html(answer)


def test_only_who_may_ask_is_offered_to_ask_anew(signed_in, ana, asked):
    promise(asked, 0)
    assert f'href="{page(asked)}#wave-ask">Ask anew' in html(ana.get(page(asked)))
    viewer = html(signed_in("chen").get(page(asked)))
    assert "an operator must ask anew" in viewer
    assert "#wave-ask" not in viewer


def test_a_wave_asked_anew_can_be_signed(signed_in, ana, asked):
    assert 'id="wave-ask"' not in html(ana.get(page(asked)))
    promise(asked, 0)
    answer = ana.get(page(asked))
    assert 'id="wave-ask"' in html(answer)
    assert "not answered within 24 hours" not in html(answer)
    version = re.search(r'name="base_version" value="([^"]*)"', html(answer))[1]
    post(ana, f"{page(asked)}ask/", number="1", reason="fewer are promised", base_version=version)
    bo = signed_in("bo")
    assert "Moved since it was asked" not in html(bo.get(page(asked)))
    assert answer_of(bo, asked).status_code == 302
    assert Approval.objects.filter(kind="wave", decision="approved").count() == 1


def test_a_whole_rollout_is_asked_anew_when_its_facts_moved(signed_in, ana):
    rollout = submitted(make_world(units=2))
    assert "Ask for approval" not in html(ana.get(page(rollout)))
    promise(rollout, 0)
    answer = ana.get(page(rollout))
    assert f'href="{page(rollout)}#rollout-acts">Ask anew' in html(answer)
    version = re.search(r'name="base_version" value="([^"]*)"', html(answer))[1]
    assert post(ana, f"{page(rollout)}act/", act="submit", base_version=version).status_code == 302
    assert rollout.approvals.filter(decision="").count() == 1
    sign(rollout)
    rollout.refresh_from_db()
    assert rollout.state == "approved"


def test_the_inbox_asks_the_database_as_often_for_moved_facts(signed_in, asked):
    bo = signed_in("bo")
    bo.get("/inbox/")
    counts = []
    for units in (1, 0):
        promise(asked, units)
        with CaptureQueriesContext(connection) as seen:
            bo.get("/inbox/")
        counts.append(len(seen))
    assert counts[0] == counts[1]


def test_every_kind_of_fact_is_told_in_words():
    then = {
        "is_braked": False, "fired_triggers": [], "nodes": ["h100-001"], "plan_sha256": "a" * 64,
        "gates": [], "units": [["glm52-r1", "R-1"]], "commands": [["h100-001", ["x"]]], "spares_after": 2,
    }  # fmt: skip
    now = {
        "is_braked": True, "fired_triggers": ["golden"], "nodes": [], "plan_sha256": "b" * 64,
        "gates": [["glm52-r1", "G-1", "failed"]], "units": [], "commands": [], "spares_after": 0,
    }  # fmt: skip
    told = {fact.name: (fact.then, fact.now) for fact in facts_compared(Approval(facts=then), now)}
    assert told == {
        "is_braked": ("off", "on"),
        "fired_triggers": ("none", "Golden answers"),
        "nodes": ("h100-001", "none"),
        "plan_sha256": ("aaaaaaaaaaaa…", "bbbbbbbbbbbb…"),
        "gates": ("none", "G-1 glm52-r1: Failed"),
        "units": ("glm52-r1", "none"),
        "commands": ("", ""),
        "spares_after": ("2", "0"),
    }


def test_it_speaks_chinese(signed_in, asked):
    name = break_unit(asked)
    shown = html(signed_in("bo", language="zh-hans").get(page(asked)))
    assert f"无，现为 {name}" in shown
