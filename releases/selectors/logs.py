"""Which log streams a launch has: one a node, in the order of its positions."""

from __future__ import annotations

from fleet.selectors.logs import LogSource, log_sources_add
from releases.models import Launch
from releases.selectors.names import launch_named


def launch_sources(launch: Launch) -> list[LogSource]:
    """Return the streams of a launch. A position that was not started yet has none."""
    rows = (
        launch.positions.filter(subject__stream__isnull=False)
        .select_related("node__host", "subject__stream")
        .order_by("position")
    )
    return [
        LogSource(
            place.subject.stream.pk,
            place.position,
            place.node.name,
            ranks_of(place.subject.stream.layout, place.position),
        )
        for place in rows
    ]


def ranks_of(layout: dict[str, int], position: int) -> tuple[int, ...]:
    """Return the global ranks of a node, from the layout of its stream."""
    count = int(layout.get("gpus_per_node", 0) or 0)
    first = int(layout.get("position", position)) * count
    return tuple(range(first, first + count))


def _sources_named(public_id: str) -> list[LogSource] | None:
    launch = launch_named(public_id)
    return launch_sources(launch) if launch else None


log_sources_add("launch", _sources_named)
