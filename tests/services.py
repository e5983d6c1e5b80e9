"""A Postgres and a Valkey for one test run: on free ports, in a folder of its own, gone at the end.

The addresses are chosen when the settings load; the servers start with the first test that is not pure.
"""

import atexit
import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from console.embedded import leftovers, places, ports, postgres, redis
from console.embedded.child import child_argv

MARK = "FLOTILLA_TESTS"
_READY_WITHIN_S = 120.0
_PREFIX = "flotilla-test-"


@dataclass
class Server:
    """One of the servers: how it is started, and its process while it runs."""

    argv: list[str]
    stop_signal: int
    find_problem: Callable[[], str]
    user: str = ""
    process: subprocess.Popen[bytes] | None = None

    def start(self, log_path: Path) -> None:
        with log_path.open("ab") as log:
            self.process = subprocess.Popen(
                child_argv(self.argv, death_signal=self.stop_signal, user=self.user),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                start_new_session=True,
            )

    def stop(self) -> None:
        if self.process is None:
            return
        if self.process.poll() is None:
            self.process.send_signal(self.stop_signal)
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        assert self.process is not None, "expected a server that was started"
        self.process.kill()
        self.process.wait()


class TestServices:
    """The servers of this run, and the folder that holds everything it writes."""

    __test__ = False

    def __init__(self) -> None:
        self.directory = _make_directory()
        self.token = secrets.token_hex(8)
        self._held, (self.postgres_port, self.redis_port) = zip(
            *(ports.reserve_port() for _ in range(2)), strict=True
        )
        self.password = secrets.token_urlsafe(16)
        self._servers: dict[str, Server] = {}
        self._log = self.directory / "servers.log"

    @property
    def mark(self) -> str:
        return f"{MARK}={self.token}"

    def environment(self) -> dict[str, str]:
        return {
            "DATABASE_URL": f"postgresql://console:{self.password}@127.0.0.1:{self.postgres_port}/console",
            "REDIS_URL": f"redis://:{self.password}@127.0.0.1:{self.redis_port}",
            "STATE_DIR": str(self.directory),
            "SECRET_KEY": secrets.token_urlsafe(48),
            "HOST": "127.0.0.1",
            "LOG_LEVEL": "WARNING",
            MARK: self.token,
        }

    def start(self) -> None:
        """Start both servers and wait for their answers."""
        if self._servers:
            return
        database = postgres.prepare(
            places.server_home(self.directory, "postgres", for_nobody=True),
            self.postgres_port,
            self.password,
            is_throwaway=True,
        )
        cache = redis.prepare(
            places.server_home(self.directory, "valkey"),
            self.redis_port,
            self.password,
            is_throwaway=True,
        )
        self._servers = {
            "postgres": Server(
                database.argv(),
                stop_signal=signal.SIGINT,
                find_problem=lambda: postgres.find_problem(database.url_of("postgres")),
                user=database.user,
            ),
            "valkey": Server(
                cache.argv(),
                stop_signal=signal.SIGTERM,
                find_problem=lambda: redis.find_problem(cache.url),
            ),
        }
        for server in self._servers.values():
            server.start(self._log)
        postgres.wait_until_it_answers(database.url_of("postgres"), timeout_s=_READY_WITHIN_S)
        redis.wait_until_it_answers(cache.url, timeout_s=_READY_WITHIN_S)
        postgres.create_database(database.url_of("postgres"), "console")
        for holder in self._held:
            holder.close()

    def kill(self, name: str) -> None:
        """Kill -9 the server: of Postgres the postmaster, whose backends see it and end."""
        self._servers[name].kill()

    def start_again(self, name: str) -> None:
        """Start a killed server on what it left: Postgres on its data, Valkey empty."""
        server = self._servers[name]
        deadline = time.monotonic() + _READY_WITHIN_S
        while problem := server.find_problem():
            if time.monotonic() > deadline:
                raise RuntimeError(f"{name} was expected to answer again, found: {problem}")
            # It refuses to start while a backend of the killed one lives.
            if server.process is None or server.process.poll() is not None:
                server.start(self._log)
            time.sleep(0.1)

    def stop(self) -> list[str]:
        """Stop the servers; return who of this run was still alive, after ending them too."""
        for server in reversed(self._servers.values()):
            server.stop()
        self._servers.clear()
        left = [ports.describe_process(pid) for pid in leftovers.find_marked([self.mark])]
        leftovers.end_marked([self.mark], patience_s=2.0)
        return left

    def remove(self) -> None:
        for holder in self._held:
            holder.close()
        for name in ("postgres", "valkey"):  # may be links to folders in /var/tmp
            shutil.rmtree((self.directory / name).resolve(), ignore_errors=True)
        shutil.rmtree(self.directory, ignore_errors=True)


def _make_directory() -> Path:
    """A short path, because sockets live below it; walkable for the database's user under root."""
    _sweep_stale_directories()
    directory = Path(tempfile.mkdtemp(prefix=_PREFIX))
    if os.geteuid() == 0:
        directory.chmod(0o711)
    (directory / "owner").write_text(str(os.getpid()))
    (directory / "static").mkdir()  # STATIC_ROOT; the web process warns when it is absent
    return directory


def _sweep_stale_directories() -> None:
    """Remove what runs left that were killed before they could; a reused pid only delays it."""
    for note in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*/owner"):
        with contextlib.suppress(FileNotFoundError):  # a parallel run swept it first
            owner = note.read_text()
            if owner.isdigit() and not Path(f"/proc/{owner}").exists():
                shutil.rmtree(note.parent, ignore_errors=True)


_session: TestServices | None = None


def session() -> TestServices:
    """The servers of this process."""
    global _session
    if _session is None:
        _session = TestServices()
        atexit.register(_finish, _session, os.getpid())
    return _session


def _finish(services: TestServices, owner: int) -> None:
    if os.getpid() == owner:  # not in a forked child that exits by itself
        services.stop()
        services.remove()


def prepare_environment() -> None:
    """Point every setting of this process and its children at this run's own servers."""
    os.environ.update(session().environment())
    os.environ.setdefault("TIME_SCALE", "10")
