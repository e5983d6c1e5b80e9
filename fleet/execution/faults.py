"""Points at which tests kill or freeze a process, and the clock of the design made faster for tests."""

import os
import signal

from django.conf import settings


def fault_point(name: str) -> None:
    """Kill this process when FAULT_POINT names this point; do nothing in life.

    `FAULT_POINT=@FILE` reads `name` or `name:stop` (freeze instead) from a file, and fires once.
    """
    wanted = os.environ.get("FAULT_POINT", "")
    if wanted.startswith("@"):
        wanted = _armed(wanted[1:], name)
    if wanted.partition(":")[0] == name:
        os.kill(os.getpid(), signal.SIGSTOP if wanted.endswith(":stop") else signal.SIGKILL)


def _armed(path: str, name: str) -> str:
    try:
        with open(path) as file:
            wanted = file.read().strip()
        if wanted.partition(":")[0] == name:
            os.rename(path, f"{path}.fired")  # of several processes only one fires
    except OSError:
        return ""
    return wanted


def scaled(seconds: float) -> float:
    """Return a waiting time of the design divided by TIME_SCALE."""
    return seconds / settings.TIME_SCALE
