"""The watch asks a port for its text again and again: what is kept of it, and when a page is told."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from channels.layers import get_channel_layer

from fleet.doorbell import group_of
from fleet.execution import watch_record
from fleet.execution.message import said
from fleet.execution.models import Host, Scrape
from fleet.execution.signals import scrape_settled
from fleet.execution.watch_scrape import Scraped, judge_exchange

TOPIC = "gateway-edge"


class Port:
    """A port that answers each text with what `answer` is just then, and remembers what it heard."""

    def __init__(self, port: int = 0) -> None:
        self.answer = b"one"
        self.heard: set[bytes] = set()
        self._listener = socket.create_server(("127.0.0.1", port), backlog=64)
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection, contextlib.suppress(OSError):
                self.heard.add(b"".join(iter(lambda: connection.recv(4096), b"")))  # noqa: B023
                connection.sendall(self.answer)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()


@pytest.fixture
def port() -> Iterator[Port]:
    one = Port()
    yield one
    with contextlib.suppress(OSError):
        one.close()


def scrape_of(host: Host, port: int, **changes: Any) -> Scrape:
    fields = {"kind": "exchange", "body": {"text": "show; show\n"}, "every_s": 2.0, **changes}
    return Scrape.objects.create(key="gateway:edge", host=host, port=port, topic=TOPIC, **fields)


@pytest.mark.lab
@pytest.mark.django_db(transaction=True)
def test_it_keeps_the_newest_whole_answer_and_says_when_none_comes(
    hosts: list[Host], port: Port, start_watch: Any, wait_until: Any
) -> None:
    scrape = scrape_of(hosts[0], port.port)

    def now() -> Scrape:
        return Scrape.objects.get(pk=scrape.pk)

    start_watch()
    wait_until(lambda: now().answer == "one", 60, "the first answer")
    assert now().ok_at
    assert port.heard == {b"show; show\n"}
    long = "维" * 60_000 + "\n"
    port.answer = long.encode()
    wait_until(lambda: now().answer == long, 60, "a long answer")
    assert (now().error, now().misses) == ("", 0)
    ok_at = now().ok_at
    port.answer = b"y" * 300_000
    wait_until(lambda: now().misses, 60, "a failure")
    assert "the answer is longer than 262144 bytes" in said(now().error)
    assert now().answer == long, "what was whole stands, with its time"
    port.close()
    wait_until(lambda: "Connect failed" in said(now().error), 60, "a refused port")
    assert now().ok_at >= ok_at
    assert now().tried_at > now().ok_at
    back = Port(port.port)
    try:
        wait_until(lambda: now().answer == "one" and not now().misses, 60, "the port again")
    finally:
        back.close()


class NoFence:
    """A lease that is ours for as long as the test lasts."""

    def guard(self, rows: Any) -> Any:
        return rows


@pytest.fixture
def told() -> Iterator[list[str]]:
    topics: list[str] = []

    def note(topic: str, **_: object) -> None:
        topics.append(topic)

    scrape_settled.connect(note)
    yield topics
    scrape_settled.disconnect(note)


@pytest.mark.django_db
def test_only_news_is_told(told: list[str]) -> None:
    host = Host.objects.create(name="gw", address="127.0.0.1", user="x")
    scrape = scrape_of(host, 9999)
    good, other, bad = judge_exchange(b"a", 1.0), judge_exchange(b"b", 1.0), Scraped(error="none")
    for result in (good, good, other, bad, bad, other, other):
        watch_record.record_scrape(NoFence(), scrape.pk, result)  # type: ignore[arg-type]
    assert told == [TOPIC, "", TOPIC, TOPIC, "", TOPIC, ""]


@pytest.mark.django_db(transaction=True)
def test_news_rings_its_topic(servers: Any) -> None:
    host = Host.objects.create(name="gw", address="127.0.0.1", user="x")
    scrape = scrape_of(host, 9999)

    async def heard() -> dict[str, Any]:
        layer = get_channel_layer()
        channel = await layer.new_channel()
        await layer.group_add(group_of(TOPIC), channel)
        await ring()
        return await layer.receive(channel)

    @sync_to_async
    def ring() -> None:
        result = judge_exchange(b"a", 1.0)
        watch_record.record_scrape(NoFence(), scrape.pk, result)  # type: ignore[arg-type]

    assert async_to_sync(heard)()["topic"] == TOPIC


def test_any_bytes_become_text_that_can_be_stored() -> None:
    result = judge_exchange(b"a\0b\xff\n", 3.0)
    assert result.is_ok
    assert result.answer == "a\u2400b\ufffd\n"
