"""Everything the launch page shows, read in a fixed number of queries; words are made by the view."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from fleet.execution.models import Command, LogStream, Scrape
from fleet.execution.streams import StoredLine, lines_before
from fleet.models import Evidence
from releases.models import Launch, LaunchPhase, LaunchPosition
from releases.rules.phases import GOLDEN, PREFLIGHT, ROW_OF, Span, clip_to_golden, join_spans

LINES_READ = 60
TAIL_SHOWN = 8
HISTORY_LAUNCHES = 20


@dataclass
class PlaceSeen:
    """One node of the launch with the spans of its rows."""

    place: LaunchPosition
    stream: LogStream | None
    rows: dict[str, Span] = field(default_factory=dict)
    phases: set[str] = field(default_factory=set)

    @property
    def current_row(self) -> str:
        """The row in which the node's own log stands; an engine that is ready waits for the golden prompts."""
        return GOLDEN if self.place.phase == "ready" else ROW_OF.get(self.place.phase, "start")


@dataclass
class LaunchSeen:
    launch: Launch
    places: list[PlaceSeen]
    commands: list[Command]
    evidence: list[Evidence]
    scrapes: dict[str, Scrape]

    def spans(self) -> dict[str, Span]:
        """Return each row's span over all nodes of the unit."""
        found = {
            row: [place.rows[row] for place in self.places if row in place.rows]
            for row in ROW_ORDER
        }
        return {row: span for row, some in found.items() if (span := join_spans(some))}

    def commands_of(self, step: str) -> list[Command]:
        head = f"launch:{self.launch.public_id}/{step}"
        return [command for command in self.commands if command.purpose.startswith(head)]


ROW_ORDER = (PREFLIGHT, "start", "rendezvous", "load", "compile", "capture", GOLDEN)


def launch_of(name: str, generation: int) -> Launch | None:
    """Return the launch of a unit's generation, or None."""
    rows = Launch.objects.select_related("replica__pool", "release", "created_by")
    return rows.filter(replica__name=name, generation=generation).first()


def launch_page(launch: Launch) -> LaunchSeen:
    """Read a launch with its nodes, phases, commands, evidence and recurring probes."""
    prefix = f"launch:{launch.public_id}/"
    commands = (
        Command.objects.filter(purpose__startswith=prefix).select_related("host").order_by("id")
    )
    evidence = Evidence.objects.filter(object_kind="launch", object_id=launch.public_id).defer(
        "body"
    )
    scrapes = Scrape.objects.filter(key__startswith=prefix)
    seen = LaunchSeen(
        launch, _places(launch), list(commands), list(evidence), {row.kind: row for row in scrapes}
    )
    _add_own_rows(seen)
    return seen


def _places(launch: Launch) -> list[PlaceSeen]:
    rows = launch.positions.select_related("node__host", "subject__stream", "start", "stop")
    places = {row.pk: PlaceSeen(row, getattr(row.subject, "stream", None)) for row in rows}
    phases = list(LaunchPhase.objects.filter(position__launch=launch))
    golden = min((phase.started_at for phase in phases if phase.name == GOLDEN), default=None)
    found: dict[int, dict[str, list[Span]]] = {}
    for phase in phases:
        places[phase.position_id].phases.add(phase.name)
        if row := ROW_OF.get(phase.name):
            spans = found.setdefault(phase.position_id, {}).setdefault(row, [])
            spans.append(Span(phase.started_at, phase.ended_at))
    for pk, rows_of in found.items():
        clipped = clip_to_golden(rows_of, golden)
        places[pk].rows = {
            row: span for row, spans in clipped.items() if (span := join_spans(spans))
        }
    return list(places.values())


def _add_own_rows(seen: LaunchSeen) -> None:
    """Add the rows that no engine log tells: pre-flight, and the start before the first line."""
    launch = seen.launch
    for place in seen.places:
        start = place.place.start
        began = start.created_at if start else None
        place.rows[PREFLIGHT] = Span(launch.created_at, began or _settled(seen, "preflight/"))
        if start and "start" not in place.rows:
            following = min(
                (span.started_at for row, span in place.rows.items() if row != PREFLIGHT),
                default=None,
            )
            place.rows["start"] = Span(start.created_at, following)
        if launch.ended_at:
            place.rows = {
                row: Span(span.started_at, span.ended_at or launch.ended_at)
                for row, span in place.rows.items()
            }


def _settled(seen: LaunchSeen, step: str) -> datetime | None:
    commands = seen.commands_of(step)
    ends = [command.settled_at for command in commands]
    if not ends or any(end is None for end in ends):
        return None
    return max(end for end in ends if end)


def row_history(launch: Launch) -> dict[str, list[float]]:
    """Return how long each row took in earlier launches of the same pool that became ready. Three queries."""
    earlier = Launch.objects.filter(
        replica__pool=launch.replica.pool, ready_at__isnull=False, pk__lt=launch.pk
    ).order_by("-id")[:HISTORY_LAUNCHES]
    spans: dict[int, dict[str, list[Span]]] = {row.pk: {} for row in earlier}
    phases = LaunchPhase.objects.filter(position__launch__in=spans, ended_at__isnull=False)
    for pk, name, began, ended in phases.values_list(
        "position__launch", "name", "started_at", "ended_at"
    ):
        if row := ROW_OF.get(name):
            spans[pk].setdefault(row, []).append(Span(began, ended))
    starts = LaunchPosition.objects.filter(launch__in=spans, start__isnull=False)
    began_at = dict(starts.values_list("launch", "start__created_at"))
    for row in earlier:
        found = spans[row.pk]
        if row.pk in began_at:
            found[PREFLIGHT] = [Span(row.created_at, began_at[row.pk])]
    history: dict[str, list[float]] = {row: [] for row in ROW_ORDER}
    for found in spans.values():
        for name, some in clip_to_golden(found).items():
            if (span := join_spans(some)) and span.ended_at:
                history[name].append(span.seconds(span.ended_at))
    return history


def last_lines(seen: LaunchSeen) -> list[tuple[PlaceSeen, StoredLine]]:
    """Return the newest line of each rank that spoke lately, newest first."""
    newest: dict[tuple[int, int | None], tuple[PlaceSeen, StoredLine]] = {}
    for place in seen.places:
        if place.stream is None or not place.stream.line_count:
            continue
        for line in lines_before(place.stream, place.stream.line_count + 1, LINES_READ):
            newest[(place.place.position, line.rank)] = (place, line)
    return sorted(newest.values(), key=lambda pair: pair[1].at, reverse=True)[:TAIL_SHOWN]
