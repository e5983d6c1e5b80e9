"""Live behaviour: what changed is put in place, nothing that is in use moves, and the page says how fresh it is."""

import pytest

from tests.waiting import wait_until

TICKED = (
    "from datetime import timedelta; from django.utils import timezone; "
    "Tick.objects.update(at=timezone.now() + timedelta(seconds={}))"
)
SUSPECT = "Host.objects.filter(name='{}').update(reach='suspect')"
WELL = "Host.objects.filter(name='{}').update(reach='ok')"
# Another test of the same run may have signed the card of the scene.
UNSIGNED = (
    "asked = Approval.objects.filter(rollout__pool__slug='dsv4', wave__number=3); "
    "Signature.objects.filter(approval__in=asked).delete(); "
    "Wave.objects.filter(approvals__in=asked).update(state='awaiting_approval'); "
    "asked.update(decision='', decided_by=None, decided_at=None)"
)


def is_live(page) -> bool:
    return page.locator("[data-socket=live]").is_visible()


def tone_of(page, name: str) -> str:
    return page.locator(f"#s-{name}").get_attribute("data-state")


def test_a_changed_state_flashes_its_cell_and_leaves_the_others(open_page, change):
    page = open_page("/fleet/")
    page.mouse.move(5, 5)
    wait_until(lambda: is_live(page), what="the socket")
    page.evaluate("document.getElementById('n-gpu006').dataset.kept = 'yes'")
    change(SUSPECT.format("gpu005"), "fleet")
    wait_until(lambda: tone_of(page, "gpu005") == "suspect", what="the new state")
    assert "flash" in page.locator("#s-gpu005").get_attribute("class")
    assert page.locator("#n-gpu006").get_attribute("data-kept") == "yes"
    assert "gpu005" in page.locator("#said").inner_text()
    change(WELL.format("gpu005"), "fleet")
    wait_until(lambda: tone_of(page, "gpu005") == "none", what="the old state")
    assert page.complaints == []


def test_nothing_moves_under_the_pointer_and_it_comes_when_the_pointer_leaves(open_page, change):
    page = open_page("/fleet/")
    page.hover("#n-gpu010")
    wait_until(lambda: is_live(page), what="the socket")
    change(SUSPECT.format("gpu010"), "fleet")
    wait_until(lambda: page.locator("[data-waits]").is_visible(), what="the note that it waits")
    assert tone_of(page, "gpu010") == "none"
    page.mouse.move(5, 5)
    wait_until(lambda: tone_of(page, "gpu010") == "suspect", what="the held change")
    assert not page.locator("[data-waits]").is_visible()
    change(WELL.format("gpu010"), "fleet")


def test_text_that_nobody_sent_survives_a_refetch_of_its_own_part(open_page, change):
    change(UNSIGNED, "inbox")
    page = open_page("/inbox/", person="bo")
    wait_until(lambda: is_live(page), what="the socket")
    page.get_by_label("Note, kept in the audit log").first.fill("half a sentence")
    page.evaluate("document.activeElement.blur()")
    page.mouse.move(5, 5)
    change("Approval.objects.update(ask_reason='asked in other words')", "inbox")
    wait_until(page.locator("[data-waits]").is_visible, what="the newer card, held back")
    assert page.get_by_label("Note, kept in the audit log").first.input_value() == "half a sentence"


def test_typed_text_survives_a_refetch(open_page, change):
    page = open_page("/nodes/gpu003/")
    wait_until(lambda: is_live(page), what="the socket")
    page.click("#holds details.form > summary")
    page.fill("#hold-reason", "half a sentence")
    page.mouse.move(5, 5)
    change("Node.objects.filter(host__name='gpu003').update(explanation='moved on')", "node-gpu003")
    wait_until(lambda: "moved on" in page.locator("#node-head").inner_text(), what="the new head")
    assert page.input_value("#hold-reason") == "half a sentence"


def test_it_says_reconnecting_then_polls_and_stays_true(open_page, change):
    page = open_page("/audit/")
    page.route_web_socket("**/ws/page/**", lambda socket: socket.close())
    page.goto("/fleet/")
    page.mouse.move(5, 5)
    wait_until(lambda: page.locator("[data-socket=reconnecting]").is_visible(), what="Reconnecting")
    change(SUSPECT.format("gpu012"), "nobody-listens")
    wait_until(lambda: page.locator("[data-socket=polling]").is_visible(), 30, "Polling")
    wait_until(lambda: tone_of(page, "gpu012") == "suspect", 30, "the polled change")
    change(WELL.format("gpu012"), "fleet")


def test_ages_tick_by_themselves(open_page):
    page = open_page("/nodes/gpu002/")
    age = page.locator("#gpus [data-age]")
    before = age.inner_text()
    wait_until(lambda: age.inner_text() != before, 70, "the age to grow")


def test_colours_change_in_place_without_a_request(open_page):
    page = open_page("/fleet/")
    page.wait_for_load_state("networkidle")
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.click("[data-colour=clock]")
    assert page.locator("#mapp.by-clock").count() == 1
    assert page.locator(".leg-clock").is_visible()
    assert [url for url in asked if "/static/" not in url] == []
    assert "color=clock" in page.url


def test_an_ended_session_is_said_and_typed_text_stays(open_page, change):
    page = open_page("/nodes/gpu004/", person="bo")
    wait_until(lambda: is_live(page), what="the socket")
    page.click("#holds details.form > summary")
    page.fill("#hold-reason", "half a sentence")
    page.context.clear_cookies()
    change("pass", "node-gpu004")
    wait_until(
        lambda: page.locator("[data-socket=out]").is_visible(), what="the word that it is over"
    )
    assert page.input_value("#hold-reason") == "half a sentence"
    assert "next=/nodes/gpu004/" in page.locator("[data-socket=out]").get_attribute("href")


RESOLVE = "from runbooks.models import Incident; Incident.objects.filter(pk=2).update(state='{}')"


def test_the_counts_of_the_navigation_follow_on_any_page(open_page, change):
    page = open_page("/audit/")
    page.mouse.move(5, 5)
    wait_until(lambda: is_live(page), what="the socket")
    sign = page.locator(".nav [data-nav-count=incidents]")
    before = int(sign.inner_text())
    change(RESOLVE.format("resolved"), "inbox")
    wait_until(lambda: sign.text_content() == str(before - 1), what="one less")
    change(RESOLVE.format("open"), "inbox")
    wait_until(lambda: sign.text_content() == str(before), what="as before")
    assert page.complaints == []


@pytest.mark.parametrize("is_cut", [False, True], ids=["heartbeat", "poll"])
def test_a_frozen_console_says_so_by_itself_and_takes_it_back(open_page, change, is_cut):
    page = open_page("/audit/")
    if is_cut:
        page.route_web_socket("**/ws/page/**", lambda socket: socket.close())
        page.goto("/gates/")
    else:
        wait_until(lambda: is_live(page), what="the socket")
    warning = page.locator("#frozen")
    assert not warning.is_visible()
    change(TICKED.format(-75), "nobody-listens")
    try:
        wait_until(lambda: "Frozen for" in warning.inner_text(), 60, "the warning")
        assert ":" in warning.locator("[data-running]").inner_text()
    finally:
        change(TICKED.format(3600), "nobody-listens")
    wait_until(lambda: not warning.is_visible(), 60, "the warning to go away")
