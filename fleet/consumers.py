"""The socket of a page: it hears rings of the topics that its person may read, and says nothing else.

No command ever comes over a socket. The socket of the log viewer is in log_consumer.py.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from typing import Any
from urllib.parse import parse_qs

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings

from fleet.doorbell import EVERYBODY, group_of, person_group
from fleet.log_consumer import LogConsumer
from fleet.selectors.people import may_hear, person_of_session
from fleet.services.limits import socket_meter

__all__ = ["LogConsumer", "PageConsumer"]

log = logging.getLogger(__name__)

TOPICS_MAX = 20
RECHECK_S = 60.0
HEARTBEAT_S = 15.0
NOT_ALLOWED, TOO_MANY = 4403, 4429


class PageConsumer(AsyncWebsocketConsumer):
    """One socket a tab: `/ws/page/?topics=fleet,node-h100-001`.

    Frames out: {"topic", "v"}, and {"topic": "clock", "v"} with the server's time in ms. Closes with 4403 when the
    person may not (any more) read a topic, 4429 after too many connects within a minute.
    """

    topics: tuple[str, ...] = ()
    _watch: asyncio.Task[None] | None = None

    async def connect(self) -> None:
        user = self.scope.get("user")
        if user is None or not user.is_authenticated:
            await self.close()  # refused in the handshake: 403
            return
        await self.accept()
        self.topics = _topics(self.scope["query_string"])
        if not socket_meter.allows(user.pk):
            await self._refuse(TOO_MANY, "too many connects within a minute")
        elif not self.topics or len(self.topics) > TOPICS_MAX:
            await self._refuse(NOT_ALLOWED, f"expected 1 to {TOPICS_MAX} topics")
        elif not await self._is_allowed():
            await self._refuse(NOT_ALLOWED, "not allowed to hear one of the topics")
        else:
            await self._listen(user.pk)

    async def disconnect(self, code: int) -> None:
        if self._watch:
            self._watch.cancel()
        for group in self._groups():
            try:
                await self.channel_layer.group_discard(group, self.channel_name)
            except Exception as error:  # Redis is away: the group forgets the channel by itself
                log.warning("page socket: %s not left: %s", group, error)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Ignore whatever a page says: nothing is commanded over a socket."""

    async def page_ring(self, message: dict[str, Any]) -> None:
        await self._say(message["topic"], message["v"])

    async def page_rings(self, message: dict[str, Any]) -> None:
        """Hear a ring of more topics than are told one by one."""
        rung = frozenset(message["topics"])
        for topic in self.topics:
            if topic in rung:
                await self._say(topic, message["v"])

    async def person_changed(self, message: dict[str, Any]) -> None:
        await self._recheck()

    async def _listen(self, user_pk: int) -> None:
        self._own_group = person_group(user_pk)
        for group in self._groups():
            await self.channel_layer.group_add(group, self.channel_name)
        await self._say("clock", _now_ms())
        self._watch = asyncio.create_task(self._keep())

    def _groups(self) -> list[str]:
        own = getattr(self, "_own_group", None)
        return [own, EVERYBODY, *map(group_of, self.topics)] if own else []

    async def _keep(self) -> None:
        """Say the server's time now and then, and look again whether the person may still listen."""
        checked = time.monotonic()
        while True:
            await asyncio.sleep(HEARTBEAT_S / settings.TIME_SCALE)
            await self._say("clock", _now_ms())
            if time.monotonic() - checked >= RECHECK_S / settings.TIME_SCALE:
                checked = time.monotonic()
                await self._recheck()

    async def _recheck(self) -> None:
        if not await self._is_allowed():
            await self._refuse(NOT_ALLOWED, "not allowed any more")

    async def _is_allowed(self) -> bool:
        user = await database_sync_to_async(person_of_session)(self.scope["session"].session_key)
        return user is not None and await database_sync_to_async(may_hear)(user, self.topics)

    async def _refuse(self, code: int, why: str) -> None:
        await self.send(text_data=json.dumps({"closed": why}))
        await self.close(code=code)

    async def _say(self, topic: str, version: int) -> None:
        await self.send(text_data=json.dumps({"topic": topic, "v": version}))


def _topics(query: bytes) -> tuple[str, ...]:
    words = parse_qs(query.decode("ascii", "replace")).get("topics", [""])[0]
    return tuple(dict.fromkeys(word for word in words.split(",") if word))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
