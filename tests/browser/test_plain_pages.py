"""The writes and filters of the fleet's pages without script; what a phone shows instead of wide tables; the keys."""

import re

import pytest

INSIDE = """() => [...document.querySelectorAll("main .scroll-x")]
    .filter((box) => box.scrollWidth > box.clientWidth + 1)
    .map((box) => box.closest("section")?.id || box.id)"""
SMALL = """() => [...document.querySelectorAll("main :is(button, select, input:not([type=hidden]), summary)")]
    .filter((one) => one.type !== "checkbox")
    .filter((one) => one.offsetParent && (one.closest(".field") || one).getBoundingClientRect().height < 44)
    .map((one) => one.outerHTML.slice(0, 90))"""


@pytest.fixture
def plain(open_page):
    """A page without script; a form is sent by its button and answered by the next page."""

    def send(page, button):
        with page.expect_navigation():
            page.click(button)

    def open_plain(path, person="ana"):
        page = open_page(path, person=person, java_script_enabled=False)
        page.send = lambda button: send(page, button)
        return page

    return open_plain


def test_a_hold_is_added_and_lifted(plain):
    page = plain("/nodes/gpu040/")
    page.click("#holds summary:has-text('Add a hold')")
    page.fill("#hold-reason", "its fan is looked at")
    page.send("#holds button:has-text('Hold gpu040')")
    assert "its fan is looked at" in page.inner_text("#holds")
    page.click("#holds summary:has-text('Lift this hold')")
    page.fill("#holds [id^=lift-]", "the fan is well")
    page.send("#holds button:has-text('of gpu040')")
    assert "its fan is looked at" not in page.inner_text("#holds")


def test_a_row_of_the_network_matrix_is_written_and_a_layer_is_chosen(plain):
    page = plain("/network/matrix/")
    for field, value in (("hcas", "mlx5_0 mlx5_1"), ("if", "bond0"), ("mtu", "9000")):
        page.fill(f"#m-{field}", value)
    page.fill("#m-note", "read on the switch of leaf 2")
    page.send("#write button")
    assert "read on the switch of leaf 2" in page.inner_text("main")
    page.goto("/network/NET-0001/")
    page.send("#network-strip a:has-text('ib_write_bw')")
    assert page.url.endswith("?layer=rails")
    assert "ib_write_bw" in page.inner_text("#matrix h2")
    page.goto("/network/NET-0001/")
    page.send("#pairs a:has-text('Failed')")
    assert page.locator("#pairs tbody tr").count() == 12


def test_an_image_is_pulled_and_stopped_and_weights_are_made_known(plain):
    page = plain("/weights/")
    page.fill("#w-model", "plain-fp8")
    page.fill("#w-revision", "e" * 40)
    page.click("summary:has-text('Paste index')")
    page.fill("#w-sums", f"{'a' * 64}  model-a.safetensors\n10 model-a.safetensors\n")
    page.send("button:has-text('Make it known')")
    assert page.locator("#artefact-state").get_attribute("data-state") == "ready"
    page.goto("/weights/")
    page.fill("#p-ref", f"registry.internal/plain@sha256:{'b' * 64}")
    page.fill("#p-nodes", "gpu039")
    page.send("button:has-text('Pull image')")
    assert "gpu039" in page.inner_text("#image-live")
    assert page.locator("#in-gpu039 button").count() >= 1


def test_an_inventory_is_read_and_discarded(plain):
    page = plain("/nodes/import/", person="dana")
    page.fill(
        "#import-text",
        "nodes:\n- {name: plain-1, address: 127.67.1.1, user: fleet, leaf: 7, rack: R67}",
    )
    page.uncheck("[name=whole]")
    page.send("#read button")
    assert page.locator("#import-state").get_attribute("data-state") == "dry"
    page.send("#import-apply button[value=discard]")
    assert page.url.endswith("/nodes/import/")


CARDS = {
    "/fleet/table/": [],
    "/golden/": [],
    "/golden/GP-0001/": ["drift-matrix"],
    "/golden/GP-0002/?with=GP-0001": ["drift-matrix"],
    "/golden/GP-0001/edit/": [],
    "/network/NET-0001/": [],
    "/weights/": [],
    "/nodes/gpu028/": ["gpus", "topology", "ports"],
}


@pytest.mark.parametrize("path", CARDS)
def test_a_table_on_a_phone_is_cards_and_only_pictures_and_readings_scroll(open_page, path):
    page = open_page(path, look="phone")
    assert set(page.evaluate(INSIDE)) <= set(CARDS[path])
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert page.evaluate(SMALL) == []


def test_a_row_of_the_map_on_a_phone_is_one_target_of_a_finger(open_page):
    page = open_page("/fleet/", look="phone")
    row = page.locator("#n-gpu010")
    assert row.bounding_box()["height"] >= 44
    row.locator(".gstrip").scroll_into_view_if_needed()
    box = row.locator(".gstrip").bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_url(re.compile("/nodes/gpu010/$"))


def test_keys_lead_over_runs_rows_and_titles(open_page):
    page = open_page("/network/NET-0001/")
    page.keyboard.press("]")
    page.wait_for_url("**/network/NET-0002/")
    page.keyboard.press("[")
    page.wait_for_url("**/network/NET-0001/")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url("**/pairs/*/")
    page.keyboard.press("Control+k")
    page.keyboard.type("golden")
    page.keyboard.press("Enter")
    page.wait_for_url("**/golden/")
    page.keyboard.press("Control+k")
    page.keyboard.type("facts")
    page.keyboard.press("Enter")
    page.wait_for_url("**/fleet/facts/")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.name") == "nodes"
