"""The doorbell: tells open pages that something changed, after the commit, by topic only.

It carries no content and may lose rings; pages are true without it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from functools import partial

from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from django.db import transaction

log = logging.getLogger(__name__)

RING_TIMEOUT_S = 2.0


def ring(*topics: str) -> None:
    """Ring these topics once the open transaction is committed; without one, at once."""
    wanted = tuple(dict.fromkeys(topic for topic in topics if topic))
    if wanted:
        # robust: a page that is not told must never undo or hide what was committed
        transaction.on_commit(partial(_send, wanted), robust=True)


def group_of(topic: str) -> str:
    """Return the channel group that listens to a topic."""
    return f"page.{topic}"


def _send(topics: tuple[str, ...]) -> None:
    try:
        async_to_sync(_send_all)(topics)
    except Exception as error:  # whatever Redis says: the change is stored, pages poll
        log.warning("doorbell: %s not rung: %s", ", ".join(topics[:5]), error)


async def _send_all(topics: tuple[str, ...]) -> None:
    layer, version = get_channel_layer(), time.time_ns() // 1_000_000
    async with asyncio.timeout(RING_TIMEOUT_S):
        for topic in topics:
            message = {"type": "page.ring", "topic": topic, "v": version}
            await layer.group_send(group_of(topic), message)
