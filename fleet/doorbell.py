"""The doorbell: tells open pages that something changed, after the commit, by topic only.

It carries no content and may lose rings; pages are true without it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from functools import partial
from typing import Any

from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from django.db import transaction

log = logging.getLogger(__name__)

RING_TIMEOUT_S = 2.0
MANY = 20  # more topics go to every page in one message, of which each picks its own
EVERYBODY = "page.everybody"


def ring(*topics: str) -> None:
    """Ring these topics once the open transaction is committed; without one, at once."""
    wanted = tuple(dict.fromkeys(topic for topic in topics if topic))
    if wanted:
        # robust: a page that is not told must never undo or hide what was committed
        transaction.on_commit(partial(_send, wanted), robust=True)


def ring_person(user_pk: int) -> None:
    """Make the open sockets of a person look again at what the person may hear, after the commit."""
    message = {"type": "person.changed"}
    transaction.on_commit(partial(_send_messages, [(person_group(user_pk), message)]), robust=True)


def person_group(user_pk: int) -> str:
    """Return the channel group of a person's own sockets."""
    return f"person.{user_pk}"


def group_of(topic: str) -> str:
    """Return the channel group that listens to a topic."""
    return f"page.{topic}"


def _send(topics: tuple[str, ...]) -> None:
    version = time.time_ns() // 1_000_000
    if len(topics) > MANY:
        _send_messages([(EVERYBODY, {"type": "page.rings", "topics": topics, "v": version})])
        return
    _send_messages(
        [(group_of(topic), {"type": "page.ring", "topic": topic, "v": version}) for topic in topics]
    )


def _send_messages(messages: list[tuple[str, dict[str, Any]]]) -> None:
    try:
        async_to_sync(_send_all)(messages)
    except Exception as error:  # whatever Redis says: the change is stored, pages poll
        groups = ", ".join(group for group, _ in messages[:5])
        log.warning("doorbell: %s not rung: %s", groups, error)


async def _send_all(messages: list[tuple[str, dict[str, Any]]]) -> None:
    layer = get_channel_layer()
    async with asyncio.timeout(RING_TIMEOUT_S):
        await asyncio.gather(*(layer.group_send(group, message) for group, message in messages))
