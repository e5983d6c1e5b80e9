"""How the states of this room's machines look (see fleet/marks.py)."""

from django.utils.translation import gettext_lazy as _

from fleet.marks import CRIT, HOLD, IDLE, OK, RUN, WARN, Mark, machine_add, mark_of
from fleet.verbs import verbs_add
from releases.models import (
    Approval,
    Drain,
    Endpoint,
    GateRun,
    Launch,
    Release,
    Rollout,
    Wave,
)

verbs_add(
    {
        "launch.create": _("launched"),
        "launch.stop": _("end asked for"),
        "endpoint.open": _("put behind the gateway"),
        "endpoint.set": _("traffic set"),
        "drain.start": _("drain begun"),
        "gateway.add": _("gateway added"),
        "gateway.change": _("gateway changed"),
        "gateway.drift": _("foreign change found"),
        "gateway.restart": _("proxy started anew"),
        "gate.start": _("gate run asked for"),
        "release.draft": _("drafted"),
        "release.edit": _("draft edited"),
        "release.seal": _("sealed"),
        "release.review": _("taken for reviewed"),
        "rollout.create": _("drafted"),
        "rollout.fire": _("trigger fired"),
        "approval.ask": _("approval asked for"),
        "approval.sign": _("signed"),
        "approval.reject": _("rejected"),
        "replica.create": _("canary made of spares"),
        "replica.to_spares": _("moved to spares"),
        "replica.remove": _("canary's spares given back"),
    }
)
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
machine_add(
    "rollout",
    {
        "draft": (IDLE, "idle"),
        "submitted": (HOLD, "hold"),
        "approved": (OK, "ok"),
        "running": (RUN, "run"),
        "paused": (WARN, "warn"),
        "rolling_back": (WARN, "run"),
        "rolled_back": (IDLE, "skip"),
        "rollback_failed": (CRIT, "crit"),
        "succeeded": (OK, "ok"),
        "cancelled": (IDLE, "skip"),
    },
    dict(Rollout.State.choices),
)
machine_add(
    "wave",
    {
        "pending": (IDLE, "idle"),
        "awaiting_approval": (HOLD, "hold"),
        "draining": (RUN, "run"),
        "replacing": (RUN, "run"),
        "warming": (RUN, "run"),
        "shifting": (RUN, "run"),
        "observing": (RUN, "run"),
        "passed": (OK, "ok"),
        "failed": (CRIT, "crit"),
        "rolled_back": (IDLE, "skip"),
        "skipped": (IDLE, "skip"),
        "retired": (OK, "skip"),
    },
    dict(Wave.State.choices),
)
machine_add(
    "approval",
    {
        "": (HOLD, "hold"),
        "approved": (OK, "ok"),
        "denied": (CRIT, "crit"),
        "withdrawn": (IDLE, "skip"),
    },
    {"": _("Waits for approval")} | dict(Approval.Decision.choices),
)
machine_add(
    "trigger",
    {"quiet": (OK, "ok"), "fired": (CRIT, "crit"), "no_data": (IDLE, "unk")},
    {"quiet": _("Quiet"), "fired": _("Fired"), "no_data": _("No data")},
)
machine_add(
    "endpoint",
    {"ready": (OK, "ok"), "drain": (RUN, "run"), "maint": (IDLE, "skip")},
    dict(Endpoint.Mode.choices),
)
machine_add(
    "drain",
    {
        "draining": (RUN, "run"),
        "closing": (RUN, "run"),
        "drained": (OK, "ok"),
        "cut": (WARN, "warn"),
        "cancelled": (IDLE, "skip"),
    },
    dict(Drain.State.choices),
)


def launch_mark(launch: Launch) -> Mark:
    """Return how a launch is drawn: one that is ready shows the doubt of its unit, when there is one."""
    if launch.state == Launch.State.READY and launch.replica.doubt:
        return mark_of("replica", launch.replica.doubt)
    return mark_of("launch", launch.state)
