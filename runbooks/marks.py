"""How the states of an incident, a run and a step look (see fleet/marks.py)."""

from django.utils.translation import gettext_lazy as _

from fleet.marks import CRIT, HOLD, IDLE, OK, RUN, WARN, machine_add
from fleet.verbs import verbs_add
from runbooks.models import Incident, Run, RunStep

verbs_add(
    {
        "incident.open": _("opened"),
        "incident.recur": _("seen again"),
        "incident.take": _("taken"),
        "incident.note": _("noted"),
        "incident.cause": _("cause named"),
        "run.propose": _("proposed"),
        "run.take": _("taken over"),
    }
)
machine_add(
    "incident",
    {
        "open": (CRIT, "crit"),
        "acknowledged": (CRIT, "crit"),
        "mitigating": (WARN, "run"),
        "mitigated": (WARN, "ok"),
        "resolved": (OK, "ok"),
        "closed": (IDLE, "skip"),
    },
    dict(Incident.State.choices),
)
machine_add(
    "run",
    {
        "proposed": (IDLE, "idle"),
        "running": (RUN, "run"),
        "waiting_human": (HOLD, "hold"),
        "succeeded": (OK, "ok"),
        "failed": (CRIT, "crit"),
        "aborted": (IDLE, "skip"),
    },
    dict(Run.State.choices),
)
machine_add(
    "step",
    {
        "pending": (IDLE, "idle"),
        "awaiting_confirm": (HOLD, "hold"),
        "running": (RUN, "run"),
        "passed": (OK, "ok"),
        "failed": (CRIT, "crit"),
        "unknown": (WARN, "unk"),
        "skipped": (IDLE, "skip"),
        "cancelled": (IDLE, "cordon"),
    },
    dict(RunStep.State.choices),
)
