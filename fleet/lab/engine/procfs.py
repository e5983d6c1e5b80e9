"""Identity of a process: its start ticks, and whether it is really alive. Reads the real /proc."""

import os


def stat_fields(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat from the state on (index 0 is field 3); empty if gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return []


def start_ticks(pid: int) -> int:
    """Return field 22 of /proc/PID/stat, 0 when the process is gone."""
    fields = stat_fields(pid)
    return int(fields[19]) if len(fields) > 19 else 0


def is_alive(pid: int, ticks: int) -> bool:
    """Tell whether this very process runs; a zombie or a reused pid does not count."""
    fields = stat_fields(pid)
    return len(fields) > 19 and fields[0] not in "ZX" and int(fields[19]) == ticks


def write_pid_file(node_dir: str, kind: str, pid: int, argv0: str, stamp: str) -> str:
    """Write `<node dir>/pids/<kind>-<pid>` as one line `START_TICKS STARTED_AT ARGV0`."""
    folder = os.path.join(node_dir, "pids")
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, f"{kind}-{pid}")
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(f"{start_ticks(pid)} {stamp} {argv0}\n")
    os.replace(path + ".new", path)
    return path


def remove_file(path: str) -> None:
    """Remove a file that may be gone already."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
