"""From an incident to a run and its confirmed step by clicks: it goes on under the open page, in both languages."""

import pytest

from tests.waiting import wait_until

HANG = """
import django
django.setup()
from tests.browser.scene_runbooks import hang
incident = hang({unit!r}, None, minutes=3)
print(incident, incident.runs.get())
"""
TICK = """
import django
django.setup()
from django.utils import timezone
from fleet.execution.models import Command
from runbooks.services.run_tick import runs_advance
for _ in range(8):
    runs_advance()
    asked = Command.objects.filter(purpose__startswith="run:", settled_at=None)
    asked.update(state="failed", settled_at=timezone.now())  # no machine is behind the scene
"""
PATIENCE_S = 120  # of a machine on which many tests run at once
WORDS = {
    "en": ("Case C: NCCL hang, replace the whole unit", "What it did stays done"),
    "zh-hans": ("案例 C：NCCL hang，整组重建", "已完成的保持不变"),
}


@pytest.mark.parametrize(
    ("language", "unit"),
    [
        ("en", "glm51-r5"),
        pytest.param("zh-hans", "glm51-r6", marks=pytest.mark.long),
    ],
)
def test_an_incident_is_taken_and_its_run_driven_to_the_stop(
    open_page, served, console_python, language, unit
):
    incident, run = console_python(HANG.format(unit=unit)).split()
    page = open_page("/")
    page.context.add_cookies([{"name": "django_language", "value": language, "url": served}])
    page.goto(f"/incidents/{incident}/")
    page.click("#incident-head button[value=take]")
    page.wait_for_load_state()
    assert page.locator("#incident-state").get_attribute("data-state") == "acknowledged"
    page.click(f".phead a.primary[href='/runs/{run}/']")
    page.wait_for_url(f"**/runs/{run}/")
    title, aborts = WORDS[language]
    assert title in page.locator("h1").inner_text()
    assert aborts in page.locator("#people").text_content()
    page.click("#start button")
    page.wait_for_load_state()
    goes_on_by_itself(page, console_python)
    record_what_was_seen(page)
    console_python(TICK)
    confirm_the_stop(page, unit)
    console_python(TICK)
    wait_for_step(page, "stop", "passed")
    assert page.complaints == []


def state_of(page, step: str) -> str:
    return page.locator(f"#step-{step}").get_attribute("data-state")


def wait_for_step(page, step: str, state: str) -> None:
    wait_until(lambda: state_of(page, step) == state, PATIENCE_S, f"{step} {state}")


def goes_on_by_itself(page, console_python) -> None:
    wait_until(lambda: page.locator("[data-socket=live]").is_visible(), what="the socket")
    page.mouse.move(5, 5)
    page.evaluate("window.kept = 'yes'")
    console_python(TICK)
    wait_for_step(page, "freeze", "passed")
    assert page.evaluate("window.kept") == "yes", "without a reload"


def record_what_was_seen(page) -> None:
    """No node answers here: the kernel logs are unknown, and nothing destructive begins before a person looked."""
    assert state_of(page, "stop") == "pending"
    page.fill("#words-hardware", "read both kernel logs by hand")
    page.click("#card-hardware button[value=passed]")
    page.wait_for_load_state()
    assert "read both kernel logs by hand" in page.locator("#step-hardware").inner_text()


def confirm_the_stop(page, unit: str) -> None:
    wait_for_step(page, "stop", "awaiting_confirm")
    page.fill("#typed-stop", unit)
    page.click("#card-stop button[value=confirm]")
    page.wait_for_load_state()
    assert state_of(page, "stop") == "running"
