"""A profile is taken from a node by click, put in force by another person, and a node that drifts is listed at once."""

import pytest

from tests.waiting import wait_until

DRIFT = (
    "Fact.objects.filter(node__host__name='{node}', key='driver_version').update(value='{value}')"
)


@pytest.mark.parametrize("look", ["dark", pytest.param("phone", marks=pytest.mark.long)])
def test_a_drifted_node_is_listed_after_two_people_made_a_profile(open_page, change, look):
    ana = open_page("/golden/", look=look)
    ana.fill("#gold-node", "gpu002")
    ana.fill("#gold-why", "accepted after the burn-in")
    ana.click("#take button")
    ana.wait_for_url("**/golden/GP-*/")
    address = ana.url
    name = address.rstrip("/").rpartition("/")[2]
    assert ana.locator("#golden-state").get_attribute("data-state") == "kept"
    assert ana.locator("#forms button").is_disabled()

    bo = open_page(address, look=look, person="bo")
    bo.fill("#current-why", "read it with Ana")
    bo.click("#forms button")
    wait_until(
        lambda: bo.locator("#golden-state").get_attribute("data-state") == "current",
        what="the profile in force",
    )

    ana.goto(f"{address.partition('/golden/')[0]}/golden/")
    rows = ana.locator(f"#drift-{name}")
    assert "gpu033" in rows.inner_text()
    assert "28.39.1002" in rows.inner_text()
    wait_until(lambda: ana.locator("[data-socket=live]").count() > 0, what="the socket")
    ana.mouse.move(5, 5)
    ana.evaluate("document.activeElement.blur(); window.kept = 'yes'")
    change(DRIFT.format(node="gpu005", value="565.57.01"), "fleet")
    wait_until(lambda: "565.57.01" in rows.inner_text(), what="the drifted node")
    assert ana.evaluate("window.kept") == "yes"
    change(DRIFT.format(node="gpu005", value="570.172.08"), "fleet")
    wait_until(lambda: "565.57.01" not in rows.inner_text(), what="the node that is gold again")

    bo.goto(f"{address.partition('/golden/')[0]}/nodes/gpu028/#gold")
    assert "NV18" in bo.locator("#gold").inner_text()
    assert bo.locator("#topology td.off").count() > 0
    wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert (ana.evaluate(wide), bo.evaluate(wide)) == (0, 0)
    assert ana.complaints == bo.complaints == []


def test_profiles_are_made_and_read_without_script(open_page):
    page = open_page("/golden/", java_script_enabled=False)
    page.fill("#gold-node", "gpu003")
    page.fill("#gold-why", "the second of its rack")
    page.click("#take button")
    page.wait_for_url("**/golden/GP-*/")
    page.click("a:has-text('Edit into version')")
    page.select_option("select[name='tolerance:kernel']", "ignore")
    page.fill("#gold-why", "kernels may differ")
    page.click("button:has-text('Save version')")
    page.wait_for_url("**/golden/GP-*/")
    assert "kernels may differ" in page.inner_text("main")
    page.click("button:has-text('Compare versions')")
    assert "ignored" in page.locator("#changes").inner_text()
