"""What a node would serve: the releases whose matrix it must meet. The upper app that has releases says so here."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fleet.models import Node
from fleet.rules.acceptance import Pins

Source = Callable[[Sequence[Node]], dict[int, list[Pins]]]
_SOURCES: list[Source] = []


def pins_add(source: Source) -> None:
    """Register who knows the releases of nodes, with a number of queries that does not grow with the nodes."""
    if source not in _SOURCES:
        _SOURCES.append(source)


def pins_of(nodes: Sequence[Node]) -> dict[int, list[Pins]]:
    """Return the pins of each node by its key; none for a node of which no release is known."""
    found: dict[int, list[Pins]] = {node.pk: [] for node in nodes}
    for source in _SOURCES:
        for pk, pins in source(nodes).items():
            found[pk] += pins
    return found
