"""A release by clicks: drafted, held back by what is not pinned, fixed, sealed, and signed by a second person."""

import pytest

from tests.waiting import wait_until

FIRST = "/releases/REL-0001/"
TAG, DIGEST = "v0.33.0", f"sha256:{'ab12' * 16}"


def speak(page, served: str, language: str) -> None:
    page.context.add_cookies([{"name": "django_language", "value": language, "url": served}])


def draft(page, title: str) -> str:
    """Draft from the first release with a tag for a digest; return the address of its page."""
    page.goto(FIRST)
    page.click("#record details.form:first-of-type summary")
    page.fill("#draft-title", title)
    page.click("#record details.form[open] button")
    page.wait_for_url("**/edit/")
    page.fill("[name='image.digest']", TAG)
    page.click("form.draft button.primary")
    page.wait_for_url(lambda url: not url.endswith("/edit/"))
    return page.url


def pin(page, args: str) -> None:
    page.click(".acts a.btn")
    page.fill("[name='image.digest']", DIGEST)
    page.fill("[name=args]", args)
    page.click("form.draft button.primary")
    page.wait_for_selector("#problems:not(.crit)")


@pytest.mark.parametrize(
    ("language", "named", "waits"),
    [
        ("en", "image.digest: expected a digest", "0 of 1"),
        pytest.param("zh-hans", "image.digest：应为 摘要", "0 / 1", marks=pytest.mark.long),
    ],
)
def test_a_release_is_drafted_fixed_sealed_and_signed(open_page, served, language, named, waits):
    page = open_page("/releases/")
    speak(page, served, language)
    address = draft(page, f"next in {language}")

    assert named in page.locator("#problems").inner_text()
    assert TAG in page.locator("#problems").inner_text()
    assert page.locator("#next button").is_disabled()

    pin(page, f"--max-model-len 65536\n--max-num-seqs {20 + len(language)}")
    page.click("#next button")
    page.wait_for_selector("#release-state[data-state=sealed]")
    page.fill("#ask-reason", "shorter context")
    page.click("#next button")
    page.wait_for_selector("#release-state[data-state=in_review]")
    assert waits in page.locator("#review header").inner_text()
    assert page.locator("#review button.primary").is_disabled()

    other = open_page(address, person="bo")
    speak(other, served, language)
    other.reload()
    assert DIGEST in other.locator("#review").inner_text().replace("\n", "")
    other.click("#review button.primary")
    other.wait_for_selector("#release-state[data-state=reviewed]")
    assert "bo" in other.locator("#record").inner_text()
    assert page.complaints == other.complaints == []


def test_the_page_of_the_one_who_asked_shows_the_signature_without_a_reload(open_page):
    page = open_page("/releases/REL-0003/")
    wait_until(lambda: page.locator("[data-socket=live]").is_visible(), what="the socket")
    page.mouse.move(5, 5)
    page.evaluate("window.kept = 'yes'")
    other = open_page("/releases/REL-0003/", person="bo")
    other.click("#review button.primary")
    page.wait_for_selector("#release-state[data-state=reviewed]")
    assert page.evaluate("window.kept") == "yes"
