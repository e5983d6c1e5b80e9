"""What the page of a run and the overview read: rows only; words are made by the views."""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import QuerySet

from fleet.models import Evidence, TrailEntry
from releases.models import Launch
from runbooks.models import Run
from runbooks.rules import run as rules

HISTORY_SHOWN = 30


def evidence_named(keys: Iterable[int]) -> dict[int, Evidence]:
    """Return pieces of evidence by key, without their bytes."""
    return Evidence.objects.defer("body").in_bulk(set(keys))


def nodes_to_name(run: Run) -> list[str]:
    """Return the nodes that a parameter of the run may name: those of the launch it is about, else of the unit."""
    launch = run.incident.launch if run.incident else None
    if launch is None and run.replica:
        launch = Launch.objects.filter(replica=run.replica).order_by("-generation").first()
    if launch is not None:
        places = launch.positions.select_related("node__host").order_by("position")
        if names := [place.node.name for place in places]:
            return names
    if run.replica is None:
        return []
    members = run.replica.members.filter(released_at=None).select_related("node__host")
    return [member.node.name for member in members.order_by("position")]


def run_history(run: Run) -> QuerySet[TrailEntry]:
    """Return what was done in a run, newest first."""
    rows = TrailEntry.objects.filter(object_kind="run", object_id=run.public_id)
    return rows.order_by("-id")[:HISTORY_SHOWN]


def runs_live() -> QuerySet[Run]:
    """Return the runs that are proposed, at work or wait for a person, the oldest first."""
    rows = Run.objects.filter(state__in=rules.LIVE).order_by("pk")
    return rows.select_related("incident__pool", "replica__pool", "holder")
