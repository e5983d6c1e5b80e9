"""A whole evening without a mouse over a real console: sign in, probe, launch, follow, filter, stop."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.browser.test_flow import (
    READY_MS,
    UNIT,
    bare_console,
    pytestmark,
    real_passwords,
    running_engines,
    shows,
    time_scale,
    whole_console,
)
from tests.browser.web import open_browser
from tests.waiting import wait_until

__all__ = ["bare_console", "pytestmark", "real_passwords", "time_scale", "whole_console"]

MOST_TABS = 120
# What has the focus: whether it is what is sought, whether a ring shows it, and whether it is in sight.
_FOCUSED = """selector => {
    const element = document.activeElement, box = element.getBoundingClientRect();
    const hasRing = (one) => one && getComputedStyle(one).outlineStyle !== "none";
    return {
        found: element.matches(selector),
        nowhere: element === document.body,
        ring: [element, element.parentElement, element.closest("label")].some(hasRing),
        seen: box.width > 0 && box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth,
        what: element.outerHTML.slice(0, 160),
    };
}"""


@pytest.fixture
def page(whole_console: Any) -> Any:
    with open_browser() as browser:
        one = browser.new_page(base_url=whole_console[1], viewport={"width": 1440, "height": 900})
        one.set_default_timeout(READY_MS)
        yield one


@pytest.mark.long  # the same by clicks is tests/browser/test_flow.py
def test_probe_launch_follow_filter_and_stop_by_keyboard(whole_console: Any, page: Any) -> None:
    console, _base = whole_console
    troubles: list[str] = []
    page.on("pageerror", lambda error: troubles.append(str(error)))
    sign_in(page)
    probe_all(page)
    launch(page)
    read_log(page)
    stop(page)
    wait_until(lambda: not running_engines(console), 180, "every rank to be gone")
    assert troubles == []


def tab_to(page: Any, selector: str) -> None:
    """Press Tab until the focus is there; on the way everything that takes it shows a ring and is in sight."""
    for _ in range(MOST_TABS):
        page.keyboard.press("Tab")
        focus = page.evaluate(_FOCUSED, selector)
        if not focus["nowhere"]:
            assert focus["ring"], f"no focus ring: {focus['what']}"
            assert focus["seen"], f"out of sight: {focus['what']}"
        if focus["found"]:
            return
    raise AssertionError(f"{MOST_TABS} Tabs did not reach {selector} on {page.url}")


def go(page: Any, letter: str, address: str) -> None:
    page.keyboard.press("g")
    page.keyboard.press(letter)
    page.wait_for_url(re.compile(re.escape(address)))


def sign_in(page: Any) -> None:
    page.goto("/login/")
    page.keyboard.type("ana")
    page.keyboard.press("Tab")
    page.keyboard.type("flotilla")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r":\d+/$"))
    go(page, "f", "/fleet/")


def probe_all(page: Any) -> None:
    tab_to(page, 'form[action="/probes/"] button')
    with (
        page.expect_navigation()
    ):  # what is typed before the next page is there is lost with this one
        page.keyboard.press("Enter")
    page.keyboard.press("Control+k")
    page.keyboard.type("h100-001")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("/nodes/h100-001/"))
    page.get_by_text("NV18").first.wait_for(timeout=READY_MS)


def launch(page: Any) -> None:
    """From the list of units: filter, move to the row, open it, read the plan, confirm."""
    go(page, "u", "/replicas/")
    page.keyboard.press("/")
    page.keyboard.type(UNIT)
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(f"q={UNIT}"))
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(f"/replicas/{UNIT}/$"))
    tab_to(page, f'.acts a[href="/replicas/{UNIT}/launch/"]')
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("/launch/$"))
    wait_until(lambda: page.reload() and page.locator("button.primary").is_enabled(), 180, "a plan")
    tab_to(page, "button.primary")
    page.keyboard.press("Enter")
    shows(page, ".phead .st.ok, .phead .chip.ok")


def read_log(page: Any) -> None:
    """Open the log, hold it at its start, follow again, and narrow it to one part."""
    tab_to(page, f'.acts a[href="/replicas/{UNIT}/gen/1/log/"]')
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("/gen/1/log/"))
    page.get_by_text("Application startup complete").first.wait_for(timeout=READY_MS)
    tab_to(page, "#log")
    page.keyboard.press("Home")
    wait_until(lambda: page.inner_text("#log-said").startswith("Held"), what="the hold")
    page.keyboard.press("f")
    wait_until(lambda: page.inner_text("#log-said").startswith("Following"), what="following")
    page.keyboard.press("/")
    page.keyboard.type("NCCL")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("q=NCCL"))
    assert page.locator(".ln[data-s]").count()
    assert page.locator(".ln[data-s]:not(:has-text('NCCL'))").count() == 0


def stop(page: Any) -> None:
    """Ending a unit needs its name and a reason, typed."""
    page.keyboard.press("Control+k")
    page.keyboard.type(UNIT)
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(f"/replicas/{UNIT}/$"))
    tab_to(page, "#end-reason")
    page.keyboard.type("end of the shift")
    tab_to(page, "#end-confirm")
    page.keyboard.type(UNIT)
    tab_to(page, f'form[data-typed="{UNIT}"] button')
    with page.expect_navigation():
        page.keyboard.press("Enter")
