"""The processes of one console: command lines, order of stopping, signals. What they do is their own affair."""

import gc
import importlib
import os
import runpy
import signal
import sys
import warnings
from collections.abc import Callable

from console.embedded.options import Options
from console.embedded.postgres import Postgres
from console.embedded.redis import Redis
from console.embedded.supervise import Service

LAB_READY_TEXT = "lab: ready"
SOCKET_MESSAGE_BYTES = 64 * 1024  # the longest that a page may send; the server closes with 1009
_SHARED_MODULES = (
    "console.urls",
    "console.celery",
    "celery.bin.celery",
    "celery.apps.worker",
    "celery.apps.beat",
    "celery.concurrency.prefork",
    "kombu.transport.redis",
    "django.core.management",
    "django_rq",
    "fleet.execution.hands",
    "fleet.execution.watch",
    "uvicorn",
)
_QUEUES = "stop,start,probe,gate"

# Waves stop from the highest down: first who uses the nodes, then the lab, the cache, the database.
_POSTGRES_WAVE, _REDIS_WAVE, _LAB_WAVE, _CONSOLE_WAVE = range(4)


def preload() -> None:
    """Import once what every forked process needs; opens no connection and starts no thread."""
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
    django.setup()
    for module in _SHARED_MODULES:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()  # the collector would touch, and so copy, every shared page


def manage_task(name: str, *words: str) -> Service:
    """A management command that runs to its end."""
    return Service(name, function=_manage(*words), wave=_CONSOLE_WAVE, is_task=True)


def _manage(*words: str) -> Callable[[], None]:
    def run() -> None:
        from django.core.management import execute_from_command_line

        execute_from_command_line(["manage.py", *words])

    return run


def _celery(*words: str) -> Callable[[], None]:
    def run() -> None:
        # Its fear is pickle under root; every serializer here is JSON.
        warnings.filterwarnings("ignore", message=".*superuser privileges")
        sys.argv = ["celery", "--quiet", "-A", "console.celery", *words]
        runpy.run_module("celery", run_name="__main__", alter_sys=False)

    return run


def _web(options: Options) -> Callable[[], None]:
    def run() -> None:
        import uvicorn
        from django.conf import settings

        uvicorn.run(
            "console.asgi:application",
            host=options.host.strip("[]"),
            port=options.port,
            lifespan="on",
            access_log=False,
            log_level="warning",
            # Open sockets would hold the stop; they resume from their cursor at the next server.
            timeout_graceful_shutdown=3,
            # Without a proxy anybody could write the address that the lock-out and the trail believe.
            proxy_headers=settings.BEHIND_TLS,
            ws_max_size=SOCKET_MESSAGE_BYTES,
        )

    return run


def await_servers_task(is_embedded: bool) -> Service:
    """Build the task that ends when database and cache answer."""
    argv = [sys.executable, "-m", "console.embedded.await_servers"]
    env = {"DATABASE_IS_EMBEDDED": "1" if is_embedded else "0"}
    return Service("servers", argv, wave=_CONSOLE_WAVE, is_task=True, env=env)


def postgres_service(server: Postgres) -> Service:
    """Build the process of the embedded database; it is the last to stop."""
    # SIGINT is the fast stop; SIGTERM would wait for the clients.
    return Service(
        "postgres",
        server.argv(),
        wave=_POSTGRES_WAVE,
        stop_signal=signal.SIGINT,
        death_signal=signal.SIGINT,
        user=server.user,
    )


def redis_service(server: Redis) -> Service:
    """Build the process of the embedded cache."""
    return Service("valkey", server.argv(), wave=_REDIS_WAVE, death_signal=signal.SIGTERM)


def lab_service(options: Options) -> Service:
    """Build the process that owns the rehearsal lab; it is ready when it prints its line."""
    argv = [sys.executable, "-m", "console.embedded.run_lab", str(options.state_dir)]
    return Service(
        "lab",
        [*argv, str(options.lab_nodes)],
        wave=_LAB_WAVE,
        death_signal=signal.SIGTERM,
        ready_text=LAB_READY_TEXT,
    )


def console_services(options: Options) -> list[Service]:
    """Who decides, acts, watches and shows; in the order in which they start."""
    schedule = options.state_dir / "beat-schedule"
    schedule.unlink(missing_ok=True)  # beat would go on with an older version's schedule
    beat = ["beat", "-l", "warning", "-s", str(schedule), "--max-interval", "1", "--pidfile="]
    worker = ["worker", "--pool=prefork", "-c", "2", "--prefetch-multiplier", "1"]
    quiet = ["-n", "conductor@%h", "--without-gossip", "--without-mingle", "-l", "warning"]
    return [
        _console("web", _web(options)),
        _console("conductor", _celery(*worker, *quiet)),
        _console("beat", _celery(*beat)),
        *(_hand(number, options.hands) for number in range(1, options.hands + 1)),
        _console("watch", _manage("watch")),
    ]


def _console(name: str, function: Callable[[], None]) -> Service:
    return Service(name, function=function, wave=_CONSOLE_WAVE)


def _hand(number: int, hands: int) -> Service:
    """The last hand never takes gates, which are long, so that one is always free for stops."""
    queues = _QUEUES if number < hands or hands == 1 else _QUEUES.removesuffix(",gate")
    return _console(f"hand-{number}", _manage("hands", "--queues", queues))
