"""A TCP proxy before the console that can cut websockets, or swallow what they say, and leave requests alone."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from urllib.parse import urlsplit

_PIECE = 65536
_HEAD_END = b"\r\n\r\n"


class Proxy:
    """Passes connections on. `let`: websockets live; `cut`: they are reset; `swallow`: they stay open and silent."""

    def __init__(self, base: str) -> None:
        self._target = ("127.0.0.1", urlsplit(base).port or 80)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._is_silent = self._is_cut = False
        self.refused = 0  # websockets that were turned away
        self.base = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Reset every websocket and turn new ones away."""
        with self._lock:
            self._is_cut = True
            for one in self._sockets:
                _shut(one)

    def swallow(self) -> None:
        """Keep the websockets that are open, and let nothing through them, not even their end."""
        with self._lock:
            self._is_silent = True

    def let(self) -> None:
        """Let new websockets through again; those that were silenced stay so."""
        with self._lock:
            self._is_silent = self._is_cut = False

    def close(self) -> None:
        """Take no more connections."""
        self.cut()
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _address = self._listener.accept()
                threading.Thread(target=self._serve, args=(near,), daemon=True).start()

    def _serve(self, near: socket.socket) -> None:
        with contextlib.suppress(OSError), near:
            head = _head(near)
            is_websocket = b"upgrade: websocket" in head.lower()
            if is_websocket and self._turn_away():
                return
            with socket.create_connection(self._target) as far:
                far.sendall(head)
                silenced = threading.Event()
                if is_websocket:
                    self._keep(near, far)
                back = (far, near, is_websocket, silenced)
                threading.Thread(target=self._pump, args=back, daemon=True).start()
                self._pump(near, far, is_websocket, silenced)

    def _turn_away(self) -> bool:
        with self._lock:
            self.refused += self._is_cut
            return self._is_cut

    def _keep(self, *pair: socket.socket) -> None:
        with self._lock:
            self._sockets.update(pair)

    def _pump(
        self,
        source: socket.socket,
        sink: socket.socket,
        is_websocket: bool,
        silenced: threading.Event,
    ) -> None:
        with contextlib.suppress(OSError):
            while piece := source.recv(_PIECE):
                if is_websocket and self._is_silent:
                    silenced.set()
                if not silenced.is_set():
                    sink.sendall(piece)
        if not silenced.is_set():
            _shut(sink)


def _head(near: socket.socket) -> bytes:
    head = b""
    while _HEAD_END not in head and (piece := near.recv(_PIECE)):
        head += piece
    return head


def _shut(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def open_proxy(base: str) -> Iterator[Proxy]:
    """Stand a proxy before the console at `base` for as long as the block lasts."""
    proxy = Proxy(base)
    try:
        yield proxy
    finally:
        proxy.close()
