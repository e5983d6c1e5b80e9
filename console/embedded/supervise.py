"""Runs a tree of processes: ordered start with readiness, prefixed logs, ordered stop, nothing left
behind.

It does not restart what dies: any end that nobody asked for ends the tree with that child's exit
code.
"""

import contextlib
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from console.embedded import leftovers
from console.embedded.child import child_argv

STOP_WITHIN_S = 14.0
_MARK = "FLOTILLA_SUPERVISOR"


class StopAsked(Exception):
    """A person or the system asked for the end (SIGINT or SIGTERM)."""


class ChildEnded(Exception):
    """A child ended that should have stayed, or could not do its work."""

    def __init__(self, name: str, code: int):
        super().__init__(f"{name} ended with exit code {code}")
        self.code = code or 1  # even a clean end of a service is a failure of the tree


class NotReady(Exception):
    """A child runs but did not become ready in time."""


@dataclass(frozen=True)
class Service:
    """One child. Lower waves stop later; `ready_text` in a line of its output marks it ready."""

    name: str
    argv: list[str]
    wave: int = 2
    stop_signal: int = signal.SIGTERM
    death_signal: int = signal.SIGKILL  # sent by the kernel when the supervisor is killed
    grace_s: float = 6.0
    user: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    ready_text: str = ""
    is_task: bool = False  # may end by itself


@dataclass
class _Running:
    service: Service
    process: subprocess.Popen[bytes]
    tail: bytes = b""
    is_ready: bool = False


class Supervisor:
    """Starts services, pumps their output, and ends them all. Used by one thread only."""

    def __init__(self, token: str, env: Mapping[str, str], *, also_mine: list[str] | None = None):
        self._marks = [f"{_MARK}={token}", *(also_mine or [])]
        self._env = {**env, _MARK: token, "PYTHONUNBUFFERED": "1"}
        self._running: dict[str, _Running] = {}
        self._ended: dict[str, int] = {}  # exit codes of tasks
        self._selector = selectors.DefaultSelector()
        self._stop_asked = False
        self._guard = self._start_guard()
        self._listen_for_signals()

    def extend_env(self, env: Mapping[str, str]) -> None:
        """Give every later child these variables too."""
        self._env.update(env)

    # -- starting

    def start(self, service: Service) -> None:
        """Start a service in a session of its own; its end is noticed by every later call."""
        process = subprocess.Popen(
            child_argv(service.argv, death_signal=service.death_signal, user=service.user),
            env={**self._env, **service.env},
            cwd="/" if service.user else None,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        running = _Running(service, process)
        self._running[service.name] = running
        self._selector.register(process.stdout, selectors.EVENT_READ, running)

    def run_once(self, task: Service, *, timeout_s: float = 300.0) -> None:
        """Run a task to its end. Raises `ChildEnded` when it fails, `NotReady` when it takes too
        long.
        """
        self.start(task)
        deadline = time.monotonic() + timeout_s
        while task.name not in self._ended:
            if time.monotonic() > deadline:
                raise NotReady(f"{task.name}: expected to end within {timeout_s:.0f} s, still runs")
            self._turn(0.05)
        if code := self._ended.pop(task.name):
            raise ChildEnded(task.name, code)

    def wait_ready(
        self, name: str, answers: Callable[[], bool] | None = None, *, timeout_s: float = 120.0
    ) -> None:
        """Wait until the service printed its ready text, or until `answers()` says so."""
        deadline = time.monotonic() + timeout_s
        while not (answers() if answers else self._running[name].is_ready):
            if time.monotonic() > deadline:
                raise NotReady(f"{name}: expected to be ready within {timeout_s:.0f} s, is not")
            self._turn(0.05)

    def watch(self) -> None:
        """Stay until someone asks for the end or a service ends. Raises `StopAsked` or
        `ChildEnded`.
        """
        while True:
            self._turn(1.0)

    # -- stopping

    def stop(self) -> None:
        """End everything, highest wave first, within `STOP_WITHIN_S`; prove by mark that nothing is
        left.
        """
        deadline = time.monotonic() + STOP_WITHIN_S
        for wave in sorted({r.service.wave for r in self._running.values()}, reverse=True):
            self._stop_wave([r for r in self._running.values() if r.service.wave == wave], deadline)
        for pid in leftovers.end_marked(self._marks, patience_s=0.5):
            say(f"process {pid} had to be killed")
        self._guard.kill()
        self._guard.wait()

    def _stop_wave(self, wave: list[_Running], deadline: float) -> None:
        for running in wave:
            _signal(running.process, running.service.stop_signal)
        started = time.monotonic()
        while any(r.process.poll() is None for r in wave):
            waited = time.monotonic() - started
            for running in wave:
                is_late = waited > running.service.grace_s or time.monotonic() > deadline
                if is_late and running.process.poll() is None:
                    say(f"{running.service.name} did not end within {waited:.1f} s, killing it")
                    _kill_group(running.process)
            self._pump(0.05)
        for running in wave:
            _kill_group(running.process)
            self._forget(running)

    # -- the loop

    def _turn(self, timeout_s: float) -> None:
        self._pump(timeout_s)
        if self._stop_asked:
            raise StopAsked
        for running in list(self._running.values()):
            code = running.process.poll()
            if code is None:
                continue
            self._forget(running)
            code = code if code >= 0 else 128 - code
            if not running.service.is_task:
                raise ChildEnded(running.service.name, code)
            self._ended[running.service.name] = code
            if code:
                say(f"{running.service.name} ended with exit code {code}")

    def _pump(self, timeout_s: float) -> None:
        for key, _ in self._selector.select(timeout_s):
            if key.data is None:
                with contextlib.suppress(BlockingIOError):
                    os.read(key.fd, 4096)
            else:
                self._read(key.data)

    def _read(self, running: _Running) -> bool:
        """Pass on what a child printed, whole lines only. False at the end of its output."""
        assert running.process.stdout is not None
        try:
            chunk = os.read(running.process.stdout.fileno(), 65536)
        except BlockingIOError:
            return False
        if not chunk:
            self._selector.unregister(running.process.stdout)
            running.process.stdout.close()
            return False
        *lines, running.tail = (running.tail + chunk).split(b"\n")
        for line in lines:
            self._print(running, line)
        return True

    def _print(self, running: _Running, line: bytes) -> None:
        text = running.service.ready_text
        if text and text.encode() in line:
            running.is_ready = True
        _write_stderr(f"{running.service.name:<10} | ".encode() + line + b"\n")

    def _finish_output(self, running: _Running) -> None:
        assert running.process.stdout is not None
        while not running.process.stdout.closed and self._read(running):
            pass
        if running.tail:
            self._print(running, running.tail)
            running.tail = b""

    def _forget(self, running: _Running) -> None:
        """Drain the last output of an ended child and stop looking at it."""
        assert running.process.stdout is not None
        self._finish_output(running)
        if not running.process.stdout.closed:  # a grandchild holds the pipe
            self._selector.unregister(running.process.stdout)
            running.process.stdout.close()
        self._running.pop(running.service.name, None)

    # -- signals and the guard

    def _listen_for_signals(self) -> None:
        receiver, sender = socket.socketpair()
        for end in (receiver, sender):
            end.setblocking(False)
        signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
        self._wakeup = (receiver, sender)
        self._selector.register(receiver, selectors.EVENT_READ, None)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._ask_stop)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # wakes the selector when a child ends

    def _ask_stop(self, number: int, frame: object) -> None:
        self._stop_asked = True

    def _start_guard(self) -> subprocess.Popen[bytes]:
        """Start the process that outlives a killed supervisor just long enough to clear up after
        it.
        """
        guard = [sys.executable, "-I", "-S", str(Path(leftovers.__file__)), *self._marks]
        return subprocess.Popen(
            guard, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True
        )


def say(text: str) -> None:
    """Print a line of the supervisor's own, for people."""
    _write_stderr(f"{'flotilla':<10} | {text}\n".encode())


def _write_stderr(data: bytes) -> None:
    with contextlib.suppress(OSError):  # nobody reads any more: go on working
        while data:
            data = data[os.write(2, data) :]


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    if process.poll() is None:
        process.send_signal(number)


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
