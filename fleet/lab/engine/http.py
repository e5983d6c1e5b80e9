"""A small HTTP/1.1 server on asyncio: keep-alive, bodies by length or chunks, streams, aborts.

Not in charge of routes. A closed client connection cancels the handler of its request.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable

from .texts import REASONS

MAX_HEAD_BYTES = 65536
MAX_BODY_BYTES = 64 << 20


class BadRequest(Exception):
    """The bytes are not HTTP that this server takes."""


class Request:
    """One request and the means to answer it."""

    def __init__(self, connection: "Connection", method: str, path: str, headers: dict) -> None:
        self.connection = connection
        self.method = method
        self.path, _, self.query = path.partition("?")
        self.target = path
        self.headers = headers
        self.body = b""
        self.status = 0
        self.version = "HTTP/1.1"

    @property
    def client(self) -> str:
        return self.connection.client

    @property
    def keep_alive(self) -> bool:
        wish = self.headers.get("connection", "").lower()
        return wish != "close" and (self.version == "HTTP/1.1" or wish == "keep-alive")

    def _head(self, status: int, kind: str, extra: str) -> bytes:
        self.status = status
        self.connection.server.on_answer(self)
        date = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime())
        lines = (
            f"HTTP/1.1 {status} {REASONS.get(status, '')}\r\ndate: {date}\r\nserver: uvicorn\r\n"
        )
        if kind:
            lines += f"content-type: {kind}\r\n"
        if not self.keep_alive:
            lines += "connection: close\r\n"
        return (lines + extra + "\r\n").encode()

    def answer(self, status: int, body: bytes = b"", kind: str = "application/json") -> None:
        """Send a whole answer."""
        head = self._head(status, kind if body else "", f"content-length: {len(body)}\r\n")
        self.connection.write(head + (b"" if self.method == "HEAD" else body))

    def answer_json(self, status: int, value: object) -> None:
        self.answer(status, json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())

    def begin_stream(self) -> None:
        """Start a server-sent event stream."""
        self.connection.write(
            self._head(200, "text/event-stream; charset=utf-8", "transfer-encoding: chunked\r\n")
        )

    def chunk(self, data: bytes) -> None:
        self.connection.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def end_stream(self) -> None:
        self.connection.write(b"0\r\n\r\n")


Handler = Callable[[Request], Awaitable[None]]


class Connection(asyncio.Protocol):
    """One client; answers its requests one after another."""

    def __init__(self, server: "Server") -> None:
        self.server = server
        self.buffer = b""
        self.transport: asyncio.Transport | None = None
        self.client = "-"
        self.task: asyncio.Task | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        peer = transport.get_extra_info("peername") or ("-", 0)
        self.client = f"{peer[0]}:{peer[1]}"
        self.server.connections.add(self)

    def connection_lost(self, error: Exception | None) -> None:
        self.server.connections.discard(self)
        self.transport = None
        if self.task is not None:
            self.task.cancel()

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        self._next()

    def write(self, data: bytes) -> None:
        if self.transport is not None:
            self.transport.write(data)

    def close(self) -> None:
        if self.transport is not None:
            self.transport.close()

    def _next(self) -> None:
        """Start the next whole request in the buffer, if none is being answered."""
        if self.task is not None or self.transport is None:
            return
        try:
            request = self._parse()
        except (BadRequest, ValueError):
            self.write(
                b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
            )
            self.close()
            return
        if request is not None:
            self.task = asyncio.get_running_loop().create_task(self._answer(request))

    async def _answer(self, request: Request) -> None:
        try:
            await self.server.handler(request)
        finally:
            self.task = None
        if not request.keep_alive:
            self.close()
        else:
            self._next()

    def _parse(self) -> Request | None:
        head, found, rest = self.buffer.partition(b"\r\n\r\n")
        if not found:
            if len(self.buffer) > MAX_HEAD_BYTES:
                raise BadRequest("head too large")
            return None
        first, *lines = head.decode("latin-1").split("\r\n")
        method, path, version = first.split(" ")
        headers = {}
        for line in lines:
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
        request = Request(self, method, path, headers)
        request.version = version
        body = self._body(headers, rest)
        if body is None:
            return None
        request.body, self.buffer = body
        return request

    def _body(self, headers: dict, rest: bytes) -> tuple[bytes, bytes] | None:
        """Return (body, what follows), None while it is incomplete."""
        if headers.get("transfer-encoding", "").lower() == "chunked":
            return _chunked(rest)
        length = int(headers.get("content-length") or 0)
        if not 0 <= length <= MAX_BODY_BYTES:
            raise BadRequest("body too large")
        return (rest[:length], rest[length:]) if len(rest) >= length else None


def _chunked(rest: bytes) -> tuple[bytes, bytes] | None:
    body = b""
    while True:
        line, found, rest = rest.partition(b"\r\n")
        if not found:
            return None
        size = int(line.split(b";")[0], 16)
        if len(body) + size > MAX_BODY_BYTES:
            raise BadRequest("body too large")
        if len(rest) < size + 2:
            return None
        body += rest[:size]
        rest = rest[size + 2 :]
        if size == 0:
            return body, rest


class Server:
    """Listens on a socket that was bound long before it is ready."""

    def __init__(self, handler: Handler, on_answer: Callable[[Request], None]) -> None:
        self.handler = handler
        self.on_answer = on_answer
        self.connections: set[Connection] = set()
        self._server: asyncio.Server | None = None

    async def listen(self, sock) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Connection(self), sock=sock, backlog=2048)

    def stop_listening(self) -> None:
        if self._server is not None:
            self._server.close()

    def close(self) -> None:
        """Refuse new connections and cut the open ones."""
        self.stop_listening()
        for connection in list(self.connections):
            connection.close()
