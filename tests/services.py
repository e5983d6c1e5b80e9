"""A Postgres and a Valkey for one test run: on free ports, in a folder of its own, gone at the end.

The addresses are chosen when the settings load; the servers start with the first test that is not pure.
"""

import atexit
import contextlib
import os
import secrets
import shutil
import subprocess
import tempfile
from pathlib import Path

from console.embedded import leftovers, places, ports, postgres, redis
from console.embedded.child import child_argv

MARK = "FLOTILLA_TESTS"
_READY_WITHIN_S = 120.0
_PREFIX = "flotilla-test-"


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
        self._processes: list[tuple[subprocess.Popen[bytes], int]] = []
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
        if self._processes:
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
        self._launch(database.argv(), stop_signal=2, user=database.user)
        self._launch(cache.argv(), stop_signal=15)
        postgres.wait_until_it_answers(database.url_of("postgres"), timeout_s=_READY_WITHIN_S)
        redis.wait_until_it_answers(cache.url, timeout_s=_READY_WITHIN_S)
        postgres.create_database(database.url_of("postgres"), "console")
        for holder in self._held:
            holder.close()

    def _launch(self, argv: list[str], *, stop_signal: int, user: str = "") -> None:
        with self._log.open("ab") as log:
            process = subprocess.Popen(
                child_argv(argv, death_signal=stop_signal, user=user),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                start_new_session=True,
            )
        self._processes.append((process, stop_signal))

    def stop(self) -> list[str]:
        """Stop the servers; return who of this run was still alive, after ending them too."""
        for process, stop_signal in reversed(self._processes):
            if process.poll() is None:
                process.send_signal(stop_signal)
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._processes.clear()
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
