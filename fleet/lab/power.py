"""The processes of one node: who they are, and how they are stopped, frozen and started.

The keeper is the parent of every SSH daemon, so starting one means asking the keeper.
"""

import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path

from . import procs
from .keeping import ask_keeper
from .place import LabError
from .sshd import NodeHost, sshd_command

START_LIMIT_S = 10.0


def listener(node_dir: Path) -> dict[int, int]:
    """Return the node's SSH listener as pid -> start ticks; empty when it is down."""
    return procs.read_pid_files(str(node_dir / "pids"), "sshd")


def sessions(node_dir: Path) -> dict[int, int]:
    """Return the SSH daemons that serve open connections, also those whose listener is gone."""
    found = procs.read_pid_files(str(node_dir / "pids"), "session")
    for pid in listener(node_dir):
        below = procs.descendants(pid)
        found.update({child: ticks for child, ticks in below.items() if _is_sshd(child)})
    return found


def _is_sshd(pid: int) -> bool:
    return procs.command_name(pid).startswith("sshd")


def record_sessions(node_dir: Path) -> None:
    """Remember open sessions by pid, before the listener that leads to them is killed."""
    for pid in sessions(node_dir):
        procs.write_pid_file(str(node_dir / "pids"), "session", pid)


def commands(host: NodeHost) -> dict[int, int]:
    """Return everything started on the node: shells, subjects, containers."""
    found = procs.marked_with(f"FLOTILLA_LAB={host.lab}", f"NODE_NAME={host.name}")
    found.pop(os.getpid(), None)
    return found


def signal_all(living: dict[int, int], number: int) -> None:
    """Send one signal to each of these processes that still lives."""
    for pid, ticks in living.items():
        procs.send_signal(pid, ticks, number)


def kill_listener(node_dir: Path) -> None:
    """Kill the listener and wait until it is gone; open sessions live on."""
    record_sessions(node_dir)
    kill_until_gone(lambda: listener(node_dir))
    for stale in (node_dir / "pids").glob("sshd-*"):
        stale.unlink(missing_ok=True)


def kill_node(host: NodeHost) -> None:
    """Kill every process of the node, the SSH daemons last, as a power cut would.

    The listener and then the open sessions freeze first: nobody must hear of the deaths one by one, not even a
    session that begins meanwhile.
    """
    signal_all(listener(host.directory), signal.SIGSTOP)
    signal_all(sessions(host.directory), signal.SIGSTOP)
    left = procs.cut_power([str(host.directory / "pids")], lambda: commands(host))
    if left:
        raise LabError(f"processes {sorted(left)} cannot be killed; look at /proc/PID/stat")
    kill_until_gone(lambda: sessions(host.directory))
    kill_listener(host.directory)
    for stale in (host.directory / "pids").iterdir():
        stale.unlink(missing_ok=True)


def kill_until_gone(living) -> None:
    """KILL what `living()` returns until it returns nothing; LabError after 6 s."""
    left = procs.kill_all(living)
    if left:
        raise LabError(f"processes {sorted(left)} cannot be killed; look at /proc/PID/stat")


def start_listeners(lab: Path, sshd: str, hosts: Iterable[NodeHost]) -> None:
    """Let the keeper start the SSH daemons of these nodes; return when all of them listen."""
    hosts = list(hosts)
    for host in hosts:
        (host.directory / "sshd.pid").unlink(missing_ok=True)
        ask_keeper(lab, {host.name: sshd_command(sshd, host)})
    deadline = time.monotonic() + START_LIMIT_S
    for host in hosts:
        _await_listening(host, deadline)


def _await_listening(host: NodeHost, deadline: float) -> None:
    # sshd writes its PidFile after it listens.
    while not (host.directory / "sshd.pid").exists():
        if not listener(host.directory) or time.monotonic() > deadline:
            raise LabError(f"{host.name}: sshd does not listen: {_last_log_line(host)}")
        time.sleep(0.005)


def _last_log_line(host: NodeHost) -> str:
    lines = (host.directory / "sshd.log").read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it said nothing"


def freeze(host: NodeHost, is_frozen: bool) -> None:
    """Stop or continue the node's SSH daemons; connections stay open and say nothing."""
    number = signal.SIGSTOP if is_frozen else signal.SIGCONT
    signal_all(listener(host.directory) | sessions(host.directory), number)
