"""The hot end of log streams, read from Redis once a process for all its sockets.

Holds the last frames of each stream that somebody looks at, and asks Postgres every second how far they are
stored. Redis may be away: then the numbers of Postgres alone move the readers on.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

import redis.asyncio
from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import close_old_connections
from redis.exceptions import RedisError

from fleet.execution.models import LogStream
from fleet.execution.watch_frames import stream_key
from fleet.log_wire import WireLine, frames, wire_lines

log = logging.getLogger(__name__)

POLL_S = 1.0
_BLOCK_MS = 500
_AWAY_S = 1.0
_HUNG_S = 5.0
_FRAMES_A_READ = 32
_RING_BYTES = 4 * 1024 * 1024


@dataclass
class HotFrame:
    """Some lines as Redis carried them, made ready for browsers when the first one wants them."""

    stream_id: int
    first: int
    last: int
    rows: bytes

    @cached_property
    def lines(self) -> list[WireLine]:
        return wire_lines(self.rows, self.first)

    @cached_property
    def whole(self) -> list[str]:
        """The messages for a reader without filter who has everything before this frame."""
        return list(frames(self.stream_id, self.lines))


@dataclass
class Tailed:
    """One stream that is looked at. `stored` is the last line in Postgres, as last asked."""

    stream_id: int
    stored: int
    readers: int = 0
    last_id: int = 0
    is_complete: bool = False
    captured_ms: int | None = None
    ring: deque[HotFrame] = field(default_factory=deque)
    ring_bytes: int = 0

    def after(self, line: int) -> HotFrame | None:
        """Return the first held frame that reaches beyond a line."""
        if not self.ring or self.ring[-1].last <= line:
            return None
        return next(frame for frame in self.ring if frame.last > line)

    def add(self, frame: HotFrame) -> None:
        self.ring.append(frame)
        self.ring_bytes += len(frame.rows)
        while self.ring_bytes > _RING_BYTES and len(self.ring) > 1:
            self.ring_bytes -= len(self.ring.popleft().rows)


class LogTail:
    """Feeds every reader of this process. Belongs to one event loop."""

    def __init__(self) -> None:
        self.streams: dict[int, Tailed] = {}
        self.is_hot = False
        self._news = asyncio.Event()
        self._redis: Any = None
        self._tasks: list[asyncio.Task[None]] = []

    async def join(self, stored: dict[int, int]) -> None:
        """Start reading streams, from their last stored lines on."""
        for stream_id, line in stored.items():
            tailed = self.streams.setdefault(stream_id, Tailed(stream_id, line, last_id=line))
            tailed.readers += 1
        if not self._tasks:
            self._tasks = [asyncio.create_task(self._read()), asyncio.create_task(self._ask())]

    async def leave(self, stream_ids: Iterable[int]) -> None:
        """Stop reading streams that nobody looks at any more."""
        for stream_id in stream_ids:
            tailed = self.streams.get(stream_id)
            if tailed is not None:
                tailed.readers -= 1
                if tailed.readers <= 0:
                    del self.streams[stream_id]
        if not self.streams:
            await self._stop()

    async def wait(self, timeout_s: float) -> None:
        """Wait until something new is held or stored, at most `timeout_s`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._news.wait()

    def _ring_out(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    async def _stop(self) -> None:
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._hang_up()

    async def _hang_up(self) -> None:
        if self._redis is not None:
            client, self._redis = self._redis, None
            with contextlib.suppress(RedisError, OSError):
                await client.aclose()

    # Redis: what is new

    async def _read(self) -> None:
        while True:
            try:
                async with asyncio.timeout(_HUNG_S):
                    found = await self._next_entries()
            except (RedisError, OSError, TimeoutError) as error:
                if self.is_hot:
                    log.warning("log lines come from Postgres until Redis answers: %s", error)
                self.is_hot = False
                await self._hang_up()
                await asyncio.sleep(_AWAY_S)
                continue
            self.is_hot = True
            if found:
                self._ring_out()

    async def _next_entries(self) -> int:
        if self._redis is None:
            # redis-py 8 gives every socket a 5 s time-out of its own; a blocking read must not meet it.
            self._redis = redis.asyncio.Redis.from_url(
                settings.STREAMS_REDIS_URL, socket_timeout=None, socket_connect_timeout=2
            )
        wanted = {stream_key(pk): f"{one.last_id}-0" for pk, one in self.streams.items()}
        found = await self._redis.xread(wanted, count=_FRAMES_A_READ, block=_BLOCK_MS)
        pairs = found.items() if isinstance(found, dict) else found
        return sum(self._take(key, entries) for key, entries in pairs)

    def _take(self, key: bytes, entries: Any) -> int:
        tailed = self.streams.get(int(key.rpartition(b":")[2]))
        if tailed is None:
            return 0
        batch = entries[0] if entries and isinstance(entries[0], list) else entries
        for entry_id, fields in batch:
            tailed.last_id = int(entry_id.partition(b"-")[0])
            frame = HotFrame(tailed.stream_id, int(fields[b"n"]), tailed.last_id, fields[b"d"])
            tailed.add(frame)
        return len(batch)

    # Postgres: what is stored

    async def _ask(self) -> None:
        ask = sync_to_async(_stream_rows, thread_sensitive=False)
        while True:
            await asyncio.sleep(POLL_S)
            try:
                rows = await ask(list(self.streams))
            except Exception as error:  # whatever the database says: ask again
                log.warning("log streams: Postgres did not say how far they are: %s", error)
                continue
            news = [self._note(*row) for row in rows]
            if any(news):
                self._ring_out()

    def _note(self, pk: int, stored: int, is_complete: bool, captured_at: Any) -> bool:
        tailed = self.streams.get(pk)
        if tailed is None:
            return False
        is_news = (stored, is_complete) != (tailed.stored, tailed.is_complete)
        tailed.stored, tailed.is_complete = stored, is_complete
        tailed.captured_ms = int(captured_at.timestamp() * 1000) if captured_at else None
        return is_news


def _stream_rows(stream_ids: list[int]) -> list[tuple[int, int, bool, Any]]:
    close_old_connections()
    try:
        rows = LogStream.objects.filter(pk__in=stream_ids)
        return list(rows.values_list("pk", "line_count", "is_complete", "captured_at"))
    finally:
        close_old_connections()


_TAILS: WeakKeyDictionary[asyncio.AbstractEventLoop, LogTail] = WeakKeyDictionary()


def shared_tail() -> LogTail:
    """Return the tail of the running event loop; a web process has one."""
    return _TAILS.setdefault(asyncio.get_running_loop(), LogTail())
