"""What one open log page is sent: every line after its cursor, without a gap and without a repeat.

Hot lines come from the shared tail, older ones from Postgres. A slow reader blocks only itself: while its
socket is full nothing is buffered for it, and it goes on at its own cursor.
"""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence

from asgiref.sync import sync_to_async
from django.db import close_old_connections

from fleet.execution import log_format, streams
from fleet.log_tail import HotFrame, LogTail, Tailed
from fleet.log_wire import WireLine, frames, taker, wire_lines
from fleet.rules.log_filter import LogFilter
from fleet.selectors.log_search import BadPattern, SlowPattern, match_lines

HEARTBEAT_S = 5.0
_COLD_LINES = 2000
_MATCH_S = 0.3

Send = Callable[[str], Awaitable[None]]


class LogFeed:
    """Sends the lines of some streams after a cursor, for ever."""

    def __init__(
        self, tail: LogTail, after: Mapping[int, int], wanted: LogFilter, send: Send
    ) -> None:
        self._tail = tail
        self._at = dict(after)
        self._wanted = wanted
        self._takes = taker(wanted)
        self._send = send
        self._ended: set[int] = set()
        self._said_at = 0.0

    async def run(self) -> None:
        """Send until cancelled. Raises `BadPattern` for an expression that does not parse."""
        while True:
            moved = [await self._advance(stream_id) for stream_id in self._at]
            if time.monotonic() - self._said_at >= HEARTBEAT_S:
                await self._say_alive()
            if not any(moved):
                await self._tail.wait(HEARTBEAT_S)

    async def _advance(self, stream_id: int) -> bool:
        """Send the next lines of a stream; tell whether there were some."""
        tailed = self._tail.streams.get(stream_id)
        if tailed is None:
            return False
        at = self._at[stream_id]
        frame = tailed.after(at)
        if frame is not None and frame.first <= at + 1:
            await self._send_hot(frame, at)
            return True
        # Behind the held frames, or Redis lost some: Postgres has them, now or within a second.
        if tailed.stored > at:
            return await self._send_cold(stream_id, at)
        if tailed.is_complete and stream_id not in self._ended:
            await self._say_ended(tailed)
        return False

    async def _send_hot(self, frame: HotFrame, at: int) -> None:
        if self._wanted.is_empty and frame.first == at + 1:
            for text in frame.whole:
                await self._send(text)
        else:
            await self._send_lines(frame.stream_id, frame.lines[at + 1 - frame.first :])
        self._at[frame.stream_id] = frame.last

    async def _send_cold(self, stream_id: int, at: int) -> bool:
        lines = await _read_cold(stream_id, at)
        if lines:
            await self._send_lines(stream_id, lines)
            self._at[stream_id] = lines[-1].number
        return bool(lines)

    async def _send_lines(self, stream_id: int, lines: Sequence[WireLine]) -> None:
        takes = self._takes
        if self._wanted.pattern:
            takes = await self._matched(lines)
        for text in frames(stream_id, lines, takes):
            await self._send(text)

    async def _matched(self, lines: Sequence[WireLine]) -> Callable[[WireLine], bool]:
        candidates = [one for one in lines if self._takes is None or self._takes(one)]
        texts = [one.text for one in candidates]
        try:
            found = await _match(self._wanted.pattern, texts) if texts else []
        except SlowPattern:
            await self._send(json.dumps({"error": "slow-pattern"}))
            raise BadPattern("the expression takes too long on live lines") from None
        numbers = {candidates[at].number for at in found}
        return lambda line: line.number in numbers

    async def _say_ended(self, tailed: Tailed) -> None:
        self._ended.add(tailed.stream_id)
        await self._send(json.dumps({"stream": tailed.stream_id, "ended": True}))

    async def _say_alive(self) -> None:
        self._said_at = time.monotonic()
        captured = {
            str(pk): self._tail.streams[pk].captured_ms
            for pk in self._at
            if pk in self._tail.streams
        }
        source = "redis" if self._tail.is_hot else "postgres"
        clock = time.time_ns() // 1_000_000
        await self._send(json.dumps({"clock": clock, "captured_at": captured, "source": source}))


def _cold_lines(stream_id: int, at: int) -> list[WireLine]:
    close_old_connections()
    try:
        found: list[WireLine] = []
        for chunk in streams.chunks_after(stream_id, at):
            base_ms = log_format.to_ms(chunk.started_at)
            lines = wire_lines(streams.chunk_rows(chunk), chunk.first_line, base_ms)
            found += [line for line in lines if line.number > at]
            if len(found) >= _COLD_LINES:
                break
        return found
    finally:
        close_old_connections()


def _match_lines(pattern: str, texts: list[str]) -> list[int]:
    close_old_connections()
    try:
        return match_lines(pattern, texts, _MATCH_S)
    finally:
        close_old_connections()


_read_cold = sync_to_async(_cold_lines, thread_sensitive=False)
_match = sync_to_async(_match_lines, thread_sensitive=False)
