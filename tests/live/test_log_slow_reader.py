"""A reader who takes nothing for a while: nothing is kept for it meanwhile, and it goes on where it was."""

import asyncio
import json

import pytest

from fleet import log_tail
from fleet.log_feed import LogFeed
from fleet.log_tail import LogTail
from fleet.rules.log_filter import parse_filter
from tests.live import log_scene
from tests.live.pump import Pump
from tests.live.threads import in_thread

pytestmark = pytest.mark.django_db(transaction=True)
LINES, RING_BYTES = 10_000, 64 * 1024


class Browser:
    """Takes one message and no more until it is let."""

    def __init__(self) -> None:
        self.messages = 0
        self.numbers: list[int] = []
        self.wakes = asyncio.Event()

    async def send(self, text: str) -> None:
        self.messages += 1
        self.numbers += [line[0] for line in json.loads(text).get("lines", [])]
        await self.wakes.wait()


async def until(is_so) -> None:
    async with asyncio.timeout(60):
        while not is_so():
            await asyncio.sleep(0.05)


async def test_it_gets_every_line_once_and_holds_up_nobody(monkeypatch, redis_client):
    monkeypatch.setattr(log_tail, "_RING_BYTES", RING_BYTES)
    pk = await in_thread(lambda: log_scene.stream_of(log_scene.make_launch(1), 0).pk)
    fence = await in_thread(log_scene.hold_lease)
    tail = LogTail()
    await tail.join({pk: 0})
    sleepy, quick = Browser(), Browser()
    quick.wakes.set()
    feeds = [
        asyncio.create_task(LogFeed(tail, {pk: 0}, parse_filter({}), one.send).run())
        for one in (sleepy, quick)
    ]
    try:
        with await in_thread(Pump, [pk], fence, LINES) as pump:
            await until(lambda: pump.sent[pk] >= LINES)
        last = pump.sent[pk]
        await until(lambda: len(quick.numbers) >= last)
        assert sleepy.messages == 1, "nothing is queued for who does not read"
        assert tail.streams[pk].ring_bytes < 2 * RING_BYTES
        sleepy.wakes.set()
        await until(lambda: len(sleepy.numbers) >= last)
        assert sleepy.numbers == list(range(1, last + 1))
    finally:
        for feed in feeds:
            feed.cancel()
        await asyncio.gather(*feeds, return_exceptions=True)
        await tail.leave([pk])
