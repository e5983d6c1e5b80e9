"""The ground of each target: servers, an empty migrated database, labs, worker processes; all ended at the end."""

import contextlib
import importlib
import os
import sys
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from types import ModuleType

from tests import services
from tests.bench.targets import Skip
from tests.children import Child, end_child, start_child
from tests.labs import Labs, missing_program

ROOT = Path(__file__).resolve().parents[2]


class Ground:
    """Lazy: a target pays only for what it asks for."""

    def __init__(self, stack: contextlib.ExitStack):
        self._stack = stack
        self._services = services.session()
        self._labs: Labs | None = None
        self.directory = self._services.directory

    @cached_property
    def database(self) -> None:
        """Start the servers and migrate; ask for it before any query."""
        from django.core.management import call_command

        self._services.start()
        call_command("migrate", interactive=False, verbosity=0)
        self._stack.callback(_forget_all)

    def lab(self, nodes: int):
        """Return a lab with so many nodes. Raises `Skip` when this machine cannot have one."""
        if missing := missing_program():
            raise Skip(f"no {missing}; run `make install` as root")
        if self._labs is None:
            self._labs = Labs(self.directory)
            self._stack.callback(self._labs.down)
        return self._labs.of_size(nodes)

    def child(self, argv: list[str], **env: str) -> Child:
        """Start a process that ends with the bench; a leading "manage.py" becomes this interpreter."""
        words = [sys.executable, *argv] if argv[0] == "manage.py" else argv
        log = self.directory / f"bench-{len(list(self.directory.glob('bench-*.log')))}.log"
        settings = {"DJANGO_SETTINGS_MODULE": "console.settings", "PYTHONUNBUFFERED": "1"}
        whole: Mapping[str, str] = {**os.environ, **settings, **env}
        child = start_child(words, whole, log, ROOT)
        self._stack.callback(end_child, child)
        return child

    def peer(self, program: str) -> str:
        """Return the path of a peer's program. Raises `Skip` when it is not installed."""
        path = ROOT / ".venv" / "bench" / "bin" / program
        if not path.exists():
            raise Skip(f"peer {program} is not installed; run `make install`")
        return str(path)

    def peer_module(self, name: str) -> ModuleType:
        """Import a module of a peer from the peers' own environment. Raises `Skip` when it is not installed."""
        for folder in (ROOT / ".venv" / "bench" / "lib").glob("python3.*/site-packages"):
            if str(folder) not in sys.path:
                sys.path.append(str(folder))  # last: nothing of ours comes from there
        try:
            return importlib.import_module(name)
        except ImportError:
            raise Skip(f"peer {name} is not installed; run `make install`") from None


@contextlib.contextmanager
def open_servers() -> Iterator[None]:
    """Let the targets start Postgres and Valkey, and clear them up, whatever happens."""
    with contextlib.ExitStack() as stack:
        stack.callback(services.session().remove)
        stack.callback(services.session().stop)
        yield


@contextlib.contextmanager
def open_ground() -> Iterator[Ground]:
    """Give one target its ground; no process and no row of it is there for the next one."""
    with contextlib.ExitStack() as stack:
        yield Ground(stack)


def _forget_all() -> None:
    """Empty the database and Redis: what a target left would be measured by the next one."""
    import redis
    from django.core.management import call_command
    from django.db import connections

    # TRUNCATE as the tests do; the record's triggers refuse rows only.
    call_command("flush", interactive=False, verbosity=0)
    connections.close_all()
    with redis.Redis.from_url(os.environ["REDIS_URL"]) as client:
        client.flushall()
