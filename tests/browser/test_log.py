"""The log page in a browser: following and holding, marks and links, errors, filters; and hostile lines."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.conftest import LOG
from tests.waiting import wait_until


@pytest.fixture
def log_page(say: Any, open_page: Callable[..., Any]) -> Callable[..., Any]:
    """Open the log and wait until it is live."""

    def open_log(query: str = "", **options: Any) -> Any:
        page = open_page(LOG + query, **options)
        wait_until(lambda: page.inner_text("#log-source") == "Live", 60, "the log's socket")
        return page

    return open_log


def _said(page: Any) -> str:
    return page.inner_text("#log-said")


def _is_at_end(page: Any) -> bool:
    return page.evaluate(
        "(log => log.scrollTop + log.clientHeight >= log.scrollHeight - 4)(document.getElementById('log'))"
    )


def _is_in_view(page: Any, key: str) -> bool:
    return page.evaluate(
        """id => { const row = document.getElementById(id)?.getBoundingClientRect(),
        log = document.getElementById('log').getBoundingClientRect();
        return !!row && row.top >= log.top && row.bottom <= log.bottom }""",
        f"L{key}",
    )


def _marked(page: Any) -> list[str]:
    return page.evaluate("[...document.querySelectorAll('.ln.at')].map(row => row.id)")


def _visible_numbers(page: Any, position: int) -> list[int]:
    """Return the line numbers of one node that can be clicked now, from the middle of the log down."""
    return page.evaluate(
        """position => { const log = document.getElementById('log').getBoundingClientRect();
        return [...document.querySelectorAll(`.ln[data-s][id^="L${position}."]`)].filter(row => {
            const box = row.getBoundingClientRect();
            return box.height > 0 && box.top > (log.top + log.bottom) / 2 - 40 && box.bottom < log.bottom;
        }).map(row => +row.dataset.n) }""",
        position,
    )


def _go(page: Any, selector: str, address_holds: str) -> None:
    """Click a link and wait for the page behind it."""
    page.click(selector)
    page.wait_for_url(re.compile(re.escape(address_holds)))


def test_it_follows_new_lines_and_holds_when_a_person_scrolls_up(log_page: Any, say: Any) -> None:
    page = log_page()
    assert _is_at_end(page)
    assert _said(page) == "Following."
    say([(n, 0, "I", "NET", f"follow me {n}") for n in range(3)])
    wait_until(lambda: page.locator("text=follow me 2").count(), what="the new lines")
    assert _is_at_end(page)
    page.hover("#log")
    page.mouse.wheel(0, -600)
    wait_until(lambda: _said(page).startswith("Held at line"), what="the hold")
    top = page.evaluate("document.getElementById('log').scrollTop")
    say([(n, 0, "I", "NET", f"later {n}") for n in range(5)])
    wait_until(lambda: "5 newer lines" in _said(page), what="the count of newer lines")
    assert page.locator("text=later 4").count() == 0, "nothing moves while a person reads"
    assert page.evaluate("document.getElementById('log').scrollTop") == top
    page.keyboard.press("f")
    wait_until(lambda: page.locator("text=later 4").count(), what="the newest lines")
    wait_until(lambda: _said(page) == "Following.", what="following")
    assert _is_at_end(page)
    assert page.complaints == []


def test_e_goes_to_the_first_error_and_a_reload_opens_it_marked_and_centred(log_page: Any) -> None:
    page = log_page()
    page.keyboard.press("e")
    wait_until(lambda: _marked(page) == ["L1.1904"], what="the first error")
    assert _is_in_view(page, "1.1904")
    assert page.url.endswith("#L1.1904")
    assert _said(page).startswith("Held at line 1.1904.")
    wait_until(lambda: page.locator("#log-line-facts").count(), what="the facts of the line")
    assert "A collective did not end in time." in page.inner_text("#log-side")
    page.reload()
    wait_until(lambda: _marked(page) == ["L1.1904"], what="the mark after a reload")
    assert _is_in_view(page, "1.1904")
    assert page.complaints == []


def test_a_link_to_an_old_range_opens_held_and_marked(log_page: Any) -> None:
    page = log_page("#L0.41-0.43")
    wait_until(lambda: _marked(page) == ["L0.41", "L0.42", "L0.43"], what="the marked range")
    assert "at=0.41-0.43" in page.url
    assert _is_in_view(page, "0.41")
    assert _said(page).startswith("Held at line 0.41.")
    low, high = _visible_numbers(page, 0)[:2]
    page.click(f"#L0\\.{low} > a")
    assert page.url.endswith(f"#L0.{low}")
    page.click(f"#L0\\.{high} > a", modifiers=["Shift"])
    assert page.url.endswith(f"#L0.{low}-0.{high}")
    assert {f"L0.{low}", f"L0.{high}"} <= set(_marked(page))
    page.keyboard.press("Escape")
    assert _marked(page) == []
    assert page.complaints == []


def test_n_and_p_walk_the_errors(log_page: Any, say: Any) -> None:
    page = log_page()
    page.keyboard.press("e")
    wait_until(lambda: _marked(page) == ["L1.1904"], what="the first error")
    page.keyboard.press("n")
    wait_until(lambda: _marked(page) != ["L1.1904"], what="the next error")
    second = _marked(page)
    assert page.locator(".ln.at.err").count() == 1
    page.keyboard.press("p")
    wait_until(lambda: _marked(page) == ["L1.1904"], what="the error before")
    assert second != ["L1.1904"]


def test_older_lines_come_when_the_reader_nears_the_top(log_page: Any) -> None:
    page = log_page()
    first = page.evaluate("document.querySelector('.ln[data-s]').id")
    page.hover("#log")
    page.mouse.wheel(0, -100)
    wait_until(lambda: _said(page).startswith("Held"), what="the hold")
    page.evaluate("document.getElementById('log').scrollTop = 50")
    wait_until(
        lambda: page.evaluate("document.querySelectorAll('.ln[data-s]').length") > 900,
        what="older lines",
    )
    assert page.locator(f"[id='{first}']").count() == 1
    times = page.evaluate(
        "[...document.querySelectorAll('#log-rows > .ln[data-s]')].map(r => r.querySelector('time').dateTime)"
    )
    assert times == sorted(times)
    assert page.complaints == []


def test_the_page_never_holds_more_than_2000_rows(log_page: Any, say: Any) -> None:
    page = log_page()
    for _ in range(30):
        page.evaluate("document.getElementById('log').scrollTop = 0")
        page.wait_for_timeout(150)
    rows = page.evaluate("document.querySelectorAll('.ln[data-s]').length")
    assert 1500 < rows <= 2000
    assert page.complaints == []


def test_a_flood_is_drawn_in_part_and_counted(log_page: Any, say: Any) -> None:
    page = log_page()
    lines = [(0, None, "E" if n == 10 else "I", "OTHER", f"flood {n}") for n in range(900)]
    say(lines)
    wait_until(lambda: page.locator("text=/^flood 899$/").count(), what="the newest line")
    fold = page.locator(".ln.many").last
    assert re.search(r"\d+ lines of this moment are not drawn, show", fold.inner_text())
    assert page.locator("text=/^flood 10$/").count() == 1, "an error is drawn in any case"
    assert page.evaluate("document.querySelectorAll('.ln[data-s]').length") <= 2000


def test_filters_and_lanes_are_links_that_keep_the_address(log_page: Any) -> None:
    page = log_page()
    _go(page, ".lane[data-rank='9']", "rank=9")
    ranks = page.evaluate(
        "[...new Set([...document.querySelectorAll('.ln[data-s]')].map(r => r.children[2].textContent))]"
    )
    assert ranks == ["r09"]
    page.fill(".logbar [name=q]", "watchdog")
    page.press(".logbar [name=q]", "Enter")
    page.wait_for_url(re.compile("q=watchdog"))
    assert page.locator(".ln[data-s]").count() == 1
    _go(page, ".seg a >> nth=1", "level=warn")
    page.reload()
    assert page.locator(".ln[data-s]").count() == 1


def test_a_live_filter_draws_only_what_it_takes(log_page: Any, say: Any) -> None:
    page = log_page("?q=wanted")
    say([(0, 1, "I", "NET", "wanted line"), (1, 1, "I", "NET", "other line")])
    wait_until(lambda: page.locator("text=/^wanted line$/").count(), what="the wanted line")
    assert page.locator("text=/^other line$/").count() == 0


def test_the_same_message_of_several_ranks_folds_live(log_page: Any, say: Any) -> None:
    page = log_page()
    say([(n, 8 + n, "W", "PG", f"[rank{8 + n}] lost peer {n}") for n in range(4)], position=1)
    wait_until(
        lambda: page.locator("text=3 more ranks say the same within 1 s: r09 r10 r11").count(),
        what="the fold",
    )
    assert page.complaints == []


def test_hostile_lines_are_text_live_and_stored(log_page: Any, say: Any) -> None:
    hostile = (
        "<img src=x onerror=alert(1)><script>alert(2)</script> \x1b]8;;http://evil/\x1b\\link "
        "\x1b]52;c;aGk=\x07 \u202ertl \x1b[1mbold\x1b[0m"
    )
    page = log_page()
    say([(0, 0, "I", "OTHER", hostile)])
    live = page.locator(".ms", has_text="<img src=x onerror=alert(1)><script>").last
    wait_until(live.count, what="the hostile line")
    assert live.inner_text().endswith("⟨U+202E⟩rtl bold")
    assert live.locator("b").inner_text() == "bold"
    page.reload()
    assert live.inner_text().endswith("⟨U+202E⟩rtl bold")
    assert live.locator("img, script").count() == 0
    assert page.complaints == []


def test_without_a_socket_it_polls_and_says_so(log_page: Any, say: Any, open_page: Any) -> None:
    page = open_page("/fleet/")
    page.route_web_socket(re.compile(r"/ws/log/"), lambda socket: socket.close())
    page.goto(LOG)
    wait_until(lambda: page.inner_text("#log-source") == "Polling", 40, "polling")
    say([(0, 0, "I", "NET", "polled line")])
    wait_until(lambda: page.locator("text=/^polled line$/").count(), 30, "the line by polling")


def test_it_reads_without_script(log_page: Any, open_page: Any, say: Any) -> None:
    page = open_page(LOG, java_script_enabled=False)
    assert page.locator(".ln[data-s]").count() == 500
    _go(page, "#log-older", "before=")
    assert page.locator(".ln[data-s]").count() == 500
    _go(page, "#log-newer", "after=")
    _go(page, "#log-first-error", "at=1.1904")
    assert page.locator(".ln.at").count() == 1
    page.fill(".logbar [name=q]", "Watchdog")
    _go(page, ".logbar noscript button", "q=Watchdog")
    assert page.locator(".ln[data-s]").count() == 7


def test_it_fits_a_phone(log_page: Any) -> None:
    page = log_page(look="phone")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.locator(".ln[data-s]").last.is_visible()
