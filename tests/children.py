"""Processes that tests start: each has a log, ends with the test run and is ended at teardown."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from console.embedded.child import child_argv


class Child(subprocess.Popen[bytes]):
    """A started program; `log_path` holds what it printed, both streams together."""

    log_path: Path

    @property
    def log(self) -> str:
        return self.log_path.read_text(errors="replace")


def start_child(argv: list[str], env: Mapping[str, str], log_path: Path, cwd: Path) -> Child:
    """Start a program in a session of its own; the kernel ends it when the test run is killed."""
    with log_path.open("ab") as log:
        child = Child(
            child_argv(argv, death_signal=signal.SIGKILL),
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=cwd,
            start_new_session=True,
        )
    child.log_path = log_path
    return child


def end_child(child: Child, *, patience_s: float = 8.0) -> None:
    """TERM, wait, then KILL the whole group; safe for one that has ended."""
    end_children([child], patience_s=patience_s)


def end_children(children: list[Child], *, patience_s: float = 8.0) -> None:
    """End several as `end_child` does one, all of them within one patience: each takes a second or two to leave."""
    for child in children:
        if child.poll() is None:
            child.terminate()
    deadline = time.monotonic() + patience_s
    for child in children:
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(timeout=max(0, deadline - time.monotonic()))
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
