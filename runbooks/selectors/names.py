"""Tells the lower apps what incidents and runs are called, and which incidents are open."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection

from django.urls import reverse
from django.utils.translation import gettext_noop

from fleet.models import Pool
from fleet.selectors.inventory import keeper_add
from fleet.selectors.jump import jump_add, page_add
from fleet.selectors.scope import scope_add
from releases.selectors.incidents import OpenIncident, incidents_add
from runbooks.models import Incident, Run
from runbooks.rules.incident import LIVE

_INCIDENT = re.compile(r"INC-(\d{1,9})")
_RUN = re.compile(r"RUN-(\d{1,9})")


def incident_named(public_id: str) -> Incident | None:
    """Return the incident of this public id, or None."""
    found = _INCIDENT.fullmatch(public_id)
    rows = Incident.objects.select_related("pool", "replica", "launch__release", "owner")
    return rows.filter(pk=int(found[1])).first() if found else None


def run_named(public_id: str) -> Run | None:
    """Return the run of this public id, or None."""
    found = _RUN.fullmatch(public_id)
    rows = Run.objects.select_related("incident", "replica__pool", "holder")
    return rows.filter(pk=int(found[1])).first() if found else None


def incidents_open(pool: Pool | None) -> list[OpenIncident]:
    """Return what is neither resolved nor closed, the newest first."""
    rows = Incident.objects.filter(state__in=LIVE).select_related("pool")
    if pool is not None:
        rows = rows.filter(pool=pool)
    return [
        OpenIncident(
            name=row.public_id,
            title=row.title,
            state=row.state,
            pool=row.pool,
            opened_at=row.opened_at,
            address=reverse("incident", args=[row.public_id]),
        )
        for row in rows
    ]


scope_add(
    "incident", incident_named, lambda incident: incident.pool.slug if incident.pool else None
)


def nodes_of_incidents(node_ids: Collection[int]) -> dict[int, list[str]]:
    """Return node key -> the open incidents about it: those of its unit, or of a launch that ran on it. Two queries."""
    rows = Incident.objects.filter(state__in=LIVE).order_by("pk")
    now_in = rows.filter(
        replica__members__node__in=node_ids, replica__members__released_at=None
    ).values_list("replica__members__node_id", "pk")
    was_on = rows.filter(launch__positions__node__in=node_ids).values_list(
        "launch__positions__node_id", "pk"
    )
    found: dict[int, list[str]] = defaultdict(list)
    for node, pk in sorted({*now_in, *was_on}):
        found[node].append(Incident(pk=pk).public_id)
    return dict(found)


scope_add("run", run_named, lambda run: run.replica.pool.slug if run.replica else None)
jump_add(_INCIDENT.pattern, lambda found: reverse("incident", args=[found[0]]))
jump_add(_RUN.pattern, lambda found: reverse("run", args=[found[0]]))
page_add(gettext_noop("Overview"), "home")
page_add(gettext_noop("Incidents"), "incident-list")
incidents_add(incidents_open)
keeper_add(nodes_of_incidents)
