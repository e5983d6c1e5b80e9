"""Runs a tree of processes: ordered start, readiness, prefixed logs, ordered stop, nothing left behind.

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
from console.embedded.ports import describe_process
from console.embedded.started import Function, Program, Started

STOP_WITHIN_S = 14.0
MARK = "FLOTILLA_SUPERVISOR"


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
    """One child. Lower waves stop later; `ready_text` in a line of its output marks it ready.

    `death_signal`, `user` and `env` are for programs; a forked function gets KILL and this process's own.
    """

    name: str
    argv: list[str] = field(default_factory=list)
    function: Callable[[], None] | None = None  # runs in a fork instead of a program
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
    process: Started
    tail: bytes = b""
    is_silent: bool = False  # its output has ended
    is_ready: bool = False


class Supervisor:
    """Starts services, pumps their output, and ends them all. Used by one thread only."""

    def __init__(self, token: str, *, also_mine: list[str] | None = None):
        os.environ[MARK] = token
        self._marks = [f"{MARK}={token}", *(also_mine or [])]
        self._running: dict[str, _Running] = {}
        self._ended: dict[str, int] = {}  # exit codes of tasks
        self._selector = selectors.DefaultSelector()
        self._stop_asked = False
        self._guard = self._start_guard()
        self._listen_for_signals()

    # -- starting

    def start(self, service: Service) -> None:
        """Start a service in a session of its own; its end is noticed by every later call."""
        running = _Running(service, self._spawn(service))
        self._running[service.name] = running
        self._selector.register(running.process.output, selectors.EVENT_READ, running)

    def _spawn(self, service: Service) -> Started:
        if service.function:
            return Function(service.name, service.function)
        env = {**os.environ, **service.env}
        return Program(service.argv, env, death_signal=service.death_signal, user=service.user)

    def run_once(self, task: Service, *, timeout_s: float = 300.0) -> None:
        """Run a task to its end. Raises `ChildEnded` when it fails, `NotReady` when it is too slow."""
        self.start(task)
        deadline = time.monotonic() + timeout_s
        while task.name not in self._ended:
            if time.monotonic() > deadline:
                raise NotReady(f"{task.name}: expected to end within {timeout_s:.0f} s, still runs")
            self._turn(0.05)
        if code := self._ended.pop(task.name):
            raise ChildEnded(task.name, code)

    def wait_ready(self, name: str, *, timeout_s: float = 120.0) -> None:
        """Wait until the service printed its ready text. Raises `NotReady`."""
        self.wait_for(lambda: self._running[name].is_ready, name, timeout_s=timeout_s)

    def wait_for(
        self,
        answers: Callable[[], bool],
        what: str,
        *,
        timeout_s: float = 120.0,
        every_s: float = 0.05,
    ) -> None:
        """Wait until `answers()` is true. Raises `NotReady`."""
        deadline = time.monotonic() + timeout_s
        while not answers():
            if time.monotonic() > deadline:
                raise NotReady(f"{what}: expected to be ready within {timeout_s:.0f} s, is not")
            self._turn(every_s)

    def watch(self) -> None:
        """Stay until someone asks for the end (`StopAsked`) or a service ends (`ChildEnded`)."""
        while True:
            self._turn(1.0)

    # -- stopping

    def stop(self) -> None:
        """End everything, highest wave first, within `STOP_WITHIN_S`; find by mark what is left."""
        deadline = time.monotonic() + STOP_WITHIN_S
        for wave in sorted({r.service.wave for r in self._running.values()}, reverse=True):
            self._stop_wave([r for r in self._running.values() if r.service.wave == wave], deadline)
        self._guard.kill()
        self._guard.wait()
        for pid in leftovers.find_marked(self._marks):
            say(f"{describe_process(pid)} outlived its owner, ending it")
        leftovers.end_marked(self._marks, patience_s=0.5)

    def _stop_wave(self, wave: list[_Running], deadline: float) -> None:
        for running in wave:
            running.process.signal(running.service.stop_signal)
        started = time.monotonic()
        while any(r.process.poll() is None for r in wave):
            waited = time.monotonic() - started
            for running in wave:
                is_late = waited > running.service.grace_s or time.monotonic() > deadline
                if is_late and running.process.poll() is None:
                    say(f"{running.service.name} did not end within {waited:.1f} s, killing it")
                    running.process.kill_group()
            self._pump(0.05)
        for running in wave:
            running.process.kill_group()
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
        """Pass on what a child printed, whole lines only. False when there is no more for now."""
        try:
            chunk = os.read(running.process.output, 65536)
        except BlockingIOError:
            return False
        if not chunk:
            self._selector.unregister(running.process.output)
            os.close(running.process.output)
            running.is_silent = True
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

    def _forget(self, running: _Running) -> None:
        """Drain the last output of an ended child and stop looking at it."""
        while not running.is_silent and self._read(running):
            pass
        if running.tail:
            self._print(running, running.tail)
        if not running.is_silent:  # a grandchild holds the pipe
            self._selector.unregister(running.process.output)
            os.close(running.process.output)
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
        """Start what outlives a killed supervisor just long enough to clear up after it."""
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
