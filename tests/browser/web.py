"""A web process and a Chromium for tests and pictures; both are ended by who opened them."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

from django.db import connections

from console.embedded import ports
from tests.children import end_child, start_child
from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")


def chromium_path() -> str | None:
    """Return the installed browser, or None."""
    return next((path for name in CHROMIUM if (path := shutil.which(name))), None)


@contextmanager
def web_server(directory: Path, **env: str) -> Iterator[str]:
    """Serve the console of this process's settings; yields its address."""
    held, port = ports.reserve_port()
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "console.settings",
        "PORT": str(port),
        "LAB": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        **env,
    }
    argv = [sys.executable, "-m", "uvicorn", "console.asgi:application", "--host", "127.0.0.1"]
    argv += ["--port", str(port), "--log-level", "warning", "--timeout-graceful-shutdown", "2"]
    held.close()
    child = start_child(argv, environment, directory / f"web-{port}.log", ROOT)
    base = f"http://127.0.0.1:{port}"
    try:
        wait_until(
            lambda: child.poll() is not None or _answers(f"{base}/login/"), 60, "the web server"
        )
        if child.poll() is not None:
            raise AssertionError(f"the web server ended: {child.log[-3000:]}")
        yield base
    finally:
        end_child(child)
        if "Traceback" in child.log:
            print(child.log[-6000:])


def _answers(url: str) -> bool:
    try:
        with urlopen(url, timeout=5) as answer:
            return answer.status == 200
    except (URLError, OSError):
        return False


@contextmanager
def open_browser() -> Iterator[Any]:
    """Start the installed Chromium without a window."""
    from playwright.sync_api import sync_playwright

    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"  # playwright keeps a loop in this thread
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium_path(), args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        try:
            yield browser
        finally:
            browser.close()
            connections.close_all()  # what was opened within playwright's loop belongs to it


def sign_in(page: Any, base: str, name: str, password: str = "flotilla") -> None:
    page.goto(f"{base}/login/")
    page.fill("[name=username]", name)
    page.fill("[name=password]", password)
    page.press("[name=password]", "Enter")
    page.wait_for_url(f"{base}/")
