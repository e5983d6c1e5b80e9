"""A console with the scene in a database of its own, and a Chromium. Both live as long as the run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.web import ROOT, chromium_path, open_browser, sign_in, web_server

_DRAW = """
import django
django.setup()
from django.core.management import call_command
call_command("migrate", interactive=False, verbosity=0)
from tests.browser import scene
scene.draw()
"""
_MAKE_LOG = """
import django
django.setup()
from tests.live import log_scene
launch = log_scene.make_launch(2, name="glm52-log")
log_scene.night(launch, log_scene.hold_lease())
print(launch.pk)
"""
_SAY = """
import django
django.setup()
from releases.models import Launch
from tests.live import log_scene
stream = log_scene.stream_of(Launch.objects.get(replica__name="glm52-log"), {position})
log_scene.say(stream, {said!r}, log_scene.hold_lease())
"""
LOG = "/replicas/glm52-log/gen/1/log/"
PATIENCE_MS = 120_000  # of a machine on which many tests run at once
LOOKS = {
    "dark": {"viewport": {"width": 1440, "height": 900}, "color_scheme": "dark"},
    "light": {"viewport": {"width": 1440, "height": 900}, "color_scheme": "light"},
    "phone": {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark"},
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/browser/" in item.nodeid:
            item.add_marker("browser")


@pytest.fixture(scope="session")
def console_python(servers: Any) -> Callable[[str], str]:
    """Run code inside the served console's settings and database; returns what it printed."""

    def run(code: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "DJANGO_SETTINGS_MODULE": "console.settings", "LAB": "1"},
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=300,  # drawing the scene is minutes of work on a machine on which many tests run at once
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout

    return run


@pytest.fixture(scope="session")
def change(console_python: Callable[[str], str]) -> Callable[[str, str], None]:
    """`change(code, topic)`: change rows of the served console and ring the doorbell."""

    def run(code: str, topic: str) -> None:
        head = "import django\ndjango.setup()\nfrom fleet.doorbell import ring\n"
        models = "from fleet.models import *\nfrom fleet.execution.models import *\nfrom releases.models import *\n"
        console_python(f"{head}{models}{code}\nring({topic!r})\n")

    return run


@pytest.fixture(scope="session")
def served(console_python: Callable[[str], str], state_dir: Path) -> Iterator[str]:
    """The address of a web process that serves the scene."""
    from console import catalogues

    catalogues.compile_all()
    console_python(_DRAW)
    with web_server(state_dir) as base:
        yield base


@pytest.fixture(scope="session")
def say(served: str, console_python: Callable[[str], str]) -> Callable[..., None]:
    """Append lines (ms, rank, level, part, text) to the log of the test's launch."""
    console_python(_MAKE_LOG)

    def run(said: list[tuple[Any, ...]], position: int = 0) -> None:
        console_python(_SAY.format(position=position, said=said))

    return run


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    if chromium_path() is None:
        pytest.skip("no Chromium is installed; run `make install` as root")
    with open_browser() as browser:
        yield browser


@pytest.fixture
def open_page(chromium: Any, served: str) -> Iterator[Callable[..., Any]]:
    """`open_page("/fleet/", look="dark", person="ana")`; the page keeps its complaints in `.complaints`."""
    contexts = []

    def open_at(path: str, *, look: str = "dark", person: str = "ana", **options: Any) -> Any:
        # turning signs repaint all the time, which a machine without a graphics card pays for
        still = {"reduced_motion": "reduce"}
        context = chromium.new_context(base_url=served, **{**still, **LOOKS[look], **options})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.complaints = watch_page(page, served)
        sign_in(page, served, person)
        page.goto(path)
        return page

    yield open_at
    for context in contexts:
        context.close()


def watch_page(page: Any, base: str) -> list[str]:
    """Note errors, dialogs, policy violations and every request that leaves the console."""
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(f"script: {error}"))
    page.on("dialog", lambda dialog: complaints.append(f"dialog: {dialog.message}"))

    def note(message: Any) -> None:
        if message.type in {"error", "warning"} and "404" not in message.text:
            complaints.append(f"console: {message.text}")

    def check(request: Any) -> None:
        if not request.url.startswith((base, base.replace("http", "ws"), "data:")):
            complaints.append(f"request: {request.url}")

    page.on("console", note)
    page.on("request", check)
    return complaints
