"""Exactly once on the page's side: whatever dies between the watch and a reader, no line is missing or doubled."""

import asyncio
import os
import sys
from collections.abc import Callable
from typing import Any

import pytest

from console.embedded import redis as embedded_redis
from fleet.execution.models import LogStream
from tests.children import Child
from tests.live import log_scene
from tests.live.pump import Pump
from tests.live.reader import Reader, session_headers
from tests.live.threads import in_thread

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.faults]


class World:
    """A web process and a Redis of one test, each to be killed and started again."""

    def __init__(self, run_child: Callable[..., Child], port: int, cache: embedded_redis.Redis):
        self._run_child = run_child
        self._cache = cache
        self.port = port
        self.redis: Child | None = None
        self.web: Child | None = None

    def start_redis(self) -> None:
        self.redis = self._run_child(self._cache.argv())
        embedded_redis.wait_until_it_answers(self._cache.url, timeout_s=60)

    def start_web(self) -> None:
        argv = [sys.executable, "-m", "uvicorn", "console.asgi:application", "--host", "127.0.0.1"]
        argv += ["--port", str(self.port), "--log-level", "warning"]
        self.web = self._run_child(argv, REDIS_URL=self._cache.url, PORT=str(self.port))


@pytest.fixture
def world(
    run_child: Any, free_port: Any, tmp_path: Any, settings: Any, transactional_db: None
) -> World:
    cache = embedded_redis.prepare(tmp_path, free_port(), "secret", is_throwaway=True)
    settings.STREAMS_REDIS_URL = f"{cache.url}/3"
    world = World(run_child, free_port(), cache)
    world.start_redis()
    world.start_web()
    return world


async def test_every_line_arrives_once_through_reconnects_and_deaths(world: World) -> None:
    launch = await in_thread(log_scene.make_launch, 2)
    streams = await in_thread(lambda: [log_scene.stream_of(launch, n).pk for n in (0, 1)])
    fence = await in_thread(log_scene.hold_lease)
    headers = await in_thread(session_headers, f"http://127.0.0.1:{world.port}")
    url = f"ws://127.0.0.1:{world.port}/ws/log/{launch.public_id}/"
    readers = [Reader(url, headers) for _ in range(2)]
    tasks = [asyncio.create_task(reader.run()) for reader in readers]
    pump = await in_thread(Pump, streams, fence, 1500)
    await in_thread(pump.__enter__)
    try:
        await _until(lambda: all(reader.lines > 1000 for reader in readers), "the first lines")
        for step in range(10):
            before = [reader.connects for reader in readers]
            for reader in readers:
                await reader.cut()
            if step == 2:
                await in_thread(_kill_and, world.web, world.start_web)
            if step == 5:
                await in_thread(_kill_and, world.redis, world.start_redis)
            await _until(lambda known=before: _all_back(readers, known), "every reader back")
    finally:
        await in_thread(pump.__exit__, None, None, None)
    await _until(lambda: all(reader.after == pump.sent for reader in readers), "every line")
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert [reader.faults for reader in readers] == [[], []]
    assert all(reader.connects > 10 for reader in readers)
    stored = await in_thread(lambda: dict(LogStream.objects.values_list("pk", "line_count")))
    assert stored == pump.sent


def _all_back(readers: list[Reader], known: list[int]) -> bool:
    return all(one.connects > before for one, before in zip(readers, known, strict=True))


def _kill_and(child: Child | None, start: Callable[[], None]) -> None:
    assert child is not None
    os.kill(child.pid, 9)
    child.wait()
    start()


async def _until(predicate: Callable[[], bool], what: str, timeout_s: float = 60.0) -> None:
    try:
        async with asyncio.timeout(timeout_s):
            while not predicate():
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"waited {timeout_s:.0f} s in vain for {what}") from None
