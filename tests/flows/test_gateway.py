"""Two units behind a real HAProxy: weights read back, foreign changes undone, drains proved, and a killed proxy."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
from contextlib import closing
from threading import Thread
from typing import Any

import pytest

from fleet.rules.message import said
from tests import services
from tests.factories import make_actor
from tests.needs import four_nodes, needs_haproxy
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.lab,
    pytest.mark.django_db(transaction=True),
    needs_haproxy,
    four_nodes,
]
MODEL = "glm-5.2"


@pytest.fixture
def gateway(console):
    """The lab's gateway, its proxy read back."""
    from releases.services.gateway_seed import gateway_seed

    row = gateway_seed(console.lab.gateway_row(), actor=make_actor("rule:seed"))
    console.until(lambda: fresh(row).seen_at, "the proxy to be read back")
    return row


@pytest.fixture
def units(console, gateway):
    """Launches of two units of the pool, both serving."""
    from releases.models import Launch, Release
    from releases.services.launches import launch_create

    launches = []
    for replica in two_units():
        release = Release.objects.filter(pool=replica.pool).order_by("pk").first()
        launches.append(launch_create(replica=replica, release=release, actor=make_actor()))

    def serve() -> bool:
        for launch in launches:
            launch.refresh_from_db()
            assert launch.state in Launch.LIVE, said(launch.cause)
        return all(unit_state(launch) == "serving" for launch in launches)

    console.until(serve, "both units to serve", timeout_s=300)
    return launches


def two_units() -> list[Any]:
    """Give the pool a second unit on the two nodes that it has not."""
    from fleet.models import Member, Node, Replica

    first = Replica.objects.get(name="glm52-r1")
    second, _ = Replica.objects.get_or_create(name="glm52-r2", defaults={"pool": first.pool})
    Member.objects.exclude(replica=first).delete()
    own = Member.objects.filter(replica=first).values_list("node_id", flat=True)
    for position, node in enumerate(Node.objects.exclude(pk__in=own).order_by("pk")[:2]):
        Member.objects.create(replica=second, node=node, position=position)
    return [first, second]


def fresh(row):
    row.refresh_from_db()
    return row


def unit_state(launch) -> str:
    launch.replica.refresh_from_db()
    return launch.replica.shown_state


def endpoint(launch):
    from releases.models import Endpoint

    return Endpoint.objects.get(launch=launch)


def connect(gateway) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(gateway.host.address, gateway.port, timeout=120)


def ask(client: http.client.HTTPConnection, **fields) -> http.client.HTTPResponse:
    body = {"model": MODEL, "messages": [{"role": "user", "content": "12 + 30 = ?"}], **fields}
    headers = {"content-type": "application/json"}
    client.request("POST", "/v1/chat/completions", json.dumps(body), headers)
    return client.getresponse()


def answer(gateway) -> str:
    with closing(connect(gateway)) as client:
        return json.loads(ask(client).read())["choices"][0]["message"]["content"]


def answers(gateway) -> bool:
    try:
        return "42" in answer(gateway)
    except (OSError, ValueError, KeyError):
        return False


def exchange(gateway, text: str) -> str:
    """Speak with the proxy as somebody on its host would."""
    with socket.create_connection(("127.0.0.1", gateway.admin_port), 10) as admin:
        admin.sendall(f"{text}\n".encode())
        found = b""
        while block := admin.recv(65536):
            found += block
    return found.decode()


def weight_of(gateway, launch) -> int:
    """What the proxy itself says, whatever the console believes."""
    backend = f"be_glm52_{endpoint(launch).slot}"
    found = exchange(gateway, f"get weight {backend}/{launch.replica.name}")
    return int(found.split()[0])


class Stream:
    """A long answer through the gateway, read to its end beside the test."""

    def __init__(self, gateway, tokens: int) -> None:
        self.text, self.error = "", ""
        self._client = connect(gateway)
        self._response = ask(self._client, stream=True, max_tokens=tokens, ignore_eos=True)
        self._thread = Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        with closing(self._client):
            try:
                self.text = self._response.read().decode()
            except (http.client.HTTPException, OSError) as error:
                self.error = repr(error)

    def is_whole(self) -> bool:
        self._thread.join()
        is_ended = self.text.rstrip().endswith("data: [DONE]")
        return is_ended and not self.error and '"error"' not in self.text


def running_behind(launch) -> int:
    return endpoint(launch).seen_running or 0


def busy(console, units):
    """Return the launch that answers the stream, seen by the proxy's own count."""
    return console.until(
        lambda: next((one for one in units if running_behind(one)), None), "the stream to be seen"
    )


def test_units_serve_through_the_proxy_and_it_does_what_is_wanted(console, gateway, units):
    from fleet.models import TrailEntry
    from releases.services.endpoints import endpoint_agrees, endpoint_set

    first, second = units
    assert "42" in answer(gateway)
    assert {endpoint(one).slot for one in units} == {"a"}
    console.until(lambda: not fresh(gateway).differences, "the proxy to agree")

    endpoint_set(launch=first, weight=25, actor=make_actor(), reason="it is slow")
    console.until(lambda: endpoint_agrees(endpoint(first)), "the weight to be read back")
    assert weight_of(gateway, first) == 25

    exchange(gateway, f"set server be_glm52_a/{second.replica.name} weight 7")
    drift = TrailEntry.objects.filter(verb="gateway.drift")
    console.until(drift.exists, "the foreign change to be seen")
    assert f"{second.replica.name}: weight is 7, desired 100." in drift.get().after["found"]
    console.until(lambda: weight_of(gateway, second) == 100, "the foreign change to be undone")
    console.until(lambda: not fresh(gateway).differences, "the proxy to agree again")

    before = fresh(gateway).subject.epoch
    asked = endpoint(first).requests + endpoint(second).requests
    os.kill(gateway.subject.pid, signal.SIGKILL)
    console.until(
        lambda: fresh(gateway).subject.epoch > before and fresh(gateway).subject.state == "live",
        "the proxy to be started again",
    )
    killed_at = gateway.subject.started_at
    console.until(
        lambda: fresh(gateway).seen_at > killed_at and not gateway.differences,
        "the new proxy to be read back as wanted",
    )
    assert (weight_of(gateway, first), weight_of(gateway, second)) == (25, 100)
    wait_until(lambda: answers(gateway), 60, "an answer through the new proxy")
    console.until(
        lambda: endpoint(first).requests + endpoint(second).requests > asked,
        "requests to be counted on",
    )


@pytest.mark.long  # in a rollout every drain meets streams as well
def test_a_unit_is_stopped_only_when_its_long_stream_has_ended(console, gateway, units):
    from releases.models import Drain
    from releases.services.launches import launch_stop

    stream = Stream(gateway, 700)
    launch = busy(console, units)
    launch_stop(launch=launch, reason="maintenance", actor=make_actor())
    drain = Drain.objects.get(launch=launch)
    console.until(lambda: unit_state(launch) == "draining", "the unit to drain")
    assert fresh(launch).state == "ready", "its stream still runs"
    assert "42" in answer(gateway), "the other unit serves"
    console.until(lambda: fresh(launch).state == "stopped", "the unit to be stopped")
    assert stream.is_whole(), (stream.error, stream.text[-200:])
    drain.refresh_from_db()
    assert (drain.state, drain.cut, drain.proof["proxy"]) == ("drained", None, 0)
    assert launch.state_at > drain.ended_at
    console.until(
        lambda: not gateway.endpoints.filter(launch=launch).exists(), "it to leave the gateway"
    )
    console.until(
        lambda: launch.replica.name not in exchange(gateway, "show servers state"),
        "it to leave the proxy",
    )
    assert "42" in answer(gateway)


def test_redis_goes_away_and_a_drain_meets_its_deadline(console, gateway, units):
    """Two scenes on the same two units, whose start takes longer than both."""
    traffic_goes_on_while_redis_is_away(console, gateway, units[0])
    a_drain_at_its_deadline_says_how_many_it_cuts(console, gateway, units)


def traffic_goes_on_while_redis_is_away(console, gateway, first):
    from releases.services.endpoints import endpoint_agrees, endpoint_set

    servers = services.session()
    servers.kill("valkey")
    try:
        endpoint_set(launch=first, weight=30, actor=make_actor(), reason="it is slow")
        console.tick()
        assert "42" in answer(gateway)
        assert not endpoint_agrees(endpoint(first))
    finally:
        servers.start_again("valkey")
    console.until(lambda: endpoint_agrees(endpoint(first)), "the weight to be read back")
    assert weight_of(gateway, first) == 30


def a_drain_at_its_deadline_says_how_many_it_cuts(console, gateway, units):
    from releases.services.drains import drain_start
    from releases.services.launches import launch_stop

    stream = Stream(gateway, 6000)
    launch = busy(console, units)
    drain = drain_start(
        launch=launch, purpose="test/cut", deadline_s=3, actor=make_actor(), reason="no time"
    )
    console.until(lambda: fresh(drain).ended_at, "the drain to be over")
    assert (drain.state, drain.cut) == ("cut", 1), said(drain.explanation)
    launch_stop(launch=launch, reason="no time", actor=make_actor())
    console.until(lambda: fresh(launch).state == "stopped", "the unit to be stopped")
    assert not stream.is_whole()
