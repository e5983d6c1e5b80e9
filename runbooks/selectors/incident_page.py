"""What the pages of incidents read: rows only; words are made by the views."""

from __future__ import annotations

from django.db.models import Prefetch, QuerySet

from runbooks.models import Incident, Run, RunStep
from runbooks.rules import incident as rules

LISTED = 200
NOTES_SHOWN = 200


def incidents_listed(*, is_live: bool) -> QuerySet[Incident]:
    """Return the newest incidents, all or those that are neither resolved nor closed."""
    rows = Incident.objects.select_related("pool", "replica", "owner")
    if is_live:
        rows = rows.filter(state__in=rules.LIVE)
    return rows[:LISTED]


def runs_of(incident: Incident) -> list[Run]:
    """Return the runs of an incident with their steps, newest first."""
    steps = Prefetch("steps", RunStep.objects.order_by("position"))
    return list(incident.runs.select_related("holder", "replica").prefetch_related(steps))
