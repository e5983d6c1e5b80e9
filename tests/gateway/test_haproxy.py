"""A real HAProxy with the rendered configuration: who gets which session, and what is read back."""

from __future__ import annotations

import http.client
import json
import socket
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Thread

import pytest

from console.embedded.ports import reserve_port
from fleet.readings.haproxy import ProxyReading, parse_exchange
from releases.gateways.haproxy import CONFIG, SHARE_MAP, Place, render_config, render_shares
from releases.rules.gateway import (
    DRAIN,
    MAINT,
    BackendSet,
    Route,
    Server,
    differences,
    order_lines,
)
from tests.children import Child, end_child, start_child
from tests.gateway.upstreams import Upstream
from tests.needs import needs_haproxy
from tests.waiting import wait_until

pytestmark = needs_haproxy
SHOW = f"show servers state; show stat; show map {SHARE_MAP}"
MODEL = "GLM-5.2-FP8"


@dataclass
class Proxy:
    """A running HAProxy in a directory of its own."""

    directory: Path
    place: Place
    child: Child | None = None

    def start(self, routes: tuple[Route, ...]) -> None:
        (self.directory / CONFIG).write_text(render_config(self.place, routes))
        (self.directory / SHARE_MAP).write_text(render_shares(routes))
        argv = ["haproxy", "-db", "-f", CONFIG]
        log = self.directory / "haproxy.log"
        path = {"PATH": "/usr/sbin:/usr/local/sbin:/usr/bin:/bin"}
        self.child = start_child(argv, path, log, self.directory)
        wait_until(self._answers, 20, "the proxy")

    def stop(self) -> None:
        if self.child:
            end_child(self.child)

    def exchange(self, *lines: str) -> str:
        with socket.create_connection(("127.0.0.1", self.place.admin_port), 5) as admin:
            admin.sendall(("; ".join(lines) + "\n").encode())
            answer = b""
            while more := admin.recv(65536):
                answer += more
        return answer.decode()

    def read(self) -> ProxyReading:
        return parse_exchange(self.exchange(SHOW))

    def bring_to(self, *routes: Route) -> ProxyReading:
        """Give orders until the proxy agrees, as the console does."""

        def agrees() -> bool:
            if lines := order_lines(routes, self.read(), SHARE_MAP):
                self.exchange(*lines)
            return not differences(routes, self.read())

        wait_until(agrees, 20, "the proxy to do as desired")
        return self.read()

    def ask(self, session: str | None = None, model: str = MODEL) -> tuple[int, str]:
        client = http.client.HTTPConnection("127.0.0.1", self.place.port, timeout=60)
        headers = {"content-type": "application/json"}
        if session:
            headers["x-session-id"] = session
        body = json.dumps({"messages": [{"role": "user", "content": "你好"}], "model": model})
        client.request("POST", "/v1/chat/completions", body, headers)
        answer = client.getresponse()
        text = answer.read().decode()
        client.close()
        return answer.status, json.loads(text).get("by", text)

    def _answers(self) -> bool:
        try:
            return self.read().is_whole
        except OSError:
            return False


@pytest.fixture
def units() -> Iterator[dict[str, Upstream]]:
    running = {name: Upstream(name) for name in ("old1", "old2", "new1")}
    yield running
    for upstream in running.values():
        upstream.close()


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[Proxy]:
    (first, port), (second, admin) = reserve_port(), reserve_port()
    first.close()
    second.close()
    running = Proxy(tmp_path, Place("127.0.0.1", port, admin))
    yield running
    running.stop()


def server(upstream: Upstream, weight: int = 100, mode: str = "ready") -> Server:
    return Server(upstream.name, "127.0.0.1", upstream.port, weight, mode)


def route(*sets: BackendSet) -> Route:
    return Route("glm52", (MODEL, "glm-5.2"), sets)


def old_set(units: dict[str, Upstream], **changes: object) -> BackendSet:
    first = replace(server(units["old1"]), **changes)
    return BackendSet("a", "REL-0001", (first, server(units["old2"])))


def new_set(units: dict[str, Upstream], weight: int) -> BackendSet:
    return BackendSet("b", "REL-0002", (server(units["new1"], weight),))


def test_it_starts_as_desired_and_serves_by_the_models_name(proxy, units):
    proxy.start((route(old_set(units)),))
    assert proxy.bring_to(route(old_set(units)))
    assert Counter(proxy.ask()[1] for _ in range(20)) == {"old1": 10, "old2": 10}
    assert proxy.ask(model="glm-5.2")[0] == 200
    status, text = proxy.ask(model="unknown-model")
    assert status == 404
    assert "no pool serves this model" in text


def test_a_canary_gets_its_share_of_new_sessions_and_no_session_moves(proxy, units):
    proxy.start((route(old_set(units)),))
    before = {name: proxy.ask(name) for name in (f"s{i}" for i in range(60))}
    # 200 of weight stand on the old revision: 100 more make the share a third.
    proxy.bring_to(route(old_set(units), new_set(units, 100)))
    after = {name: proxy.ask(name) for name in before}
    assert after == before
    dealt = Counter(proxy.ask(f"n{i}")[1] for i in range(300))
    assert 60 <= dealt["new1"] <= 140, dealt
    again = {f"n{i}": proxy.ask(f"n{i}") for i in range(300)}
    assert Counter(by for _, by in again.values()) == dealt


def test_a_drained_unit_keeps_its_sessions_and_gets_no_new_one(proxy, units):
    proxy.start((route(old_set(units)),))
    before = {f"s{i}": proxy.ask(f"s{i}")[1] for i in range(40)}
    proxy.bring_to(route(old_set(units, mode=DRAIN)))
    assert {name: proxy.ask(name)[1] for name in before} == before
    assert {proxy.ask(f"n{i}")[1] for i in range(20)} == {"old2"}
    proxy.bring_to(route(old_set(units, mode=MAINT)))
    assert {proxy.ask(name)[1] for name in before} == {"old2"}


def test_a_whole_revision_in_drain_keeps_its_sessions_until_it_is_closed(proxy, units):
    both = {"old1", "old2"}
    proxy.start((route(old_set(units), new_set(units, 0)),))
    before = {f"s{i}": proxy.ask(f"s{i}")[1] for i in range(20)}
    drained = BackendSet("a", "REL-0001", tuple(server(units[u], 0, DRAIN) for u in sorted(both)))
    proxy.bring_to(route(drained, new_set(units, 100)))
    assert {name: proxy.ask(name)[1] for name in before} == before
    assert {proxy.ask(f"n{i}")[1] for i in range(10)} == {"new1"}
    closed = BackendSet("a", "REL-0001", tuple(server(units[u], 0, MAINT) for u in sorted(both)))
    proxy.bring_to(route(closed, new_set(units, 100)))
    assert {proxy.ask(name) for name in before} == {(200, "new1")}


def test_running_requests_are_counted_and_a_removed_server_waits_for_them(proxy, units):
    proxy.start((route(old_set(units)),))
    units["old1"].go_on.clear()
    asker = Thread(target=lambda: [proxy.ask() for _ in range(2)])
    asker.start()
    assert units["old1"].held.acquire(timeout=30)
    running = {row.name: row.running for row in proxy.read().counts}
    assert running["old1"] == 1
    only = route(BackendSet("a", "REL-0001", (server(units["old2"]),)))
    for _ in range(2):
        proxy.exchange(*order_lines((only,), proxy.read(), SHARE_MAP))
    assert "old1" in {row.name for row in proxy.read().servers}, "it still runs a request"
    units["old1"].go_on.set()
    asker.join()
    proxy.bring_to(only)


def test_a_unit_at_another_address_and_a_restart_end_as_desired(proxy, units):
    desired = route(old_set(units), new_set(units, 25))
    proxy.start((route(old_set(units)),))
    proxy.bring_to(desired)
    moved = Upstream("old1")
    try:
        at_spare = route(
            BackendSet("a", "REL-0001", (server(moved), server(units["old2"]))),
            new_set(units, 25),
        )
        proxy.bring_to(at_spare)
        proxy.stop()
        proxy.start((at_spare,))
        assert differences((at_spare,), proxy.read()) == [], "the file alone brings it up right"
    finally:
        moved.close()


def test_a_change_by_somebody_else_is_seen_and_undone(proxy, units):
    desired = route(old_set(units))
    proxy.start((desired,))
    proxy.exchange("set server be_glm52_a/old1 weight 7")
    (found,) = differences((desired,), proxy.read())
    assert (found.unit, found.desired, found.found) == ("old1", "100", "7")
    proxy.bring_to(desired)


def test_a_body_over_the_limit_is_refused_in_words(proxy, units):
    proxy.place = replace(proxy.place, body_bytes=65536)
    proxy.start((route(old_set(units)),))
    client = http.client.HTTPConnection("127.0.0.1", proxy.place.port, timeout=30)
    client.request("POST", "/v1/completions", json.dumps({"model": MODEL, "prompt": "x" * 62000}))
    answer = client.getresponse()
    assert answer.status == 413
    assert "longer than" in answer.read().decode()
    client.close()
