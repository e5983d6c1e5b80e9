"""Every page in every look: no error, no violation of the policy, nothing that scrolls sideways."""

import pytest

from tests.browser.conftest import LOOKS
from tests.browser.shots import PAGES

NAMES = [name for name in PAGES if name not in {"login", "raw"}]


@pytest.mark.parametrize(
    "look",
    [pytest.param(look, marks=pytest.mark.long if look == "light" else ()) for look in LOOKS],
)
def test_pages_are_clean_in_every_look(open_page, look):
    page = open_page("/fleet/", look=look)
    wide = []
    for name in NAMES:
        page.goto(PAGES[name])
        overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        if page.evaluate(overflow) > 0:
            wide.append(name)
        assert page.locator("h1").count() == 1, name
    assert wide == []
    assert page.complaints == []


def test_hostile_node_output_stays_text(open_page):
    page = open_page("/nodes/gpu001/")
    page.click("#facts a.link >> nth=0")
    page.wait_for_load_state()
    shown = page.locator("pre").inner_text()
    assert "<script>alert(1)</script>" in shown
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    page.goto("/replicas/glm52-r4/gen/3/launch/")
    assert "<img src=x onerror=alert(1)> watchdog" in page.locator("#tail").inner_text()
    assert page.locator("#tail img").count() == 0
    assert page.complaints == []


def test_pages_read_and_forms_post_without_script(open_page):
    page = open_page("/fleet/table/?q=rack:R02", java_script_enabled=False)
    assert page.locator("tbody tr").count() == 4
    page.check("input[value=gpu005]")
    page.click("text=Probe the chosen nodes")
    page.wait_for_load_state()
    assert "Probing 1 node." in page.content()
    page.goto("/fleet/?color=hbm")
    assert page.locator("#mapp.by-hbm").count() == 1
    page.click(".statusbar button[value=zh-hans]")
    page.wait_for_load_state()
    assert page.locator("html").get_attribute("lang") == "zh-hans"
    page.click(".statusbar button[value=en]")


def test_the_theme_changes_at_once_and_is_kept(open_page):
    page = open_page("/fleet/")
    page.click(".nav .menu > summary")
    with page.expect_response("**/theme/") as answer:
        page.click(".nav .menu button[value=light]")
    assert answer.value.status in {0, 302}
    assert page.locator("html").get_attribute("data-theme") == "light"
    page.goto("/audit/")
    assert page.locator("html").get_attribute("data-theme") == "light"


def test_an_audit_row_opens_its_before_and_after_in_place(open_page):
    page = open_page("/audit/?q=node.move")
    row = page.locator(".aentry").first
    row.locator("summary").click()
    assert "acceptance" in row.locator(".ba").inner_text()
    assert "seal" in row.inner_text()


def test_an_unknown_address_is_answered_in_the_shell_with_a_way_back(open_page):
    page = open_page("/nodes/nobody/")
    assert "No node is called nobody." in page.locator("main").inner_text()
    assert page.locator("main a[href='/fleet/']").count() == 1


def test_a_wrong_name_and_a_wrong_password_get_the_same_words(chromium, served):
    def answer(name: str) -> str:
        page = chromium.new_page()
        page.goto(f"{served}/login/")
        page.fill("[name=username]", name)
        page.fill("[name=password]", "not this one")
        page.press("[name=password]", "Enter")
        page.wait_for_selector("[role=alert]")
        words = page.locator("[role=alert]").inner_text()
        page.close()
        return words

    assert answer("bo") == answer("nobody-at-all")
