"""Probes by the clock: asks the nodes whose last probe is older than the interval, never one that is being asked.

What the answers mean is settled as of any other probe. Nothing is asked while the mass-change brake is on.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, F, OuterRef, QuerySet, Subquery
from django.db.models.functions import Now
from django.utils.translation import gettext as _

from fleet.doorbell import ring
from fleet.execution.models import Host
from fleet.models import Node, NodeProbe, ProbeSchedule
from fleet.rules.message import said
from fleet.rules.refusals import Refused
from fleet.rules.schedule import ASKED_STATES, EVERY_S, interval_problem
from fleet.selectors.brake import is_braked
from fleet.services.permits import permit_demand
from fleet.services.probes import probe_start
from fleet.services.trail import Actor, rule_actor, trail_add
from fleet.services.versions import version_check

BATCH = 64  # as many as one job of a hand carries; the rest comes with the next tick


@transaction.atomic
def schedule_change(
    *, every_s: int, version: str | None, actor: Actor, user: Any = None
) -> ProbeSchedule:
    """Set how often nodes are probed by themselves; 0 is never. Raises Refused, Stale, NotAllowed."""
    permit_demand(user, "fleet-settings")
    if problem := interval_problem(every_s):
        raise Refused(_("Interval: %(why)s. Nothing was changed.") % {"why": said(problem, _)})
    ProbeSchedule.objects.get_or_create(pk=1, defaults={"every_s": EVERY_S})
    row = ProbeSchedule.objects.select_for_update().get(pk=1)
    version_check(row, version)
    before = row.every_s
    row.every_s, row.changed_by, row.version = every_s, user, row.version + 1
    row.save()
    trail_add(
        actor=actor,
        verb="schedule.change",
        object_kind="fleet",
        object_id="probe schedule",
        before={"every_s": before},
        after={"every_s": every_s},
    )
    ring("fleet")
    return row


def probes_due(limit: int = BATCH) -> int:
    """Probe the nodes that are due, the longest unasked first; return how many. The caller runs alone."""
    every_s = schedule_now().every_s
    if not every_s or is_braked():
        return 0
    due = list(_due(every_s).values_list("pk", flat=True)[:limit])
    if not due:
        return 0
    with transaction.atomic():
        # a node that somebody works on is left for the next tick; one that was asked meanwhile is not due any more
        locked = Node.objects.select_for_update(of=("self",), skip_locked=True).filter(pk__in=due)
        mine = [node.pk for node in locked.order_by("pk")]
        nodes = list(_due(every_s).filter(pk__in=mine))
        if nodes:
            probe_start(nodes=nodes, actor=rule_actor("probe-schedule"))
    return len(nodes)


def schedule_now() -> ProbeSchedule:
    """Return the schedule as it is; not stored yet it has the default."""
    return ProbeSchedule.objects.select_related("changed_by").filter(pk=1).first() or ProbeSchedule(
        pk=1, every_s=EVERY_S
    )


def _due(every_s: int) -> QuerySet[Node]:
    probes = NodeProbe.objects.filter(node=OuterRef("pk"))
    asked = probes.order_by("-id").values("run__created_at")[:1]
    span = timedelta(seconds=every_s / settings.TIME_SCALE)
    return (
        Node.objects.annotate(asked_at=Subquery(asked))
        .filter(
            ~Exists(probes.filter(settled_at=None)),
            asked_at__lte=Now() - span,
            state__in=ASKED_STATES,
            host__key_state=Host.Key.PINNED,
        )
        .exclude(host__reach=Host.Reach.UNREACHABLE)
        .order_by(F("asked_at").asc(), "pk")
    )
