"""The page of one service unit: members, generations with their phases, and what its endpoint says now."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Count, Q

from fleet.execution.models import Scrape
from fleet.models import Member, Replica, TrailEntry
from releases.models import Launch, LaunchPhase, LaunchPosition
from releases.rules.phases import PREFLIGHT, ROW_OF, Span, clip_to_golden, join_spans
from releases.selectors.launch_page import ROW_ORDER

GENERATIONS_SHOWN = 12
BARS_SHOWN = 6
HISTORY_SHOWN = 8


@dataclass
class Generation:
    """One launch of the unit with the nodes it ran on and the spans of its rows."""

    launch: Launch
    nodes: list[str]
    rows: dict[str, Span]


@dataclass
class UnitSeen:
    replica: Replica
    members: list[Member]
    generations: list[Generation]
    scrapes: dict[str, Scrape]
    history: list[TrailEntry]

    @property
    def newest(self) -> Launch | None:
        return self.generations[0].launch if self.generations else None

    @property
    def live(self) -> Launch | None:
        newest = self.newest
        return newest if newest and newest.state in Launch.LIVE else None


def unit_seen(name: str) -> UnitSeen | None:
    """Return the unit of this name with everything its page shows, or None."""
    replica = Replica.objects.select_related("pool").filter(name=name).first()
    if replica is None:
        return None
    held = Count("node__holds", filter=Q(node__holds__lifted_at=None), distinct=True)
    well = Count("node__gpus", filter=Q(node__gpus__health="ok"), distinct=True)
    members = replica.members.filter(released_at=None).select_related(
        "node__host", "node__rack__leaf"
    )
    launches = list(
        replica.launches.select_related("release", "created_by").order_by("-generation")[
            :GENERATIONS_SHOWN
        ]
    )
    history = TrailEntry.objects.filter(object_kind="replica", object_id=name)
    if launches:
        ids = [launch.public_id for launch in launches]
        history = TrailEntry.objects.filter(
            Q(object_kind="replica", object_id=name) | Q(object_kind="launch", object_id__in=ids)
        )
    return UnitSeen(
        replica,
        list(members.annotate(held=held, well=well).order_by("position")),
        _generations(launches),
        _scrapes(launches),
        list(history.order_by("-id")[:HISTORY_SHOWN]),
    )


def _generations(launches: list[Launch]) -> list[Generation]:
    places = LaunchPosition.objects.filter(launch__in=launches).order_by("position")
    nodes: dict[int, list[str]] = {}
    starts: dict[int, Span] = {}
    created = {launch.pk: launch.created_at for launch in launches}
    for pk, name, start_at in places.values_list("launch", "node__host__name", "start__created_at"):
        nodes.setdefault(pk, []).append(name)
        if start_at:
            starts[pk] = Span(created[pk], start_at)
    found: dict[int, dict[str, list[Span]]] = {}
    phases = LaunchPhase.objects.filter(position__launch__in=launches)
    for pk, name, began, ended in phases.values_list(
        "position__launch", "name", "started_at", "ended_at"
    ):
        if row := ROW_OF.get(name):
            found.setdefault(pk, {}).setdefault(row, []).append(Span(began, ended))
    return [
        Generation(
            launch,
            nodes.get(launch.pk, []),
            _rows(launch, found.get(launch.pk, {}), starts.get(launch.pk)),
        )
        for launch in launches
    ]


def _rows(launch: Launch, found: dict[str, list[Span]], preflight: Span | None) -> dict[str, Span]:
    rows = {
        row: span for row, spans in clip_to_golden(found).items() if (span := join_spans(spans))
    }
    end = launch.ready_at or launch.ended_at
    if preflight:
        rows[PREFLIGHT] = preflight
    if end:
        rows = {
            row: Span(span.started_at, min(span.ended_at or end, end)) for row, span in rows.items()
        }
    return {row: rows[row] for row in ROW_ORDER if row in rows}


def _scrapes(launches: list[Launch]) -> dict[str, Scrape]:
    if not launches:
        return {}
    rows = Scrape.objects.filter(key__startswith=f"launch:{launches[0].public_id}/")
    return {row.kind: row for row in rows}


def unit_neighbours(name: str) -> tuple[str, str]:
    """Return the units before and after this one, empty at the ends."""
    names = Replica.objects.order_by("name").values_list("name", flat=True)
    before = names.filter(name__lt=name).last()
    after = names.filter(name__gt=name).first()
    return before or "", after or ""
