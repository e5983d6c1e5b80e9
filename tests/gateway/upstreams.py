"""Engines small enough for tests of a proxy: each answers with its own name, or holds a request until told."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Upstream:
    """An HTTP server on a free port of one loopback address."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.go_on = threading.Event()
        self.go_on.set()
        self.held = threading.Semaphore(0)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign]
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self.go_on.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _handler(upstream: Upstream) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._say({"status": "ok"})

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            if not upstream.go_on.is_set():
                upstream.held.release()
                upstream.go_on.wait(60)
            self._say({"by": upstream.name})

        def _say(self, answer: dict[str, Any]) -> None:
            body = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Stay silent."""

    return Handler
