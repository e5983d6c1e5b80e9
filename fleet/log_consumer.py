"""The socket of the log viewer: a page says what it has, and gets everything after it.

In: {"after": {stream id: line}, "level", "rank", "sub", "q"}; saying it again starts over from there.
Out: {"stream", "first_line", "count", "lines"}, {"stream", "ended"}, {"clock", "captured_at", "source"}.
It uses no channel layer, so it lives on while Redis is away. Nothing is commanded over it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from typing import Any

from asgiref.sync import sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings

from fleet.log_feed import LogFeed
from fleet.log_tail import LogTail, shared_tail
from fleet.rules import policy
from fleet.rules.log_filter import LogFilter, parse_filter
from fleet.selectors.log_search import BadPattern
from fleet.selectors.logs import LogSource, log_sources, stream_ends
from fleet.selectors.people import person_of_session
from fleet.selectors.scope import scope_object, scope_pool
from fleet.services.limits import socket_meter

log = logging.getLogger(__name__)

RECHECK_S = 5.0  # the design asks for 60 s and for every change of a role; asking often is both
ASKED_WITHIN_S = 20.0
MESSAGE_BYTES = 16 * 1024
NOT_UNDERSTOOD, NOT_ALLOWED, NOT_FOUND, TOO_MANY = 4400, 4403, 4404, 4429


class LogConsumer(AsyncWebsocketConsumer):
    """One socket a log page: `/ws/log/LN-0001/`."""

    channel_layer_alias = None  # see above
    _tail: LogTail | None = None
    _sources: list[LogSource] = []
    _feed: asyncio.Task[None] | None = None
    _guard: asyncio.Task[None] | None = None
    _has_said_changed = False

    async def connect(self) -> None:
        user = self.scope.get("user")
        if user is None or not user.is_authenticated:
            await self.close()  # refused in the handshake: 403
            return
        self._launch = self.scope["url_route"]["kwargs"]["launch"]
        await self.accept()
        if not socket_meter.allows(user.pk):
            await self._refuse(TOO_MANY, "too many connects within a minute")
        elif not await self._is_allowed():
            await self._refuse(NOT_ALLOWED, "not allowed to read this log")
        else:
            await self._open()

    async def disconnect(self, code: int) -> None:
        for task in (self._guard, self._feed):
            if task:
                task.cancel()
        if self._tail:
            tail, self._tail = self._tail, None
            await tail.leave(source.stream_id for source in self._sources)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        if self._tail is None:
            return
        asked = _read_request(text_data, {source.stream_id for source in self._sources})
        if asked is None:
            await self._refuse(NOT_UNDERSTOOD, 'expected {"after": {stream: line}}')
            return
        if self._feed:
            self._feed.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await self._feed
        self._feed = asyncio.create_task(self._send_lines(*asked))

    async def _open(self) -> None:
        sources = await sync_to_async(log_sources)("launch", self._launch)
        if sources is None:
            await self._refuse(NOT_FOUND, "there is no such launch")
            return
        self._sources = sources
        self._tail = shared_tail()
        await self._tail.join(await sync_to_async(stream_ends)(sources))
        self._guard = asyncio.create_task(self._keep_checking())

    async def _send_lines(self, after: dict[int, int], wanted: LogFilter) -> None:
        assert self._tail is not None
        try:
            await LogFeed(self._tail, after, wanted, self._say).run()
        except BadPattern as error:
            await self._refuse(NOT_UNDERSTOOD, f"the expression was not used: {error}")
        except (asyncio.CancelledError, OSError):  # the page has gone
            raise
        except Exception:  # the page reconnects and goes on at its cursor
            log.exception("log socket of %s stopped", self._launch)
            await self.close(code=1011)

    async def _keep_checking(self) -> None:
        """Close as soon as the person may not read this log any more, or never says what it has."""
        every_s = RECHECK_S / settings.TIME_SCALE
        silent_s = 0.0
        while True:
            await asyncio.sleep(every_s)
            silent_s += every_s
            if not await self._is_allowed():
                await self._refuse(NOT_ALLOWED, "not allowed any more")
                return
            await self._say_changed()
            if self._feed is None and silent_s > ASKED_WITHIN_S:
                await self._refuse(NOT_UNDERSTOOD, "nothing was asked for")
                return

    async def _say_changed(self) -> None:
        """A position that was started meanwhile has a stream now: the page is to be loaded anew."""
        sources = await sync_to_async(log_sources)("launch", self._launch)
        if sources is not None and sources != self._sources and not self._has_said_changed:
            self._has_said_changed = True
            await self.send(text_data=json.dumps({"changed": True}))

    async def _is_allowed(self) -> bool:
        session = self.scope["session"].session_key
        return await sync_to_async(_may_read)(session, self._launch)

    async def _refuse(self, code: int, why: str) -> None:
        if self._feed and self._feed is not asyncio.current_task():
            self._feed.cancel()
        await self.send(text_data=json.dumps({"closed": why}))
        await self.close(code=code)

    async def _say(self, text: str) -> None:
        await self.send(text_data=text)


def _may_read(session_key: str | None, launch: str) -> bool:
    user = person_of_session(session_key)
    if user is None:
        return False
    found = scope_object("launch", launch)
    # Without such a launch only the right to read some log is asked; the caller then says 4404.
    pool = scope_pool("launch", found) if found else None
    return policy.may(user, "ws-log", pool)


def _read_request(text: str | None, known: set[int]) -> tuple[dict[int, int], LogFilter] | None:
    """Read what a page asks for. Streams that it does not name start at their first line."""
    if not text or len(text) > MESSAGE_BYTES:
        return None
    try:
        asked: Any = json.loads(text)
        after = {int(key): int(line) for key, line in asked.get("after", {}).items()}
        words = {name: str(asked.get(name, "")) for name in ("level", "rank", "sub", "q")}
    except (ValueError, TypeError, AttributeError, RecursionError, OverflowError):
        return None
    return {pk: max(0, after.get(pk, 0)) for pk in known}, parse_filter(words)
