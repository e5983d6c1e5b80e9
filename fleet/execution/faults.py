"""Points at which tests kill a process, and the clock of the design made faster for tests."""

import os
import signal

from django.conf import settings


def fault_point(name: str) -> None:
    """Kill this process when FAULT_POINT names this point; do nothing in life."""
    if os.environ.get("FAULT_POINT") == name:
        os.kill(os.getpid(), signal.SIGKILL)


def scaled(seconds: float) -> float:
    """Return a waiting time of the design divided by TIME_SCALE."""
    return seconds / settings.TIME_SCALE
