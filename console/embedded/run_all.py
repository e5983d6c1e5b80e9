"""The whole console on one machine: what `make up` runs. Starts and ends processes; knows no product rule."""

import contextlib
import os
import secrets
import signal
import socket
import sys
import time

from console import catalogues
from console.embedded import claim, leftovers, places, ports, postgres, processes, redis
from console.embedded.child import die_with_parent
from console.embedded.options import Options, WrongUse, demand_usable, read_options
from console.embedded.supervise import MARK, ChildEnded, NotReady, StopAsked, Supervisor, say
from fleet.lab.place import lab_directory

_READY_WITHIN_S = 120.0  # a loaded machine needs ten times the usual 10 s


def main() -> int:
    """Run until a signal or the end of a child. Returns 0, 2, 3 or the code of the child that ended."""
    try:
        options = read_options()
        if len(sys.argv) < 2:
            # here, because the settings are read anew after the start below: with all addresses known
            demand_usable(options)
            _start_again_marked(options)
        if os.environ.get("MAKELEVEL"):  # a killed make must not leave the tree without an owner
            die_with_parent(signal.SIGTERM)
        lock = claim.claim_state_dir(options.state_dir)
        _check_port(options)
    except WrongUse as problem:
        say(str(problem))
        return 2
    except claim.InUse as problem:
        say(str(problem))
        return 3
    with lock:
        return _run(options, token=sys.argv[1])


def _start_again_marked(options: Options) -> None:
    """Become the same program with a mark in the environment, by which forked children are known."""
    token = secrets.token_hex(8)
    env = {
        **os.environ,
        MARK: token,
        "STATE_DIR": str(options.state_dir),
        "PYTHONUNBUFFERED": "1",
        "MALLOC_ARENA_MAX": "2",  # instead of eight a core: the tree stays small
    }
    os.execve(sys.executable, [sys.executable, "-m", "console.embedded.run_all", token], env)


def _check_port(options: Options) -> None:
    if not ports.is_free(options.host, options.port):
        holder = ports.holder_of(options.port)
        raise claim.InUse(
            f"port {options.port} of {options.host} is in use by {holder}; stop it or set PORT"
        )


def _run(options: Options, token: str) -> int:
    lab_mark = f"FLOTILLA_LAB={lab_directory(options.state_dir)}"
    _clear_up_after_a_killed_run(options, lab_mark)
    catalogues.compile_all()
    (options.state_dir / "static").mkdir(exist_ok=True)  # STATIC_ROOT
    os.environ.update(_fixed_env(options))
    supervisor = Supervisor(token, also_mine=[lab_mark])
    code = 0
    try:
        Console(options, supervisor, token).start()
        supervisor.watch()
    except StopAsked:
        say("stopping")
    except ChildEnded as problem:
        say(f"{problem}; stopping everything")
        code = problem.code
    except (NotReady, postgres.PostgresError, redis.RedisError, OSError) as problem:
        say(f"{problem}; stopping everything")
        code = 3
    finally:
        supervisor.stop()
        (options.state_dir / "run.json").unlink(missing_ok=True)
    return code


def _clear_up_after_a_killed_run(options: Options, lab_mark: str) -> None:
    token = claim.take_old_token(options.state_dir)
    marks = [lab_mark, *([f"FLOTILLA_SUPERVISOR={token}"] if token else [])]
    if left := leftovers.find_marked(marks):
        say(f"ending {len(left)} processes of a run that was killed")
        leftovers.end_marked(marks, patience_s=5.0)


def _fixed_env(options: Options) -> dict[str, str]:
    secret = places.secret_file(options.state_dir / "secret-key")
    return {
        "HOST": options.host,
        "PORT": str(options.port),
        "LAB": "1" if options.has_lab else "0",
        "SECRET_KEY": os.environ.get("SECRET_KEY") or secret,
    }


class Console:
    """The ordered start of one console under a supervisor."""

    def __init__(self, options: Options, supervisor: Supervisor, token: str):
        self._options, self._supervisor, self._token = options, supervisor, token
        self._started = time.monotonic()

    def start(self) -> None:
        """Bring everything up and print the one line on stdout."""
        with contextlib.ExitStack() as reserved:
            self._start_servers(reserved)
            if self._options.has_lab:
                self._supervisor.start(processes.lab_service(self._options))
            processes.preload()  # while the servers come up
            self._supervisor.run_once(processes.await_servers_task(not self._options.database_url))
        self._say_step("database and cache answer")
        self._write_note()
        self._prepare_data()
        self._say_step("tables and seed are in place")
        for service in processes.console_services(self._options):
            self._supervisor.start(service)
        self._supervisor.wait_for(
            self._is_healthy, "/healthz", timeout_s=_READY_WITHIN_S, every_s=0.3
        )
        self._say_step("all parts answer")
        print(f"Flotilla is ready at {self._options.address}", flush=True)
        if self._options.has_lab and self._options.lab_launch != "none":
            pools = self._options.lab_launch
            self._supervisor.start(processes.manage_task("launch", "launch_lab", pools))

    def _say_step(self, what: str) -> None:
        say(f"{what} after {time.monotonic() - self._started:.1f} s")

    def _start_servers(self, reserved: contextlib.ExitStack) -> None:
        """Start database and cache unless their addresses were given; `reserved` keeps their ports."""
        if not self._options.database_url:
            os.environ["DATABASE_URL"] = self._start_postgres(reserved)
        if not self._options.redis_url:
            os.environ["REDIS_URL"] = self._start_redis(reserved)

    def _start_postgres(self, reserved: contextlib.ExitStack) -> str:
        home = places.server_home(self._options.state_dir, "postgres", for_nobody=True)
        server = postgres.prepare(home, *self._port_and_password(reserved, "postgres"))
        self._supervisor.start(processes.postgres_service(server))
        return server.url

    def _start_redis(self, reserved: contextlib.ExitStack) -> str:
        home = places.server_home(self._options.state_dir, "valkey")
        server = redis.prepare(home, *self._port_and_password(reserved, "valkey"))
        self._supervisor.start(processes.redis_service(server))
        return server.url

    def _port_and_password(self, reserved: contextlib.ExitStack, name: str) -> tuple[int, str]:
        holder, port = ports.reserve_port()
        reserved.enter_context(holder)
        return port, places.secret_file(self._options.state_dir / f"{name}-password")

    def _write_note(self) -> None:
        told = ("DATABASE_URL", "REDIS_URL", "SECRET_KEY", "HOST", "PORT", "LAB", "NODE_CIDRS")
        claim.write_run_note(
            self._options.state_dir,
            self._token,
            {name: os.environ[name] for name in told if name in os.environ},
        )

    def _prepare_data(self) -> None:
        """Make the tables, then the seed, which reads the lab's inventory."""
        self._supervisor.run_once(
            processes.manage_task("migrate", "migrate", "--noinput", "-v", "0")
        )
        if self._options.has_lab:
            self._supervisor.wait_ready("lab", timeout_s=_READY_WITHIN_S)
        self._supervisor.run_once(processes.manage_task("seed", "seed"))

    def _is_healthy(self) -> bool:
        """Ask /healthz by hand: an HTTP client library would double this process's memory."""
        place = (self._options.reachable_host.strip("[]"), self._options.port)
        request = f"GET /healthz HTTP/1.0\r\nHost: {self._options.host}\r\n\r\n"
        try:
            with socket.create_connection(place, timeout=5) as connection:
                connection.sendall(request.encode())
                return b" 200 " in connection.recv(1024).split(b"\r\n", 1)[0]
        except OSError:
            return False


if __name__ == "__main__":
    sys.exit(main())
