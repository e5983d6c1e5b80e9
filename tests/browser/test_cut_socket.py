"""A proxy between the browser and the console drops websockets: the page says so, comes back, and misses nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.browser.conftest import LOG, PATIENCE_MS, watch_page
from tests.browser.proxy import Proxy, open_proxy
from tests.browser.web import sign_in
from tests.waiting import wait_until

_DRAWN = """word => [...document.querySelectorAll('#log-rows .ms')].map(row => row.textContent)
    .filter(text => text.startsWith(word)).map(text => +text.slice(word.length))"""


@pytest.fixture
def proxy(served: str) -> Iterator[Proxy]:
    with open_proxy(served) as one:
        yield one


@pytest.fixture
def page(chromium: Any, proxy: Proxy, say: Callable[..., None]) -> Iterator[Any]:
    """The log through the proxy, live."""
    context = chromium.new_context(base_url=proxy.base, reduced_motion="reduce")
    one = context.new_page()
    one.set_default_timeout(PATIENCE_MS)
    one.complaints = watch_page(one, proxy.base)
    sign_in(one, proxy.base, "ana")
    one.goto(LOG)
    wait_until(lambda: _source(one) == "Live" and _bar(one, "live"), 60, "both sockets")
    yield one
    context.close()


def _source(page: Any) -> str:
    return page.inner_text("#log-source")


def _bar(page: Any, state: str) -> bool:
    return page.locator(f"#statusbar [data-socket={state}]").is_visible()


def _say(say: Callable[..., None], word: str, numbers: range) -> None:
    say([(n, 0, "I", "NET", f"{word}{n}") for n in numbers])


def _numbers(page: Any, word: str) -> list[int]:
    return page.evaluate(_DRAWN, word)


def test_a_cut_socket_is_said_and_comes_back_without_a_gap(
    page: Any, proxy: Proxy, say: Callable[..., None]
) -> None:
    _say(say, "cut line ", range(3))
    wait_until(lambda: _numbers(page, "cut line ") == [0, 1, 2], 60, "the lines before the cut")
    proxy.cut()
    wait_until(lambda: _source(page) == "Reconnecting", 60, "the log to say that it reconnects")
    wait_until(lambda: _bar(page, "reconnecting"), 60, "the bar to say that it reconnects")
    assert page.locator("#statusbar [data-socket=reconnecting] time").inner_text().count(":") == 2
    _say(say, "cut line ", range(3, 40))
    wait_until(lambda: proxy.refused > 1, 60, "the page to try again")
    proxy.let()
    wait_until(lambda: _source(page) == "Live" and _bar(page, "live"), 60, "both sockets again")
    _say(say, "cut line ", range(40, 43))
    wait_until(lambda: 42 in _numbers(page, "cut line "), 60, "the lines after the cut")
    assert _numbers(page, "cut line ") == list(range(43)), "each line once, in order"


def test_a_socket_that_falls_silent_is_given_up_and_nothing_is_missed(
    page: Any, proxy: Proxy, say: Callable[..., None]
) -> None:
    proxy.swallow()
    _say(say, "hushed line ", range(20))
    wait_until(lambda: _source(page) == "Reconnecting", 60, "the log to give up the silent socket")
    proxy.let()
    _say(say, "hushed line ", range(20, 23))
    # No watch runs here, and a log of which nothing was captured for 30 s says that by its live socket.
    heard = ("Live", "Capture stopped")
    wait_until(lambda: _source(page) in heard, 60, "the log's socket again")
    wait_until(lambda: 22 in _numbers(page, "hushed line "), 60, "the lines that were swallowed")
    assert _numbers(page, "hushed line ") == list(range(23)), "each line once, in order"
