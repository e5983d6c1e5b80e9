"""A distribution by click: the tree moves without a reload, a bad shard is healed, and it is stopped with a reason."""

from tests.waiting import wait_until

PAGE = "/distributions/DIST-0001/"
READY = "Holding.objects.filter(node__host__name='gpu010').update(state='ready', needs=[])"


def state_of(page, node: str) -> str:
    return page.locator(f"#ts-{node}").get_attribute("data-state")


def test_the_tree_moves_and_a_bad_shard_is_healed_by_a_click(open_page, change):
    page = open_page(PAGE)
    wait_until(lambda: page.locator("[data-socket=live]").is_visible(), what="the socket")
    assert state_of(page, "gpu010") == "copying"
    assert "5 of 11 nodes verified" in page.locator("#dist-counts").inner_text()
    page.evaluate("window.kept = 'yes'")
    page.mouse.move(5, 5)
    change(READY, "weights-WA-0001")
    wait_until(lambda: state_of(page, "gpu010") == "ready", what="the node to turn ready")
    assert page.evaluate("window.kept") == "yes"
    page.click("#bad-gpu017 button")
    wait_until(lambda: state_of(page, "gpu017") == "wanted", what="the heal to be asked for")
    page.fill("#stop-reason", "the wrong revision")
    page.click("#stop button")
    wait_until(
        lambda: page.locator("#dist-state").get_attribute("data-state") == "cancelled",
        what="the distribution to be stopped",
    )
    assert "the wrong revision" in page.locator("#dist-why").inner_text()
    assert page.complaints == []
