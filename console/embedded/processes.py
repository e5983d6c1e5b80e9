"""The processes of one console: command lines, order of stopping, signals. What they do is their own affair."""

import signal
import sys
from pathlib import Path

from console.embedded.options import Options
from console.embedded.postgres import Postgres
from console.embedded.redis import Redis
from console.embedded.supervise import Service

LAB_READY_TEXT = "lab: ready"
_MANAGE = [sys.executable, str(Path(__file__).resolve().parents[2] / "manage.py")]
_CELERY = [sys.executable, "-m", "celery", "-A", "console.celery"]
_QUEUES = "stop,start,probe,gate"

# Waves stop from the highest down: first who uses the nodes, then the lab, the cache, the database.
_POSTGRES_WAVE, _REDIS_WAVE, _LAB_WAVE, _CONSOLE_WAVE = range(4)


def manage_task(name: str, *words: str) -> Service:
    """A management command that runs to its end."""
    return Service(name, [*_MANAGE, *words], wave=_CONSOLE_WAVE, is_task=True)


def await_servers_task(is_embedded: bool) -> Service:
    argv = [sys.executable, "-m", "console.embedded.await_servers"]
    env = {"DATABASE_IS_EMBEDDED": "1" if is_embedded else "0"}
    return Service("servers", argv, wave=_CONSOLE_WAVE, is_task=True, env=env)


def postgres_service(server: Postgres) -> Service:
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
    return Service("valkey", server.argv(), wave=_REDIS_WAVE, death_signal=signal.SIGTERM)


def lab_service(options: Options) -> Service:
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
    return [
        _console("web", _web_argv(options)),
        _console("conductor", [*_CELERY, "worker", *_worker_options()]),
        _console("beat", [*_CELERY, *beat]),
        *(_hand(number, options.hands) for number in range(1, options.hands + 1)),
        _console("watch", [*_MANAGE, "watch"]),
    ]


def _console(name: str, argv: list[str]) -> Service:
    return Service(name, argv, wave=_CONSOLE_WAVE)


def _hand(number: int, hands: int) -> Service:
    """The last hand never takes gates, which are long, so that one is always free for stops."""
    queues = _QUEUES if number < hands or hands == 1 else _QUEUES.removesuffix(",gate")
    return _console(f"hand-{number}", [*_MANAGE, "hands", "--queues", queues])


def _worker_options() -> list[str]:
    quiet = ["--without-gossip", "--without-mingle", "-l", "warning"]
    return ["--pool=prefork", "-c", "2", "--prefetch-multiplier", "1", "-n", "conductor@%h", *quiet]


def _web_argv(options: Options) -> list[str]:
    address = ["--host", options.host.strip("[]"), "--port", str(options.port)]
    # Open sockets would hold the stop; they resume from their cursor at the next server.
    quiet = ["--timeout-graceful-shutdown", "3", "--no-access-log", "--log-level", "warning"]
    return [
        sys.executable,
        "-m",
        "uvicorn",
        "console.asgi:application",
        *address,
        *quiet,
        "--lifespan",
        "off",
    ]
