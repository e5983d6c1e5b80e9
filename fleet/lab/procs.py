"""Processes by pid and start ticks: who is alive, who belongs to a lab, how they are ended.

Also copied beside the keeper, so it uses the standard library only.
"""

import contextlib
import os
import signal
import time


def stat_fields(pid: int) -> list[str] | None:
    """Return /proc/PID/stat after the command name (field 3 first), None when gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return None
    return text.rpartition(")")[2].split()


def start_ticks(pid: int) -> int | None:
    """Return the start time of a living process in clock ticks; a zombie counts as gone."""
    fields = stat_fields(pid)
    if not fields or fields[0] in "ZX":
        return None
    return int(fields[19])


def is_alive(pid: int, ticks: int) -> bool:
    """Whether that very process still lives, not another one under the same number."""
    return start_ticks(pid) == ticks


def send_signal(pid: int, ticks: int, number: int) -> bool:
    """Signal that very process; False when it is gone."""
    if not is_alive(pid, ticks):
        return False
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def command_name(pid: int) -> str:
    """Return the name of a process's program, cut by the kernel at 15 bytes; empty when it is gone."""
    try:
        with open(f"/proc/{pid}/comm", "rb") as file:
            return file.read().decode("utf-8", "replace").strip()
    except OSError:
        return ""


def _all_pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def descendants(root: int) -> dict[int, int]:
    """Return pid -> start ticks of everything below `root`, zombies left out."""
    parents: dict[int, int] = {}
    for pid in _all_pids():
        fields = stat_fields(pid)
        if fields:
            parents[pid] = int(fields[1])
    found: dict[int, int] = {}
    layer = {root}
    while layer:
        layer = {pid for pid, parent in parents.items() if parent in layer and pid not in found}
        found.update({pid: ticks for pid in layer if (ticks := start_ticks(pid)) is not None})
    return found


def marked_with(*marks: str) -> dict[int, int]:
    """Return pid -> start ticks of the processes whose environment holds every `NAME=value`."""
    wanted = [os.fsencode(mark) for mark in marks]
    found: dict[int, int] = {}
    for pid in _all_pids():
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                entries = file.read().split(b"\0")
        except OSError:
            continue
        ticks = start_ticks(pid)
        if ticks is not None and all(mark in entries for mark in wanted):
            found[pid] = ticks
    return found


def write_pid_file(directory: str, kind: str, pid: int) -> str:
    """Record a started process as `<kind>-<pid>` with its start ticks; return the path."""
    path = os.path.join(directory, f"{kind}-{pid}")
    with open(path + ".new", "w") as file:
        file.write(f"{start_ticks(pid) or 0}\n")
    os.rename(path + ".new", path)
    return path


def read_pid_files(directory: str, kind: str = "") -> dict[int, int]:
    """Return pid -> start ticks of the living processes recorded in `directory`."""
    found: dict[int, int] = {}
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        return found
    for name in names:
        recorded, _, pid = name.rpartition("-")
        if not pid.isdigit() or (kind and recorded != kind):
            continue
        try:
            with open(os.path.join(directory, name)) as file:
                ticks = int(file.read().split()[0])
        except (OSError, ValueError, IndexError):
            continue
        if is_alive(int(pid), ticks):
            found[int(pid)] = ticks
    return found


def forget_dead(directory: str) -> None:
    """Remove the records of processes that are gone, and those that were never written whole."""
    living = read_pid_files(directory)
    for name in os.listdir(directory) if os.path.isdir(directory) else ():
        pid = name.rpartition("-")[2]
        if not (pid.isdigit() and int(pid) in living):
            with contextlib.suppress(FileNotFoundError):  # a keeper that ends does the same
                os.unlink(os.path.join(directory, name))


def kill_all(living, limit_s: float = 6.0) -> dict[int, int]:
    """KILL whatever `living()` returns until it returns nothing, as a power cut would.

    `living` is asked again each round, so children born meanwhile are found as well. Returns
    what is left after `limit_s`, which is empty unless a process cannot be killed.
    """
    deadline = time.monotonic() + limit_s
    while left := living():
        for pid, ticks in left.items():
            send_signal(pid, ticks, signal.SIGKILL)
        if time.monotonic() > deadline:
            return left
        time.sleep(0.01)
    return {}


def cut_power(pid_directories: list[str], living) -> dict[int, int]:
    """Kill the containers' monitors, then all of `living()`; return what is left.

    A monitor that outlived its engine would write an orderly exit code, which no power cut does.
    """

    def monitors() -> dict[int, int]:
        found: dict[int, int] = {}
        for directory in pid_directories:
            found.update(read_pid_files(directory, "monitor"))
        return found

    return kill_all(monitors) or kill_all(living)
