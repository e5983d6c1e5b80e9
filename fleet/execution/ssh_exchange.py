"""Text to a port and back over an SSH channel: all that comes until the other side ends, by a deadline and a cap."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from typing import Any

from fleet.execution.message import SentenceError, say

_BLOCK_BYTES = 64 * 1024


class ExchangeBroken(SentenceError):
    """The other side says nothing, too much, or does not come to an end."""


class LinkCut(SentenceError):
    """The SSH connection ended under it: nothing is known of the other side."""


@dataclass(frozen=True)
class ExchangeAnswer:
    """All that came until the other side ended; `ms` from the first byte sent to the end."""

    ms: float
    body: bytes


def exchange(channel: Any, text: bytes, *, limit: int, until: float) -> ExchangeAnswer:
    """Send all of `text`, say that no more comes, and read to the end.

    Raises ExchangeBroken, LinkCut, OSError.
    """
    begun = time.monotonic()
    answer = bytearray()
    try:
        _set_limit(channel, until)
        _send(channel, text)
        while block := _next_block(channel, until):
            answer += block
            if len(answer) > limit:
                raise ExchangeBroken(say("the answer is longer than %(n)s bytes", n=limit))
    except TimeoutError:
        span = f"{time.monotonic() - begun:.1f}"
        if answer:
            words = say("the answer did not end in %(seconds)s s", seconds=span)
        else:
            words = say("it took the connection and said nothing in %(seconds)s s", seconds=span)
        raise ExchangeBroken(words) from None
    # A channel reads as ended too when its connection broke; only the node's own word is an end.
    if not channel.eof_received:
        raise LinkCut(say("it broke off"))
    return ExchangeAnswer((time.monotonic() - begun) * 1000, bytes(answer))


def _send(channel: Any, text: bytes) -> None:
    channel.sendall(text)
    # Whoever ended before it was told that no more comes has answered all the same.
    with contextlib.suppress(EOFError, OSError):
        channel.shutdown_write()


def _next_block(channel: Any, until: float) -> bytes:
    _set_limit(channel, until)
    return bytes(channel.recv(_BLOCK_BYTES))


def _set_limit(channel: Any, until: float) -> None:
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError
    channel.settimeout(left)
