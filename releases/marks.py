"""How the states of a launch and of a release look (see fleet/marks.py)."""

from fleet.marks import CRIT, IDLE, OK, RUN, WARN, Mark, machine_add, mark_of
from releases.models import GateRun, Launch, Release

machine_add(
    "launch",
    {
        "created": (RUN, "run"),
        "preflight": (RUN, "run"),
        "starting": (RUN, "run"),
        "loading": (RUN, "run"),
        "warming": (RUN, "run"),
        "ready": (OK, "ok"),
        "freezing": (CRIT, "crit"),
        "stopping": (RUN, "run"),
        "failed": (CRIT, "crit"),
        "stopped": (IDLE, "skip"),
    },
    dict(Launch.State.choices),
)
machine_add(
    "release",
    {
        "draft": (IDLE, "idle"),
        "sealed": (OK, "ok"),
        "reviewed": (OK, "ok"),
        "in_service": (OK, "ok"),
        "superseded": (IDLE, "skip"),
        "withdrawn": (IDLE, "cordon"),
    },
    dict(Release.State.choices),
)
machine_add(
    "gate",
    {
        "queued": (IDLE, "idle"),
        "running": (RUN, "run"),
        "passed": (OK, "ok"),
        "failed": (CRIT, "crit"),
        "inconclusive": (WARN, "unk"),
        "errored": (WARN, "warn"),
        "expired": (WARN, "unk"),
        "cancelled": (IDLE, "skip"),
    },
    dict(GateRun.State.choices),
)


def launch_mark(launch: Launch) -> Mark:
    """Return how a launch is drawn: one that is ready shows the doubt of its unit, when there is one."""
    if launch.state == Launch.State.READY and launch.replica.doubt:
        return mark_of("replica", launch.replica.doubt)
    return mark_of("launch", launch.state)
