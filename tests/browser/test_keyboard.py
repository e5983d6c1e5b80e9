import re

import pytest


@pytest.fixture
def fleet(open_page):
    return open_page("/fleet/")


def test_slash_goes_to_the_filter_and_escape_leaves_it(open_page):
    page = open_page("/fleet/table/")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.name") == "q"
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.name") != "q"


def test_a_question_mark_lists_the_keys(fleet):
    fleet.keyboard.press("?")
    assert fleet.locator("#keys").is_visible()
    fleet.keyboard.press("Escape")
    assert not fleet.locator("#keys").is_visible()


LETTERS = {
    "h": "/",
    "r": "/rollouts/",
    "u": "/replicas/",
    "i": "/incidents/",
    "a": "/audit/",
    "f": "/fleet/",
}


def test_the_list_of_keys_names_every_letter(fleet):
    fleet.keyboard.press("?")
    named = fleet.locator("#keys dt", has_text="G").locator("kbd:nth-of-type(2)").all_inner_texts()
    assert sorted(named) == sorted(letter.upper() for letter in LETTERS)


def test_g_then_a_letter_goes_to_a_page(fleet):
    for letter, address in LETTERS.items():
        fleet.keyboard.press("g")
        fleet.keyboard.press(letter)
        fleet.wait_for_url(re.compile(re.escape(address) + "$"))


def test_ctrl_k_jumps_to_a_node_a_unit_and_a_launch(fleet):
    for words, address in (
        ("gpu028", "/nodes/gpu028/"),
        ("glm52-r4", "/replicas/glm52-r4/"),
        ("ln-0003", "/replicas/glm52-r4/gen/3/launch/"),
        ("E1", "/evidence/1/"),
        ("nothing such", "/fleet/table/?q=nothing+such"),
    ):
        fleet.keyboard.press("Control+k")
        fleet.keyboard.type(words)
        fleet.keyboard.press("Enter")
        fleet.wait_for_url(re.compile(re.escape(address) + "$"))


def test_j_and_k_move_over_rows_and_enter_opens(open_page):
    page = open_page("/replicas/")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    assert page.evaluate("document.activeElement.id") == "u-glm51-r1"
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/replicas/glm51-r1/$"))


def test_arrows_move_over_the_cells_and_enter_opens_the_gpu(fleet):
    # Not the first cell of the map: other tests of this server add nodes without cards.
    fleet.focus("#mapp a.g[title^='gpu001 GPU 0']")
    for key in ("ArrowDown", "ArrowRight", "ArrowRight"):
        fleet.keyboard.press(key)
    assert "gpu002 GPU 2" in fleet.evaluate("document.activeElement.title")
    assert fleet.locator("#mapp a.g[tabindex='0']").count() == 1
    fleet.keyboard.press("Enter")
    fleet.wait_for_url(re.compile(r"/nodes/gpu002/\?gpu=2$"))
    assert fleet.locator("tr.sel#gpu-2").count() == 1


def test_brackets_go_to_the_next_and_previous_object(open_page):
    page = open_page("/nodes/gpu010/")
    page.keyboard.press("]")
    page.wait_for_url(re.compile("/nodes/gpu011/"))
    page.keyboard.press("[")
    page.wait_for_url(re.compile("/nodes/gpu010/"))


def test_no_single_key_posts_anything(fleet):
    posts = []
    fleet.on(
        "request", lambda request: posts.append(request.url) if request.method == "POST" else None
    )
    for key in "abcdefhijklmnopqstuvwxyz0123456789 ":
        fleet.keyboard.press(key)
    assert posts == []
