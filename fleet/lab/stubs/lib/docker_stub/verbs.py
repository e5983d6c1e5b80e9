"""The verbs on containers that exist: stop, kill, rm, wait, top, exec, logs."""

import os
import signal
import time

from .attach import LogReader, await_end, follow_log, remove, send
from .node import Container, Refusal, need_container, note_unknown, read_json, say, start_ticks
from .options import parse

KILL_WAIT_S = 10.0
DEFAULT_STOP_S = 10.0
UNITS_S = {"s": 1, "m": 60, "h": 3600}


def stop(argv: list[str]) -> int:
    """TERM, wait, KILL: `docker stop [-t S] NAME...`."""
    flags = parse(argv, "stop", {"time", "timeout", "signal"}, set(), _short("t", "time"), True)
    grace = float(flags.last("time") or flags.last("timeout") or DEFAULT_STOP_S)
    for name in flags.rest:
        container = need_container(name)
        send(container, signal.SIGTERM)
        if not await_end(container, grace):
            send(container, signal.SIGKILL)
            _need_end(container)
        say(name)
    return 0


def _need_end(container: Container) -> None:
    if not await_end(container, KILL_WAIT_S):
        raise Refusal(
            f"Error response from daemon: cannot stop container: {container.id}: "
            "tried to kill container, but did not receive an exit event"
        )


def _short(letter: str, name: str) -> dict[str, str]:
    return {letter: name}


def kill(argv: list[str]) -> int:
    """Send a signal: `docker kill [-s SIG] NAME...`."""
    flags = parse(argv, "kill", {"signal"}, set(), _short("s", "signal"), True)
    number = _signal_number(flags.last("signal", "KILL"))
    for name in flags.rest:
        container = need_container(name)
        if not send(container, number):
            raise Refusal(
                f"Error response from daemon: cannot kill container: {name}: "
                f"container {container.id} is not running"
            )
        if number == signal.SIGKILL:
            _need_end(container)
        say(name)
    return 0


def _signal_number(text: str) -> int:
    if text.isdigit():
        return int(text)
    name = "SIG" + text.upper().removeprefix("SIG")
    if not hasattr(signal, name):
        raise Refusal(f"Error response from daemon: invalid signal: {text}")
    return int(getattr(signal, name))


def rm(argv: list[str]) -> int:
    """Remove containers: `docker rm [-f] NAME...`."""
    flags = parse(argv, "rm", set(), {"force", "volumes"}, {"f": "force", "v": "volumes"}, True)
    for name in flags.rest:
        container = need_container(name)
        if container.is_running():
            if not flags.has("force"):
                raise Refusal(
                    f'Error response from daemon: cannot remove container "/'
                    f'{container.config["name"]}": container is running: stop the container '
                    "before removing or force remove"
                )
            send(container, signal.SIGKILL)
            _need_end(container)
        remove(container)
        say(name)
    return 0


def wait(argv: list[str]) -> int:
    """Block until containers end and print their exit codes."""
    for name in argv:
        container = need_container(name)
        while not await_end(container, 3600):
            pass
        say(str(container.exit_code()))
    return 0


def logs(argv: list[str]) -> int:
    """Print a container's log: `docker logs [-f] [-t] [--since T] [--tail N] NAME`."""
    short = {"f": "follow", "t": "timestamps", "n": "tail"}
    flags = parse(argv, "logs", {"since", "tail"}, {"follow", "timestamps"}, short, True)
    if len(flags.rest) != 1:
        raise Refusal('"docker logs" requires exactly 1 argument.')
    container = need_container(flags.rest[0])
    reader = LogReader(container.log_path, _since(flags.last("since")), flags.has("timestamps"))
    if flags.last("tail", "all") != "all":
        _skip_to_tail(reader, int(flags.last("tail")))
    if flags.has("follow"):
        follow_log(container, reader)
    else:
        reader.finish()
    return 0


def _since(text: str) -> str:
    """Return the earliest stamp to print, in the log's own form, so that text compares as time."""
    if not text:
        return ""
    if text[-1] in UNITS_S and text[:-1].replace(".", "", 1).isdigit():
        return _stamp(time.time() - float(text[:-1]) * UNITS_S[text[-1]])
    if text.replace(".", "", 1).isdigit():
        return _stamp(float(text))
    date, _, rest = text.removesuffix("+00:00").rstrip("Z").partition("T")
    clock, _, fraction = rest.partition(".")
    return f"{date}T{clock or '00:00:00'}.{fraction:0<9}Z"


def _stamp(seconds: float) -> str:
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    return f"{whole}.{int(seconds % 1 * 10**9):09d}Z"


def _skip_to_tail(reader: LogReader, count: int) -> None:
    """Print the last `count` lines and leave the reader behind them."""
    lines: list[bytes] = []
    rest = b""
    while chunk := reader.file.read(1 << 20):
        *whole, rest = (rest + chunk).split(b"\n")
        lines = (lines + whole)[-count:] if count else []
    reader.rest = rest
    reader.write(lines)


def top(argv: list[str]) -> int:
    """Print the container's processes as `ps -ef` shows them."""
    if not argv:
        raise Refusal('"docker top" requires at least 1 argument.')
    if argv[1:] not in ([], ["-ef"]):
        note_unknown(["top", *argv])
        raise Refusal(f"Error response from daemon: this form is not rehearsed: {argv[1:]}")
    container = need_container(argv[0])
    state = container.state()
    if not container.is_running(state):
        raise Refusal(f"Error response from daemon: container {container.id} is not running")
    say(f"{'UID':<20}{'PID':<20}{'PPID':<20}{'C':<4}{'STIME':<8}{'TTY':<8}{'TIME':<12}CMD")
    engine = " ".join(["vllm serve", *container.config["argv"]])
    rows = [(state["pid"], 0, engine)]
    workers = read_json(os.path.join(container.directory, "workers.json"), [])
    for row in workers:
        if start_ticks(row["pid"]) == row["start_ticks"]:
            rows.append((row["pid"], state["pid"], row["argv0"]))
    started = str(state.get("started_at", ""))[11:16]
    for pid, parent, command in rows:
        say(f"{'root':<20}{pid:<20}{parent:<20}{0:<4}{started:<8}{'?':<8}{'00:00:01':<12}{command}")
    return 0


def exec_in(argv: list[str]) -> int:
    """Run a command on the node with the container's variables."""
    short = {"i": "interactive", "t": "tty", "e": "env", "u": "user", "w": "workdir"}
    values = {"env", "user", "workdir"}
    flags = parse(argv, "exec", values, {"interactive", "tty"}, short)
    if len(flags.rest) < 2:
        raise Refusal('"docker exec" requires at least 2 arguments.')
    name, *command = flags.rest
    container = need_container(name)
    if not container.is_running():
        raise Refusal(f"Error response from daemon: container {container.id} is not running")
    environment = {**os.environ, **container.config["env"]}
    environment.update(dict(line.partition("=")[::2] for line in flags.all("env")))
    # The container's own PATH would hide the node's stubs.
    environment["PATH"] = os.environ["PATH"]
    try:
        os.execvpe(command[0], command, environment)
    except OSError:
        raise Refusal(
            f'OCI runtime exec failed: exec failed: unable to start container process: exec: "'
            f'{command[0]}": executable file not found in $PATH: unknown',
            code=127,
        ) from None
