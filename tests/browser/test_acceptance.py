"""Accept all nodes of a lab by one click, in a real browser over a real console; one is rejected and says why."""

import pytest
from django.contrib.auth import get_user_model

from fleet.models import AcceptanceRun, Node
from fleet.services.acceptances import acceptance_start
from fleet.services.trail import Actor
from tests.browser.web import open_browser, sign_in
from tests.browser.whole import needs_chromium, real_passwords, whole_console
from tests.flows.conftest import bare_console, time_scale
from tests.flows.test_acceptance import make_gold
from tests.waiting import wait_until

__all__ = ["bare_console", "real_passwords", "time_scale", "whole_console"]

pytestmark = [
    pytest.mark.browser,
    pytest.mark.lab,
    pytest.mark.long,
    pytest.mark.django_db(transaction=True),
    needs_chromium,
]
LONG_MS = 240_000


def measure_gold() -> None:
    """Measure the first node and make its profile the gold of its class."""
    ana = get_user_model().objects.get(username="ana")
    first = Node.objects.get(host__name="h100-001")
    run = acceptance_start(nodes=[first], actor=Actor(name="ana"), user=ana)

    def is_over() -> bool:
        run.refresh_from_db()
        return run.ended_at is not None

    wait_until(is_over, timeout_s=180, what="the first node to be measured")
    make_gold("h100-001")


def test_accept_all_by_a_click_rejects_the_node_with_a_fault(whole_console):
    console, base = whole_console
    measure_gold()
    console.lab.fault("h100-002", "nic.down")
    with open_browser() as browser:
        page = browser.new_page(viewport={"width": 390, "height": 844})
        troubles: list[str] = []
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("console", lambda m: troubles.append(m.text) if m.type == "error" else None)
        sign_in(page, base, "ana")
        page.goto(f"{base}/acceptance/")
        page.click("#accept-all")
        page.wait_for_url("**/acceptance/AC-*/")
        # No reload: the doorbell brings each verdict.
        page.get_by_text("1 accepted, h100-002 rejected:").first.wait_for(timeout=LONG_MS)
        page.click('.accepts a[href="/nodes/h100-002/#acceptance"]')
        page.wait_for_url("**/nodes/h100-002/#acceptance")
        page.locator('#acceptance-verdict[data-state="rejected"]').wait_for()
        assert "mlx5_" in page.locator("#acceptance").inner_text()
        assert page.locator('#node-state[data-state="quarantined"]').count() == 1
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= 390, "nothing is wider than a phone"
        assert troubles == []
    assert AcceptanceRun.objects.count() == 2
