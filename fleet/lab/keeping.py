"""The lab's processes as a whole: its keeper, what it is asked for, and that nothing outlives it."""

import json
import os
import signal
import socket
import subprocess
import time
from pathlib import Path

from . import procs
from .place import LabError

KEEPER_END_S = 12.0


def keeper_of(lab: Path) -> dict[int, int]:
    """Return the living keeper as pid -> start ticks; empty when the lab is down."""
    return procs.read_pid_files(str(lab), "keeper")


def start_keeper(lab: Path, python: str, lock_fd: int, owner_pid: int) -> None:
    """Start the keeper; it owns the block's lock from now on and ends with `owner_pid` (0: never)."""
    ticks = procs.start_ticks(owner_pid) if owner_pid else 0
    if ticks is None:
        raise LabError(f"owner process {owner_pid} is gone; the lab was not started")
    for stale in lab.glob("keeper-*"):
        stale.unlink()
    argv = [python, "-I", "-S", str(lab / "lib" / "keeper.py"), str(lab), str(owner_pid)]
    with open(lab / "keeper.log", "ab") as log:
        done = subprocess.run(
            [*argv, str(ticks), str(lock_fd)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=(lock_fd,),
            env={"PATH": os.defpath, "FLOTILLA_LAB": str(lab)},
            cwd="/",
            check=False,
        )
    if done.returncode != 0:
        raise LabError(f"the lab's keeper did not start; see {lab}/keeper.log")


def ask_keeper(lab: Path, request: dict) -> dict:
    """Send one request to the keeper and return its answer; LabError when it cannot."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(5)
            connection.connect(str(lab / "keeper.sock"))
            connection.sendall(json.dumps(request).encode())
            answer = json.loads(connection.recv(65536).decode() or '{"error": "no answer"}')
    except OSError as error:
        raise LabError(
            f"the lab in {lab} is not running ({error}); start it with lab up"
        ) from error
    if "error" in answer:
        raise LabError(f"the lab's keeper could not start {sorted(request)}: {answer['error']}")
    return answer


def end_keeper(lab: Path) -> None:
    """Let the keeper end everything it started, and itself."""
    deadline = time.monotonic() + KEEPER_END_S
    for pid, ticks in keeper_of(lab).items():
        procs.send_signal(pid, ticks, signal.SIGTERM)
    while left := keeper_of(lab):
        if time.monotonic() > deadline:
            for pid, ticks in left.items():
                procs.send_signal(pid, ticks, signal.SIGKILL)
        time.sleep(0.01)
    for stale in (*lab.glob("keeper-*"), lab / "keeper.sock"):
        stale.unlink(missing_ok=True)


def marked(lab: Path) -> dict[int, int]:
    """Return every process that carries this lab's mark in its environment, this one left out."""
    found = procs.marked_with(f"FLOTILLA_LAB={lab}")
    found.pop(os.getpid(), None)
    return found


def end_strays(lab: Path) -> None:
    """End what a killed keeper left and prove that nothing of the lab lives; LabError otherwise.

    sshd overwrites its environment, so daemons are found by pid file and their children by them.
    """
    directories = [str(path) for path in (*lab.glob("nodes/*/pids"), lab / "store" / "pids")]

    def living() -> dict[int, int]:
        found = marked(lab)
        for directory in directories:
            recorded = procs.read_pid_files(directory)
            for pid in recorded:
                found.update(procs.descendants(pid))
            found.update(recorded)
        return found

    left = procs.cut_power(directories, living)
    for directory in directories:
        procs.forget_dead(directory)
    if left:
        raise LabError(f"processes {sorted(left)} of the lab cannot be ended; look at /proc")
