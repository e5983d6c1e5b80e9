"""Children of the supervisor: programs, and functions of ours that run in a fork.

A forked function shares the imported code with its siblings, which saves most of the memory and of the
start-up time that as many separate interpreters would take.
"""

import contextlib
import ctypes
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path

from console.embedded.child import child_argv, die_with_parent

_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_FORK = multiprocessing.get_context("fork")


class Started(ABC):
    """A started child in a session of its own; `output` reads both of its streams, not blocking."""

    pid: int
    output: int

    @abstractmethod
    def poll(self) -> int | None:
        """Return the exit code (negative for a signal), None while it runs."""

    def signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill_group(self) -> None:
        """Kill whatever is left of its session's group; safe after its end."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)


class Program(Started):
    """A child that is a program of its own."""

    def __init__(self, argv: list[str], env: Mapping[str, str], *, death_signal: int, user: str):
        self.output, writer = _pipe()
        self._process = subprocess.Popen(
            child_argv(argv, death_signal=death_signal, user=user),
            env=env,
            cwd="/" if user else None,
            stdin=subprocess.DEVNULL,
            stdout=writer,
            stderr=writer,
            start_new_session=True,
        )
        os.close(writer)
        self.pid = self._process.pid

    def poll(self) -> int | None:
        return self._process.poll()


class Function(Started):
    """A child that runs a function after a fork. Only for a parent without threads."""

    def __init__(self, name: str, function: Callable[[], None]):
        if threading.active_count() > 1:
            raise RuntimeError("a fork was asked for while other threads run; start this earlier")
        self.output, writer = _pipe()
        self._process = _FORK.Process(target=_run, args=(name, function, writer, os.getpid()))
        # Held back until the child has its own handlers, or a stop at this moment would be lost.
        signal.pthread_sigmask(signal.SIG_BLOCK, _STOP_SIGNALS)
        self._process.start()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOP_SIGNALS)
        os.close(writer)
        assert self._process.pid is not None
        self.pid = self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode


def _pipe() -> tuple[int, int]:
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    return reader, writer


def _run(name: str, function: Callable[[], None], writer: int, parent: int) -> None:
    """Become a process like a freshly started one, then call the function."""
    os.setsid()
    signal.set_wakeup_fd(-1)
    for number in (*_STOP_SIGNALS, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOP_SIGNALS)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for descriptor in (1, 2):
        os.dup2(writer, descriptor)
    # Pipes of siblings and the guard's among them: held open here they would never end.
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    die_with_parent(signal.SIGKILL)
    if os.getppid() != parent:
        return
    _show_title(f"flotilla: {name}")
    function()


def _show_title(title: str) -> None:
    """Overwrite the command line that ps shows, as far as it reaches; Linux only."""
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        start, end = int(fields[45]), int(fields[46])
    except (OSError, IndexError, ValueError):
        return
    room = end - start
    ctypes.memset(start, 0, room)
    ctypes.memmove(start, title.encode()[: room - 1], min(len(title.encode()), room - 1))
