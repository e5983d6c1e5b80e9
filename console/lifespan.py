"""Start and end of one web process, which keeps a pool of database connections.

Each request has a thread of its own, and Django's persistent connections would stay with those threads
and pile up. Other processes keep one connection each.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from django.db import connections

_POOL = {"min_size": 1, "max_size": 16, "timeout": 5.0}


async def lifespan(
    scope: dict[str, Any],
    receive: Callable[[], Awaitable[dict[str, Any]]],
    send: Callable[[dict[str, Any]], Awaitable[None]],
) -> None:
    """Answer the server's lifespan events."""
    await receive()
    keep_pool()
    await send({"type": "lifespan.startup.complete"})
    await receive()
    connections["default"].close_pool()
    await send({"type": "lifespan.shutdown.complete"})


def keep_pool() -> None:
    """Let every connection that this process opens from now on come from one pool."""
    database = connections.settings["default"]
    database["CONN_MAX_AGE"] = 0
    database["OPTIONS"] = {**database["OPTIONS"], "pool": dict(_POOL)}
