"""A web process that dies while it makes a launch: made or not made, and the same request may be sent again."""

import http.client
import sys
import uuid
from contextlib import closing
from urllib.parse import urlencode

import pytest

from fleet.models import Member, TrailEntry
from releases.models import Launch, Release
from releases.services.launches import launch_preview
from tests.browser.scene import CONTENT
from tests.factories import make_node, make_pool, make_replica
from tests.fault_points import WEB_POINT
from tests.live.reader import session_key
from tests.waiting import wait_until

pytestmark = [pytest.mark.faults, pytest.mark.django_db(transaction=True)]
CSRF = "a" * 32


@pytest.fixture
def unit():
    pool = make_pool()
    Release.objects.create(
        pool=pool, title="glm-5.2", state="sealed", content=CONTENT, content_sha256="c" * 64
    )
    return make_replica("glm52-r1", pool=pool, nodes=[make_node("h100-001"), make_node("h100-002")])


@pytest.fixture
def start_web(run_child, free_port):
    """Start a web process and wait until it answers; returns it and its port."""

    def start(**env: str):
        port = free_port()
        argv = [sys.executable, "-m", "uvicorn", "console.asgi:application", "--host", "127.0.0.1"]
        argv += ["--port", str(port), "--log-level", "warning"]
        web = run_child(argv, PORT=str(port), **env)
        wait_until(lambda: status_of(port) in {200, 503}, timeout_s=120, what="the web")
        return web, port

    return start


def status_of(port: int) -> int:
    try:
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=10)) as web:
            web.request("GET", "/healthz")
            return web.getresponse().status
    except OSError:
        return 0


def post_launch(port: int, session: str, key: str, base: tuple[int, str]) -> tuple[int, str]:
    """Send the form of the plan page as a browser does; return the status and where it leads.

    `base`: the unit's version and the plan's hash, as the page had them.
    """
    fields = {
        "csrfmiddlewaretoken": CSRF,
        "idempotency_key": key,
        "base_version": base[0],
        "release": Release.objects.get().public_id,
        "plan_sha": base[1],
    }
    headers = {
        "Cookie": f"flotilla-session={session}; flotilla-csrf={CSRF}",
        "Content-Type": "application/x-www-form-urlencoded",
    }
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as web:
        web.request("POST", "/replicas/glm52-r1/launch/", urlencode(fields), headers)
        answer = web.getresponse()
        return answer.status, answer.headers["Location"] or ""


def test_a_launch_is_made_once_by_a_request_that_is_sent_again(unit, start_web):
    key, session = str(uuid.uuid4()), session_key("ana")
    plan = launch_preview(replica=unit, release=Release.objects.get())
    base = unit.version, plan.plan_sha256
    web, port = start_web(FAULT_POINT=WEB_POINT)
    with pytest.raises(http.client.RemoteDisconnected):
        post_launch(port, session, key, base)
    web.wait(timeout=20)
    assert not Launch.objects.exists()
    assert not Member.objects.filter(is_reserved=True).exists()
    assert not TrailEntry.objects.filter(verb="launch.create").exists()

    _, port = start_web()
    first = post_launch(port, session, key, base)
    assert first == (302, "/replicas/glm52-r1/gen/1/launch/")
    assert post_launch(port, session, key, base) == first
    assert Launch.objects.count() == 1
    assert TrailEntry.objects.filter(verb="launch.create").count() == 1
