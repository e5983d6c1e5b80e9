"""What a new user does first, in a real browser over a real console: probe, launch, follow, break, stop."""

import pytest

from fleet.lab import containers
from fleet.models import Replica
from tests.browser.web import open_browser, sign_in
from tests.browser.whole import needs_chromium, real_passwords, shows, speak, whole_console
from tests.flows.conftest import bare_console, time_scale
from tests.waiting import wait_until

__all__ = ["bare_console", "real_passwords", "time_scale", "whole_console"]

pytestmark = [
    pytest.mark.browser,
    pytest.mark.lab,
    pytest.mark.django_db(transaction=True),
    needs_chromium,
]

UNIT = "glm52-r1"
READY_MS = 240_000
# Number of the newest line of the first node that the page shows.
NEWEST_LINE = "Math.max(...Array.from(document.querySelectorAll('.ln[id^=L0]'), e => +e.dataset.n))"


@pytest.mark.parametrize("language", ["en", pytest.param("zh-hans", marks=pytest.mark.long)])
def test_probe_launch_follow_break_and_stop_by_clicks(whole_console, language):
    console, base = whole_console
    with open_browser() as browser:
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        troubles: list[str] = []
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("console", lambda m: troubles.append(m.text) if m.type == "error" else None)
        sign_in(page, base, "ana")
        speak(page, language)
        probe_all(page, base)
        launch(page, base)
        follow(page, base)
        kill_a_rank(console, page, base)
        launch(page, base)
        stop(console, page, base)
        assert troubles == []


def probe_all(page, base: str) -> None:
    """The map fills in place: no reload, the doorbell brings the new rows."""
    page.goto(f"{base}/fleet/")
    # Leaving before the answer would call the request off.
    with page.expect_response(lambda answer: answer.url.endswith("/probes/")):
        page.click('form[action="/probes/"] button')
    page.wait_for_load_state()
    page.goto(f"{base}/nodes/h100-001/")
    page.get_by_text("NV18").first.wait_for(timeout=READY_MS)


def launch(page, base: str) -> None:
    page.goto(f"{base}/replicas/{UNIT}/launch/")
    assert page.get_by_text("--node-rank").count(), "the exact command of each node is shown"
    wait_until_enabled(page)
    page.click("button.primary")
    shows(page, ".phead .st.ok, .phead .chip.ok")


def wait_until_enabled(page) -> None:
    """A unit that was just taken down may be launched again only when that is proved."""

    def is_enabled() -> bool:
        page.reload()
        return page.locator("button.primary").is_enabled()

    wait_until(is_enabled, 180, "the launch button")


def follow(page, base: str) -> None:
    """The log page shows every rank's lines and goes on by itself."""
    page.goto(f"{base}/replicas/{UNIT}/gen/1/log/")
    page.get_by_text("Application startup complete").first.wait_for(timeout=READY_MS)
    newest = page.evaluate(NEWEST_LINE)
    page.wait_for_function(f"before => ({NEWEST_LINE}) > before", arg=newest, timeout=READY_MS)


def kill_a_rank(console, page, base: str) -> None:
    page.goto(f"{base}/replicas/{UNIT}/gen/1/launch/")
    console.lab.fault("h100-002", "rank.kill", gpu=3)
    shows(page, ".phead .st.crit, .phead .chip.crit")
    console.lab.clear("h100-002")
    wait_until(lambda: not running_engines(console), 180, "every rank to be gone")
    # A page drawn before that would be asked whether it is meant for the unit as it is now.
    failed = Replica.objects.filter(name=UNIT, state="failed")
    wait_until(failed.exists, 180, "the unit to be told as failed")


def stop(console, page, base: str) -> None:
    """Ending a unit needs its name and a reason; nothing else ends it."""
    page.goto(f"{base}/replicas/{UNIT}/gen/2/launch/")
    page.fill("#end-reason", "end of the shift")
    page.fill("#end-confirm", UNIT)
    page.click(f'form[data-typed="{UNIT}"] button')
    wait_until(lambda: not running_engines(console), 180, "every rank to be gone")


def running_engines(console) -> int:
    return sum(len(containers.running(host.directory)) for host in console.lab.hosts())
