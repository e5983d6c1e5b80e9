"""Following a container: its log to this client's streams, signals to it, its exit code back."""

import os
import shutil
import signal
import time

from .node import NAMES, Container, start_ticks

CHUNK_BYTES = 1 << 16
QUICKEST_S = 0.01
SLOWEST_S = 0.2
START_LIMIT_S = 10.0
PROXIED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1)


class LogReader:
    """Turn the log's lines `<time> O|E <text>` into writes on stdout and stderr, in order."""

    def __init__(self, path: str, since: str = "", has_times: bool = False) -> None:
        self.file = open(path, "rb", buffering=0)  # noqa: SIM115  (lives as long as the process)
        self.since = since.encode()
        self.has_times = has_times
        self.rest = b""

    def pump(self) -> bool:
        """Write what the log has now; False when there was nothing."""
        chunk = self.file.read(CHUNK_BYTES)
        if not chunk:
            return False
        *lines, self.rest = (self.rest + chunk).split(b"\n")
        self.write(lines)
        return True

    def write(self, lines: list[bytes]) -> None:
        """Write whole lines; neighbours of one stream go out in one call."""
        stream = 1
        pending: list[bytes] = []
        for line in lines:
            stamp, _, tail = line.partition(b" ")
            kind, _, text = tail.partition(b" ")
            if stamp < self.since:
                continue
            target = 2 if kind == b"E" else 1
            if target != stream and pending:
                _write_all(stream, b"".join(pending))
                pending = []
            stream = target
            pending.append((stamp + b" " if self.has_times else b"") + text + b"\n")
        if pending:
            _write_all(stream, b"".join(pending))

    def finish(self) -> None:
        """Write everything that is left, also a last line without its end."""
        while self.pump():
            pass
        if self.rest:
            self.write([self.rest])
            self.rest = b""


def _write_all(stream: int, text: bytes) -> None:
    while text:
        text = text[os.write(stream, text) :]


def hold_signals() -> None:
    """Keep signals waiting while a container is being made."""
    signal.pthread_sigmask(signal.SIG_BLOCK, PROXIED)


def release_signals() -> None:
    """Deliver what waited, and what comes from now on."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, PROXIED)


def follow(container: Container, is_removed: bool = False) -> int:
    """Play the attached client of a started container; return the container's exit code."""
    _proxy_signals(container)
    reader = LogReader(container.log_path)
    follow_log(container, reader)
    code = container.exit_code()
    if is_removed:
        remove(container)
    return code


def follow_log(container: Container, reader: LogReader) -> None:
    """Pump the log until the container ended; wait longer the quieter it is."""
    pause = QUICKEST_S
    deadline = time.monotonic() + START_LIMIT_S
    while True:
        if reader.pump():
            pause = QUICKEST_S
            continue
        state = container.state()
        is_waiting = state.get("status") == "created" and time.monotonic() < deadline
        if not is_waiting and not container.is_running(state):
            reader.finish()
            return
        time.sleep(pause)
        pause = min(pause * 1.5, SLOWEST_S)


def _proxy_signals(container: Container) -> None:
    def pass_on(number: int, _frame: object) -> None:
        # A container that has no process yet gets the signal once it has one.
        deadline = time.monotonic() + 2
        while not send(container, number) and time.monotonic() < deadline:
            if container.state().get("status") == "exited":
                return
            time.sleep(0.01)

    for number in PROXIED:
        signal.signal(number, pass_on)
    release_signals()


def send(container: Container, number: int) -> bool:
    """Signal the engine of a container; False when it has none."""
    state = container.state()
    pid = state.get("pid")
    if state.get("status") != "running" or not pid:
        return False
    if start_ticks(pid) != state.get("start_ticks"):
        return False
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def await_end(container: Container, limit_s: float) -> bool:
    """Wait until the container ended; False after `limit_s`."""
    deadline = time.monotonic() + limit_s
    while container.is_running():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def remove(container: Container) -> None:
    """Forget an ended container and free its name."""
    shutil.rmtree(container.directory, ignore_errors=True)
    link = os.path.join(NAMES, container.config["name"])
    if os.path.islink(link) and os.readlink(link) == container.id:
        os.unlink(link)
