"""A whole console over the lab's nodes with its web, for tests that click through what people do."""

from __future__ import annotations

from typing import Any

import pytest

from tests.browser.web import chromium_path, web_server

READY_MS = 240_000  # patience with a busy machine
needs_chromium = pytest.mark.skipif(
    chromium_path() is None, reason="no chromium; run `make install` as root"
)


@pytest.fixture
def real_passwords(settings) -> None:
    """Hash as the web process will check; the tests' own hasher is a quick one it does not know."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.Argon2PasswordHasher"]


@pytest.fixture
def whole_console(real_passwords, bare_console, tmp_path, child_env):
    """Web, two hands, the watch and a conductor over the nodes; yields the console and its web address."""
    bare_console.start_hand()
    bare_console.start_hand()
    bare_console.start_conductor()
    with web_server(
        tmp_path, **{**child_env, "TIME_SCALE": f"{bare_console.time_scale:g}"}
    ) as base:
        yield bare_console, base


def speak(page: Any, language: str) -> None:
    """Let a page that is open talk to its person in a language: en or zh-hans."""
    if page.locator("html").get_attribute("lang") != language:
        page.click(f'.statusbar button[value="{language}"]')
    assert page.locator("html").get_attribute("lang") == language


def shows(page, selector: str) -> None:
    """Wait for a sign; when it does not come, say what the page shows instead."""
    try:
        page.locator(selector).first.wait_for(timeout=READY_MS)
    except Exception as late:
        raise AssertionError(f"{late}\n{page.url}\n{page.inner_text('main')[:2000]}") from None
