"""Starts a program that ends with its parent: `child.py SIGNAL USER -- PROGRAM ARG...` becomes that
program.

A launcher of its own, because the order matters (changing the user clears the parent-death signal)
and
because running Python code between fork and exec is unsafe in a process with threads. Standard
library only.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def child_argv(argv: list[str], *, death_signal: int, user: str = "") -> list[str]:
    """Return the command line that runs `argv` as `user` and signals it when the starting thread
    ends.
    """
    launcher = [sys.executable, "-I", "-S", os.path.abspath(__file__)]
    return [*launcher, str(int(death_signal)), user, str(os.getpid()), "--", *argv]


def die_with_parent(death_signal: int) -> None:
    """Ask the kernel for `death_signal` when the parent ends. Linux only; elsewhere nothing
    happens.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, death_signal, 0, 0, 0)


def _become(user: str) -> None:
    import pwd

    entry = pwd.getpwnam(user)
    os.setgroups([])
    os.setgid(entry.pw_gid)
    os.setuid(entry.pw_uid)


def main() -> None:
    """Become the program of the arguments, as its user, bound to die with the parent that started it."""
    death_signal, user, parent, _, *argv = sys.argv[1:]
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    if user:
        _become(user)
    die_with_parent(int(death_signal))
    if os.getppid() != int(parent):
        sys.exit(f"{argv[0]}: the parent ended before the start")
    os.execvp(argv[0], argv)


if __name__ == "__main__":
    main()
