"""A browser's side of the log socket in Python: reads, loses its connection, and goes on at its cursor."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass, field

import websockets
from django.test import Client

from tests import factories

_RETRY_S = 0.1


@dataclass
class Reader:
    """Collects line numbers by stream. `faults` says what came twice or out of order; it must stay empty."""

    url: str
    headers: dict[str, str]
    after: dict[int, int] = field(default_factory=dict)
    lines: int = 0
    connects: int = 0
    faults: list[str] = field(default_factory=list)
    delays_ms: list[float] = field(default_factory=list)
    measures: bool = False
    _socket: websockets.ClientConnection | None = None

    async def run(self) -> None:
        """Read for ever, through every broken connection."""
        while True:
            try:
                async with websockets.connect(
                    self.url,
                    additional_headers=self.headers,
                    max_size=1 << 20,
                    compression=None,
                    proxy=None,
                    open_timeout=10,
                ) as socket:
                    self.connects += 1
                    self._socket = socket
                    await socket.send(json.dumps({"after": self.after}))
                    async for message in socket:
                        self._take(json.loads(message))
            except (OSError, websockets.WebSocketException, TimeoutError):
                pass
            await asyncio.sleep(_RETRY_S)

    async def cut(self) -> None:
        """Lose the connection without a word, as a cable does."""
        if self._socket is not None:
            self._socket.transport.abort()

    def _take(self, frame: dict) -> None:
        if "lines" not in frame:
            return
        stream, first, count = frame["stream"], frame["first_line"], frame["count"]
        known = self.after.get(stream, 0)
        if first != known + 1:
            self.faults.append(f"stream {stream}: line {first} came after {known}")
        self.after[stream] = first + count - 1
        self.lines += count
        if self.measures:
            now = time.monotonic_ns()
            for line in frame["lines"]:
                self.delays_ms.append((now - int(line[5].split(" ", 2)[1])) / 1e6)


def session_key(name: str = "chen") -> str:
    """Sign a person in and return the key of the session."""
    client = Client()
    client.force_login(factories.make_person(name))
    return client.cookies["flotilla-session"].value


def session_headers(origin: str, name: str = "chen") -> dict[str, str]:
    """Return what the browser of a signed-in person would send from a page of `origin`."""
    return {"Cookie": f"flotilla-session={session_key(name)}", "Origin": origin}
