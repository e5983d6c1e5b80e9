"""What the gate runs of a launch prove of it. Reads only."""

from __future__ import annotations

from releases.models import GateRun, Launch
from releases.rules.gates import CHECKS, FAILED, PASSED


def gate_counting(launch: Launch) -> GateRun | None:
    """Return the newest run over every check, or one that failed and is newer; None without any.

    What looked at a part of the checks (a book's step) may fail a launch, and proves nothing.
    """
    return next((run for run in launch.gate_runs.order_by("-pk") if _counts(run)), None)


def is_gated(launch: Launch) -> bool:
    """Tell whether a launch passed every check and none failed since; runs that prove nothing change nothing."""
    runs = launch.gate_runs.filter(state__in=[PASSED, FAILED]).order_by("-pk")
    newest = next((run for run in runs if _counts(run)), None)
    return newest is not None and newest.state == PASSED


def _counts(run: GateRun) -> bool:
    return run.state == FAILED or set(CHECKS) <= set(run.checks)
