"""Nodes for the kernel's tests: the shim alone, and plain OpenSSH daemons on free ports of loopback."""

import os
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as django_settings

from tests.children import end_child, start_child
from tests.execution.local_node import LocalNode, local_node
from tests.execution.plain_sshd import SSHD, PlainSshd, Sshds, console_key
from tests.execution.workers import ROOT, Hand


@pytest.fixture
def node() -> Iterator[LocalNode]:
    with local_node() as node:
        yield node


@pytest.fixture(scope="session")
def ssh_key() -> Iterator[Path]:
    """The console's private key, one for all tests of the kernel."""
    with console_key() as path:
        yield path


@pytest.fixture
def make_sshd(settings: Any, ssh_key: Path) -> Iterator[Sshds]:
    """Make a plain SSH daemon that the console's key opens."""
    if not Path(SSHD).exists():
        pytest.skip("OpenSSH's sshd is not installed; run `make install` as root")
    settings.SSH_KEY_FILE = ssh_key
    settings.NODE_CIDRS = ["127.0.0.0/8"]
    sshds = Sshds(ssh_key.parent, ssh_key)
    yield sshds
    sshds.end()


@pytest.fixture
def sshd(make_sshd: Sshds) -> PlainSshd:
    return make_sshd()


class HttpServer:
    """Answers every request with one body and remembers what was asked."""

    def __init__(self, body: bytes) -> None:
        self.seen: list[tuple[str, str, bytes]] = []
        seen = self.seen

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                size = int(self.headers.get("Content-Length") or 0)
                seen.append((self.command, self.path, self.rfile.read(size)))
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST

            def log_message(self, *args: Any) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def make_http() -> Iterator[Callable[[bytes], HttpServer]]:
    servers: list[HttpServer] = []

    def make(body: bytes) -> HttpServer:
        servers.append(HttpServer(body))
        return servers[-1]

    yield make
    for server in servers:
        server.close()


@pytest.fixture(scope="module")
def hand_env(servers, django_db_setup, ssh_key) -> dict[str, str]:
    base, _, _ = os.environ["DATABASE_URL"].rpartition("/")
    return {
        **os.environ,
        "DATABASE_URL": f"{base}/{django_settings.DATABASES['default']['NAME']}",
        "DJANGO_SETTINGS_MODULE": "console.settings",
        "SSH_KEY_FILE": str(ssh_key),
        "NODE_CIDRS": "127.0.0.0/8",
    }


@pytest.fixture(scope="module")
def spawn_hand(hand_env, tmp_path_factory) -> Iterator[Callable[..., Hand]]:
    hands: list[Hand] = []
    logs = tmp_path_factory.mktemp("hands")

    def spawn(**env: str) -> Hand:
        argv = [sys.executable, "manage.py", "hands"]
        hand = start_child(argv, {**hand_env, **env}, logs / f"{len(hands)}.log", ROOT)
        hand.__class__ = Hand
        hands.append(hand)
        return hand

    yield spawn
    for hand in hands:
        end_child(hand)
