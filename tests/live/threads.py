"""Database work of an async test: in a thread that leaves no connection behind."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from django.db import connections

T = TypeVar("T")


async def in_thread(job: Callable[..., T], *args: Any, **named: Any) -> T:
    """Run a job in a thread and close what it opened."""

    def run() -> T:
        try:
            return job(*args, **named)
        finally:
            connections.close_all()

    return await asyncio.to_thread(run)
