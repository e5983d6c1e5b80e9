"""What must be done on 48 nodes before anything is launched, by clicks over real SSH, in one sitting.

Dana imports, Ana probes, takes a profile and accepts, Bo puts the profile in force. One node has a real fault: it is
the one that is rejected, the page says why, and no unit is launched on it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fleet.execution.models import Command
from fleet.models import Hold, Node, Pool
from fleet.rules.message import said
from tests.browser.conftest import watch_page
from tests.browser.web import open_browser, sign_in
from tests.browser.whole import needs_chromium, real_passwords, shows, whole_console
from tests.flows.conftest import bare_console
from tests.flows.test_acceptance import not_passed
from tests.waiting import wait_until

__all__ = ["bare_console", "real_passwords", "whole_console"]

NODES, GOLD, BAD, CARD = 48, "h100-001", "h100-030", 5
DESK = {"viewport": {"width": 1440, "height": 900}, "reduced_motion": "reduce"}
PATIENCE_MS = 120_000
pytestmark = [
    pytest.mark.browser,
    pytest.mark.lab,
    pytest.mark.long,
    pytest.mark.django_db(transaction=True),
    pytest.mark.parametrize("lab", [NODES], indirect=True, ids=["48-nodes"]),
    needs_chromium,
]


@pytest.fixture
def time_scale() -> float:
    """The deadline of an acceptance is for 48 nodes on as many machines; here they share one."""
    return 1.0


@pytest.fixture
def desk_of(whole_console, tmp_path: Path) -> Iterator[Any]:
    """`desk_of("ana")`: her page, signed in; it complains about no script, policy or request in the end."""
    _console, base = whole_console
    desks: dict[str, Any] = {}
    with open_browser() as browser:

        def desk(name: str) -> Any:
            if name not in desks:
                page = browser.new_context(base_url=base, **DESK).new_page()
                page.set_default_timeout(PATIENCE_MS)
                page.complaints = watch_page(page, base)
                page.look = lambda what: page.screenshot(path=tmp_path / f"{what}.png")
                sign_in(page, base, name)
                desks[name] = page
            return desks[name]

        yield desk
        assert [word for page in desks.values() for word in page.complaints] == []


def a_change_is_imported(dana: Any, file: Path) -> None:
    """What the console exports comes back with one line changed: the dry run says so, and only that is written."""
    dana.goto("/nodes/import/")
    with dana.expect_download() as saved:
        dana.click("a[href$='/nodes/export/']")
    text = Path(saved.value.path()).read_text()
    file.write_text(text.replace("name: GLM-5.2", "name: GLM-5.2 night"))
    dana.set_input_files("#import-file", file)
    dana.check("[name=whole]")
    dana.click("#read button")
    dana.wait_for_url("**/nodes/import/*/")
    shown = dana.locator("#import-diff").inner_text()
    dana.look("import-dry")
    assert "1 changed" in dana.locator("#import-strip").inner_text()
    assert ("GLM-5.2 night" in shown, f"h100-[001-{NODES:03d}]" in shown) == (True, True)
    assert Pool.objects.get(slug="glm52").name == "GLM-5.2"
    dana.fill("#import-reason", "the night pool")
    dana.click("#import-apply button[value=apply]")
    dana.wait_for_selector("#import-state[data-state=applied]")
    assert Pool.objects.get(slug="glm52").name == "GLM-5.2 night"


def all_are_probed(ana: Any) -> None:
    """The open map fills by itself."""
    ana.goto("/fleet/")
    with ana.expect_response(lambda answer: answer.url.endswith("/probes/")):
        ana.click(f"text=Probe all {NODES} nodes")

    def is_ready() -> bool:
        return not Node.objects.exclude(state="ready", host__reach="ok").exists()

    wait_until(is_ready, timeout_s=PATIENCE_MS / 1000, what="all nodes to be ready")
    ana.look("probed")


def gold_is_taken(ana: Any, bo: Any) -> None:
    """A measured node's profile judges nobody before a second person says so."""
    ana.goto(f"/nodes/{GOLD}/")
    ana.click("#accept")
    ana.wait_for_url("**/acceptance/AC-*/")
    shows(ana, "#acceptance-result[data-state='1']")
    ana.goto(f"/golden/?node={GOLD}")
    ana.fill("#gold-why", "the first of its class")
    ana.click("#take button")
    ana.wait_for_url("**/golden/GP-*/")
    assert ana.locator("#forms button").is_disabled()
    bo.goto(ana.url)
    bo.fill("#current-why", "measured, and looked at")
    bo.click("#forms button.primary")
    shows(bo, "#golden-state[data-state=current]")
    bo.look("gold")


def all_are_accepted(ana: Any) -> Any:
    """Each verdict comes to the open page; the last line names the one node and its card."""
    ana.goto("/acceptance/")
    ana.click("#accept-all")
    ana.wait_for_url("**/acceptance/AC-*/")
    ana.look("accepting")
    shows(ana, f"#acceptance-result[data-state='{NODES}']")
    ana.look("accepted")
    told = ana.locator("#acceptance-result").inner_text()
    assert told.startswith(f"{NODES - 1} accepted, {BAD} rejected:"), told + left_over()
    assert f"uncorrected ECC on GPU {CARD}" in told
    return ana


def left_over() -> str:
    """What did not pass, for whoever reads a failure."""
    from fleet.models import NodeAcceptance

    rows = NodeAcceptance.objects.exclude(verdict="accepted").order_by("pk")
    return "\n".join(["", *(f"{row.node} {row.verdict} {not_passed(row)}" for row in rows)])


def test_48_nodes_are_imported_probed_compared_with_gold_and_accepted_but_one(
    whole_console, desk_of, tmp_path
):
    console, _base = whole_console
    ana, bo, dana = desk_of("ana"), desk_of("bo"), desk_of("dana")
    a_change_is_imported(dana, tmp_path / "fleet.yaml")
    all_are_probed(ana)
    gold_is_taken(ana, bo)
    console.lab.fault(BAD, "gpu.xid94", gpu=CARD)
    all_are_accepted(ana)

    ana.click(f'.accepts a[href="/nodes/{BAD}/#acceptance"]')
    shows(ana, '#acceptance-verdict[data-state="rejected"]')
    shows(ana, '#node-state[data-state="quarantined"]')
    ana.look("rejected")
    assert f"GPU {CARD}" in ana.locator("#acceptance").inner_text()
    bad = Node.objects.get(host__name=BAD)
    assert [hold.owner for hold in Hold.objects.filter(lifted_at=None)] == ["acceptance"]
    assert f"GPU {CARD}" in said(Hold.objects.get(node=bad).reason)

    unit = bad.memberships.get(released_at=None).replica
    ana.goto(f"/replicas/{unit.name}/launch/")
    reasons = ana.locator("ul.tests").first.inner_text()
    ana.look("refused")
    assert ("quarantined" in reasons, f"ECC on GPU {CARD}" in reasons) == (True, True), reasons
    assert ana.locator("form[action$='/launch/'] button.primary").is_disabled()
    assert console.lab.unknown() == []
    assert not Command.objects.filter(state="failed").exists()
