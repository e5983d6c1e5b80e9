"""Finds and ends processes by a mark in their environment; also the guard that does so after a
supervisor's death.

`leftovers.py MARK...` reads standard input to its end, gives the marked processes time to end by
themselves and
kills the rest. Only exact `NAME=VALUE` marks count, never a name pattern. Standard library only.
"""

import os
import signal
import sys
import time

GUARD_PATIENCE_S = 8.0


def find_marked(marks: list[str]) -> list[int]:
    """List processes (zombies and this one excepted) whose start environment holds one of `marks`."""
    wanted = {mark.encode() for mark in marks}
    found = []
    for name in os.listdir("/proc") if os.path.isdir("/proc") else []:
        if name.isdigit() and int(name) != os.getpid() and _environment(name) & wanted:
            found.append(int(name))
    return found


def _environment(pid: str) -> set[bytes]:
    try:
        with open(f"/proc/{pid}/environ", "rb") as stream:
            return set(stream.read().split(b"\0"))
    except OSError:  # ended, or another user's
        return set()


def end_marked(marks: list[str], *, patience_s: float, ask_first: bool = True) -> list[int]:
    """End all marked processes: TERM when `ask_first`, then KILL after `patience_s`. Returns who
    had to be killed.
    """
    if ask_first:
        _signal_all(find_marked(marks), signal.SIGTERM)
    deadline = time.monotonic() + patience_s
    killed: list[int] = []
    while left := find_marked(marks):
        if time.monotonic() > deadline:
            _signal_all(left, signal.SIGKILL)
            killed = sorted({*killed, *left})
        time.sleep(0.1)
    return killed


def _signal_all(pids: list[int], number: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue


def main() -> None:
    """Wait until the owner of stdin is gone, then end every process with one of the marks in the arguments."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    while os.read(0, 4096):
        pass
    # The children were signalled by the kernel; a second TERM would make some of them end less
    # cleanly.
    end_marked(sys.argv[1:], patience_s=GUARD_PATIENCE_S, ask_first=False)


if __name__ == "__main__":
    main()
