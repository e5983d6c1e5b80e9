"""One HTTP request over an SSH channel: a deadline for the whole of it, a cap on the answer."""

from __future__ import annotations

import http.client
import io
import time
from dataclasses import dataclass
from typing import Any

from fleet.execution.message import SentenceError, foreign, say


class HttpBroken(SentenceError):
    """The other side does not speak HTTP, or too much of it."""


@dataclass(frozen=True)
class HttpRequest:
    """`limit`: the most bytes of an answer that are read."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes | None = None
    limit: int = 4 * 1024 * 1024


@dataclass(frozen=True)
class HttpAnswer:
    """A status with its body; `ms` from the first byte sent to the last received."""

    status: int
    ms: float
    body: bytes
    content_type: str = ""


def ask(channel: Any, request: HttpRequest, *, host: str, until: float) -> HttpAnswer:
    """Send a request over an open channel. Raises TimeoutError, HttpBroken, OSError."""
    client = http.client.HTTPConnection(host)
    client.sock = _TimedSocket(channel, until)
    begun = time.monotonic()
    try:
        client.request(
            request.method,
            request.path,
            body=request.body,
            headers={"Host": host, "Connection": "close", **request.headers},
        )
        response = client.getresponse()
        body = response.read(request.limit + 1)
    except (http.client.HTTPException, ValueError) as error:
        found = f"{type(error).__name__} {error}"[:300]
        raise HttpBroken(say("not an HTTP answer: %(found)s", found=foreign(found))) from error
    if len(body) > request.limit:
        raise HttpBroken(say("the answer is longer than %(n)s bytes", n=request.limit))
    if response.length:
        raise HttpBroken(say("the answer ended %(n)s bytes early", n=response.length))
    ms = (time.monotonic() - begun) * 1000
    return HttpAnswer(response.status, ms, body, response.getheader("Content-Type", "")[:100])


class _TimedSocket(io.RawIOBase):
    """A channel as http.client wants its socket; every wait counts against one deadline."""

    def __init__(self, channel: Any, until: float) -> None:
        self._channel = channel
        self._until = until

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._set_limit()
        block = self._channel.recv(len(buffer))
        buffer[: len(block)] = block
        return len(block)

    def sendall(self, block: bytes) -> None:
        self._set_limit()
        self._channel.sendall(block)

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(self, 65536)

    def close(self) -> None:
        """The channel is closed by its owner."""

    def _set_limit(self) -> None:
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._channel.settimeout(left)
