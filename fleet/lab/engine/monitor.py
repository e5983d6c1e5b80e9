"""The parent of one engine: starts it, follows its phases, reaps it and tells the truth afterwards.

It is the only writer of state.json. It kills workers that outlive the engine, so that a container
is reported as exited only when nothing of it runs.
"""

import json
import os
import signal
import sys
import time
from typing import NoReturn

from .clock import rfc3339
from .procfs import is_alive, remove_file, start_ticks, write_pid_file

PR_SET_CHILD_SUBREAPER = 36
REAP_DEADLINE_S = 5.0


class StateFile:
    """The container's state.json, replaced whole at each change."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.values: dict = {}

    def update(self, **values: object) -> None:
        self.values.update(values)
        with open(self.path + ".new", "w", encoding="utf-8") as file:
            json.dump(self.values, file)
        os.replace(self.path + ".new", self.path)


def main(container_dir: str) -> int:
    """Run one container to its end; return the engine's exit code."""
    container_dir = os.path.abspath(container_dir)
    forget_the_caller()
    become_subreaper()
    with open(os.path.join(container_dir, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    state = StateFile(os.path.join(container_dir, "state.json"))
    pid, up_read, down_write = start_engine(container_dir, config)
    pid_files = record_start(state, config, pid)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda sig, _frame: send(pid, sig))
    follow_phases(up_read, state)
    code = wait_for(pid)
    os.close(down_write)
    end_leftovers(os.path.join(container_dir, "workers.json"))
    state.update(status="exited", exit_code=code, finished_at=rfc3339())
    for path in pid_files:
        remove_file(path)
    return code


def forget_the_caller() -> None:
    """Leave the environment of the command that ran docker, and carry the lab's mark.

    A daemon's children do not belong to the client: with its subject's name in the environment
    the whole engine would be ended as an escaped child of `docker run`.
    """
    if "FLOTILLA_SUBJECT" in os.environ or "FLOTILLA_LAB" not in os.environ:
        os.environ.pop("FLOTILLA_SUBJECT", None)
        os.environ.setdefault("FLOTILLA_LAB", os.environ.get("LAB", ""))
        os.execv(sys.executable, [sys.executable, "-I", "-S", *sys.argv])


def become_subreaper() -> None:
    """Take over orphans of this container (Linux), so that no zombie waits for a lazy pid 1."""
    if sys.platform.startswith("linux"):
        import ctypes

        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def engine_environment(config: dict) -> dict[str, str]:
    """Return the container's own variables over the lab's few; nothing of the caller's shell."""
    kept = ("PATH", "HOME", "FLOTILLA_LAB", "LAB", "NODE_DIR", "NODE_ADDR", "NODE_NAME", "SHLVL")
    unsafe = ("PATH", "HOME", "FLOTILLA_LAB", "LAB", "SHLVL")
    wanted = config.get("env") or {}
    environment = {
        name: str(value)
        for name, value in wanted.items()
        if name not in unsafe and not name.startswith(("LD_", "PYTHON", "DYLD_"))
    }
    environment.update({name: os.environ[name] for name in kept if name in os.environ})
    return environment


def start_engine(container_dir: str, config: dict) -> tuple[int, int, int]:
    """Start the engine in its own session; return its pid and the two pipe ends kept here.

    Up carries the engine's phases and its end; down tells the engine that the monitor is gone.
    """
    up_read, up_write = os.pipe()
    down_read, down_write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(up_read)
        os.close(down_write)
        play(container_dir, up_write, down_read, engine_environment(config))
    os.close(up_write)
    os.close(down_read)
    return pid, up_read, down_write


def play(container_dir: str, up: int, down: int, environment: dict[str, str]) -> NoReturn:
    """Be the engine. A fork shares the interpreter's pages, where an exec would cost 4 MB more."""
    code = 70
    try:
        os.setsid()
        # What the engine's own interpreter complains about is a fault of the lab, not of vLLM.
        errors = os.open(
            os.path.join(container_dir, "engine.err"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600
        )
        null = os.open(os.devnull, os.O_RDONLY)
        for target, source in ((0, null), (1, errors), (2, errors)):
            os.dup2(source, target)
        os.chdir(container_dir)
        os.environ.clear()
        os.environ.update(environment)
        from . import run

        code = run.main(container_dir, up, down)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stderr.flush()
        os._exit(code)


def record_start(state: StateFile, config: dict, pid: int) -> list[str]:
    """Write that the container runs, and the pid files of engine and monitor; returns their paths."""
    now = rfc3339()
    me = os.getpid()
    state.update(
        status="running", pid=pid, start_ticks=start_ticks(pid), exit_code=None, oom_killed=False,
        started_at=now, finished_at=None, phase="start",
        monitor_pid=me, monitor_start_ticks=start_ticks(me),
    )  # fmt: skip
    node_dir = config["node"]["dir"]
    return [
        write_pid_file(node_dir, "monitor", me, "monitor", now),
        write_pid_file(node_dir, "engine", pid, "engine", now),
    ]


def follow_phases(up_read: int, state: StateFile) -> None:
    """Write each phase the engine reports, until the pipe ends because the engine ended."""
    rest = b""
    while chunk := os.read(up_read, 4096):
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            state.update(**json.loads(line))
    os.close(up_read)


def wait_for(pid: int) -> int:
    """Reap the engine; a signal counts as 128 + its number, as docker shows it."""
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def send(pid: int, number: int) -> None:
    """Signal a process that may be gone already."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def end_leftovers(workers_path: str) -> None:
    """Kill the workers that the engine left (a stopped one does not see its pipe end)."""
    try:
        with open(workers_path, encoding="utf-8") as file:
            workers = json.load(file)
    except (OSError, ValueError):
        workers = []
    for worker in workers:
        if is_alive(worker["pid"], worker["start_ticks"]):
            send(worker["pid"], signal.SIGKILL)
    reap_children(time.monotonic() + REAP_DEADLINE_S)
    for worker in workers:
        remove_file(worker.get("pid_file", ""))


def reap_children(deadline: float) -> None:
    """Wait for every orphan that came to this subreaper; kill what ignores the end of its pipe."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            if time.monotonic() > deadline:
                return
            for child in my_children():
                send(child, signal.SIGKILL)
            time.sleep(0.005)


def my_children() -> list[int]:
    """Return the pids of this process's children; none when the kernel does not say."""
    me = os.getpid()
    try:
        with open(f"/proc/{me}/task/{me}/children", encoding="ascii") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []
