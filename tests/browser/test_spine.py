"""What a change and a night are made of, by clicks over a real console, real SSH and a real HAProxy.

Ana sits at a desk, Bo signs on a telephone, and clients stream through the proxy all the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.browser.web import open_browser, sign_in
from tests.browser.whole import needs_chromium, real_passwords, shows, speak, whole_console
from tests.flows.conftest import bare_console, probe_all, time_scale
from tests.flows.ledger import ledger_of, named_by_the_console
from tests.flows.pools import PATIENCE_S, serving, serving_pool, serving_unit
from tests.needs import four_nodes, needs_haproxy

__all__ = ["bare_console", "real_passwords", "time_scale", "whole_console"]

pytestmark = [
    pytest.mark.browser,
    pytest.mark.lab,
    pytest.mark.long,
    pytest.mark.django_db(transaction=True),
    needs_haproxy,
    four_nodes,
    needs_chromium,
]
LANGUAGES = ["en", "zh-hans"]
DESK = {"viewport": {"width": 1440, "height": 900}}
PHONE = {"viewport": {"width": 390, "height": 844}}
SEEN_MS = 120_000


class People:
    """Ana at a desk and Bo on a telephone, signed in and spoken to in one language."""

    def __init__(self, browser: Any, base: str, language: str) -> None:
        self._base = base
        self.troubles: list[str] = []
        self.ana = self._page(browser, "ana", DESK, language)
        self.bo = self._page(browser, "bo", PHONE, language)

    def _page(self, browser: Any, name: str, look: dict[str, Any], language: str) -> Any:
        context = browser.new_context(**look)
        page = context.new_page()
        page.on("pageerror", lambda error: self.troubles.append(str(error)))
        sign_in(page, self._base, name)
        if look is DESK:
            speak(page, language)
        context.add_cookies([{"name": "django_language", "value": language, "url": self._base}])
        return page

    def ana_at(self, path: str) -> Any:
        self.ana.goto(f"{self._base}{path}")
        return self.ana

    def bo_signs(self) -> None:
        """Approve the one card that waits; its buttons are in reach on his telephone."""
        self.bo.goto(f"{self._base}/inbox/")
        button = self.bo.locator("#approval button[value=approved]")
        assert button.bounding_box()["height"] >= 44
        assert self.bo.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        button.click()
        self.bo.wait_for_url("**/rollouts/**")


@contextmanager
def people(base: str, language: str) -> Iterator[People]:
    with open_browser() as browser:
        both = People(browser, base, language)
        yield both
        assert both.troubles == []


def drafted(who: People, pool: Any, observe_min: int) -> Any:
    """Ana drafts a rollout to the pool's newest release, asks, Bo signs, Ana starts."""
    from releases.models import Release, Rollout

    newest = Release.objects.filter(pool=pool).order_by("pk").last()
    page = who.ana_at(f"/rollouts/new/?pool={pool.slug}")
    page.select_option("#new-release", str(newest.pk))
    page.fill("#new-reason", "other arguments")
    page.click("form.body details summary")
    for field, value in (
        ("#f-canary", "5"),
        ("#f-wave", "10, 100"),
        ("#f-observe", f"{observe_min}"),
        ("#f-requests", "0"),
        ("#f-drain", "600"),
    ):
        page.fill(field, value)
    page.click("form.body button.primary")
    page.wait_for_url("**/rollouts/RO-*/")
    page.click("#rollout-acts button[value=submit]")
    page.wait_for_selector("#approval")
    who.bo_signs()
    # Her page says so by itself.
    page.locator("#rollout-acts button[value=start]").click(timeout=SEEN_MS)
    return Rollout.objects.get()


def carried_on(who: People, rollout: Any, is_there: Callable[[], bool]) -> Callable[[], bool]:
    """Ask and sign for each wave that waits until something is so; nobody clicks what is disabled."""

    def look() -> bool:
        rollout.refresh_from_db()
        if is_there():
            return True
        page = who.ana_at(f"/rollouts/{rollout.public_id}/")
        ask = page.locator("#wave-ask button.primary")
        if ask.count() and ask.is_enabled():
            page.fill("#ask-reason", "the one before is quiet")
            ask.click()
            page.wait_for_load_state()
        elif rollout.state == "paused" and not rollout.fired:
            # A unit was not seen for a while on a busy machine.
            page.fill("#resume-reason", "seen again")
            page.click("#rollout-acts button[value=resume]")
            page.wait_for_load_state()
        if rollout.approvals.filter(decision="", kind="wave").exists():
            who.bo_signs()
        return False

    return look


def state_comes(page: Any, what: str, state: str) -> None:
    """The open page says so by itself."""
    shows(page, f"#{what}-state[data-state={state}]")


@pytest.mark.parametrize("language", LANGUAGES)
def test_two_people_take_a_pool_to_another_release(whole_console, language):
    console, base = whole_console
    probe_all(console)
    pool = serving_pool(console)
    with people(base, language) as who, ledger_of(pool) as ledger:
        rollout = drafted(who, pool, observe_min=1)
        is_over = carried_on(who, rollout, lambda: rollout.state == "succeeded")
        console.until(is_over, "the rollout to succeed", PATIENCE_S)
        state_comes(who.ana_at(f"/rollouts/{rollout.public_id}/"), "rollout", "succeeded")
        assert who.ana.locator("#rollout-acts").count() == 0
    assert ledger.sent == ledger.answered + named_by_the_console(), ledger.lost
    new = rollout.new_release_id
    assert serving(pool) == {"dsv4-r1": new, "dsv4-r2": new}


def test_a_trigger_in_the_second_wave_halts_it_and_ana_rolls_back(whole_console):
    console, base = whole_console
    probe_all(console)
    pool = serving_pool(console)
    old = serving(pool)
    with people(base, "en") as who:
        rollout = drafted(who, pool, observe_min=3)
        observes = rollout.waves.filter(number=2, state="observing")
        console.until(
            carried_on(who, rollout, observes.exists), "the second wave to observe", PATIENCE_S
        )
        page = who.ana_at(f"/rollouts/{rollout.public_id}/")
        node = rollout.waves.get(number=2).replica.members.get(released_at=None).node.host.name
        console.lab.fault(node, "answer.wrong")
        state_comes(page, "rollout", "paused")
        assert "wrong answer" in page.locator("#rollout-triggers, main").first.inner_text()
        console.lab.clear(node)
        back = page.locator("#rollout-acts form[data-typed]")
        back.locator("textarea").fill("wrong answers")
        back.locator("input[name=confirm]").fill(rollout.public_id)
        with_password(back)
        back.locator("button[value=rollback]").click()
        page.wait_for_load_state()
        console.until(
            lambda: rollout.waves.exclude(state__in=["rolled_back", "retired"]).count() == 0,
            "every wave to be rolled back",
            PATIENCE_S,
        )
        state_comes(page, "rollout", "rolled_back")
    assert serving(pool) == old


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_hang_opens_its_incident_and_ana_runs_case_c_to_the_rebuilt_unit(whole_console, language):
    console, base = whole_console
    probe_all(console)
    launch = serving_unit(console)
    head = launch.plan["positions"][0]["node"]
    with people(base, language) as who:
        page = who.ana_at("/")
        console.lab.fault(head, "engine.freeze")
        link = page.locator("#inbox-incidents a.link")
        link.wait_for(timeout=SEEN_MS)  # the open overview shows it by itself
        link.click()
        page.click("#incident-head button[value=take]")
        page.locator("#incident-head a.primary[href^='/runs/']").click()
        page.locator("#start button").click()
        the_hardware_was_looked_at(page)
        confirm(page, "stop", typed=launch.replica.name)
        confirm(page, "cordon", node=head)
        confirm(page, "rebuild")
        confirm(page, "reweight")
        state_comes(page, "run", "succeeded")
        target = {"en": "RTO target 45:00", "zh-hans": "45:00"}[language]
        assert target in page.locator("#clock").inner_text()
        assert page.locator("#clock .t-ok").count() == 1, "the target is met"
    launch.replica.refresh_from_db()
    assert launch.replica.shown_state == "serving"
    assert launch.replica.members.filter(released_at=None, node__host__name=head).count() == 0


def the_hardware_was_looked_at(page: Any) -> None:
    """A kernel log that says nothing is unknown: a person looks."""
    done = page.locator("#step-hardware[data-state=passed]")
    words = page.locator("#words-hardware")
    done.or_(words).first.wait_for(timeout=SEEN_MS)
    if words.count():
        words.fill("read both kernel logs by hand")
        page.click("#card-hardware button[value=passed]")


def confirm(page: Any, step: str, typed: str = "", node: str = "") -> None:
    """Confirm a step once its card stands on the open page."""
    card = page.locator(f"#card-{step}")
    shows(page, f"#card-{step} button[value=confirm]")
    if typed:
        card.locator("input[name=typed]").fill(typed)
    if node and card.locator("[name=param-node]").count():
        card.locator("[name=param-node]").select_option(node)
    with_password(card)
    card.locator("button[value=confirm]").click()
    page.wait_for_load_state()


def with_password(form: Any) -> None:
    """Give the password where the form asks for it: the last one is too old."""
    field = form.locator("input[name=password]")
    if field.count():
        field.fill("flotilla")
