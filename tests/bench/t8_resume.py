"""T8, lossless resume: readers lose their connection ten times each, the web process and Redis die once.

Every line of every stream must reach every reader once and in order. The peer is arithmetic: a line that is
missing or doubled fails the target. Delays and the web's CPU a delivered line are printed beside it.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import time
from typing import Any

from tests.bench.ground import Ground
from tests.bench.targets import Outcome, target

SECONDS = float(os.environ.get("T8_SECONDS", "60"))
RATE, READERS, RECONNECTS = 2000, 4, 10
_CATCH_UP_S = 60.0


@target("T8")
def lossless_resume(ground: Ground) -> Outcome:
    """60 s at 2,000 lines a second on two streams, read by four pages."""
    _ = ground.database
    from console.embedded import ports
    from tests.live import log_scene
    from tests.live.pump import Pump
    from tests.live.reader import Reader, session_headers

    launch = log_scene.make_launch(2, name="bench-t8")
    streams = [log_scene.stream_of(launch, n).pk for n in (0, 1)]
    held, port = ports.reserve_port()
    held.close()
    web = _Web(ground, port)
    url = f"ws://127.0.0.1:{port}/ws/log/{launch.public_id}/"
    headers = session_headers(f"http://127.0.0.1:{port}")
    readers = [Reader(url, headers, measures=True) for _ in range(READERS)]
    pump = Pump(streams, log_scene.hold_lease(), RATE)
    asyncio.run(_scene(pump, readers, web))
    sent = sum(pump.sent.values())
    faults = sum(len(reader.faults) for reader in readers)
    whole = sum(reader.after == pump.sent and reader.lines == sent for reader in readers)
    delays = sorted(delay for reader in readers for delay in reader.delays_ms)
    return Outcome(
        is_met=faults == 0 and whole == READERS and min(r.connects for r in readers) > RECONNECTS,
        values={
            "exactly_once": f"{100 * whole / READERS:.0f}%",
            "need": "100%",
            "lines": sent,
            "readers": READERS,
            "reconnects": min(reader.connects for reader in readers) - 1,
            "faults": faults,
            "median_ms": statistics.median(delays),
            "web_us_a_line": web.cpu_s() / max(1, sum(r.lines for r in readers)) * 1e6,
        },
    )


class _Web:
    """The web process under test, to be killed once."""

    def __init__(self, ground: Ground, port: int):
        self._ground, self._port = ground, port
        self._spent_s = 0.0
        self._child = self._start()

    def _start(self) -> Any:
        argv = [sys.executable, "-m", "uvicorn", "console.asgi:application", "--host", "127.0.0.1"]
        argv += ["--port", str(self._port), "--log-level", "error"]
        return self._ground.child(argv, PORT=str(self._port))

    def cpu_s(self) -> float:
        """CPU seconds of all web processes so far, start-up included."""
        return self._spent_s + _cpu_s(self._child.pid)

    def kill_and_start(self) -> None:
        self._spent_s += _cpu_s(self._child.pid)
        self._child.kill()
        self._child.wait()
        self._child = self._start()


async def _scene(pump: Any, readers: list[Any], web: _Web) -> None:
    tasks = [asyncio.create_task(reader.run()) for reader in readers]
    await _until(lambda: all(reader.connects for reader in readers), _CATCH_UP_S)
    await asyncio.to_thread(pump.__enter__)
    begun = time.monotonic()
    for step in range(RECONNECTS):
        await asyncio.sleep(
            max(0.0, begun + SECONDS * (step + 1) / (RECONNECTS + 1) - time.monotonic())
        )
        for reader in readers:
            await reader.cut()
        if step == RECONNECTS // 3:
            await asyncio.to_thread(web.kill_and_start)
        if step == RECONNECTS // 2:
            await asyncio.to_thread(_flush_redis)
        known = [reader.connects for reader in readers]
        await _until(
            lambda known=known: all(r.connects > k for r, k in zip(readers, known, strict=True)),
            _CATCH_UP_S,
        )
    await asyncio.to_thread(pump.__exit__, None, None, None)
    await _until(lambda: all(reader.after == pump.sent for reader in readers), _CATCH_UP_S)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _until(predicate: Any, timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while not predicate():
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(0.05)
    return True


def _flush_redis() -> None:
    import redis
    from django.conf import settings

    with redis.Redis.from_url(settings.STREAMS_REDIS_URL) as client:
        client.flushall()


def _cpu_s(pid: int) -> float:
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
