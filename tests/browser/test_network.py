"""A network run by click: it is started from the form, and its pairs fill in without a reload."""

from tests.waiting import wait_until

CLEAR = (
    "from django.utils import timezone; "
    "NetRun.objects.filter(ended_at=None).update(state='cancelled', ended_at=timezone.now()); "
    "NetSeat.objects.filter(released_at=None).update(released_at=timezone.now())"
)
PAIR = "NetPair.objects.filter(run=NetRun.objects.latest('pk')).update(step='done', verdict='{verdict}', ratio={ratio}, busbw_gbs=341.0)"  # noqa: E501


def test_a_run_is_started_and_its_matrix_fills_without_a_reload(open_page, change):
    change(CLEAR, "network")
    page = open_page("/network/")
    page.fill("#net-nodes", "gpu[007-008]")
    page.uncheck("input[value=together]")
    page.click("text=Test the network")
    page.wait_for_url("**/network/NET-*/")
    name = page.url.rstrip("/").rpartition("/")[2]
    wait_until(lambda: page.locator("[data-socket=live]").is_visible(), what="the socket")
    page.mouse.move(5, 5)
    page.evaluate("window.kept = 'yes'")
    assert page.locator(".netmatrix .cell.wait").count() == 2
    change(PAIR.format(verdict="fail", ratio=0.55), f"network-{name}")
    wait_until(lambda: page.locator(".netmatrix .cell.crit").count() == 2, what="the slow pair")
    assert "55.0" in page.locator("#pairs").inner_text()
    assert page.evaluate("window.kept") == "yes"
    page.click("#pairs a.link >> nth=0")
    page.wait_for_url("**/pairs/*/")
    assert "55.0 % of the golden pair" in page.locator("#pair-head").inner_text()
    assert page.complaints == []
