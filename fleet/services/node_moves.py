"""Moves of nodes between their states, many at once: along the table, each with its line in the trail.

The callers hold the row locks. Not in charge of holds, which keep a node from work in any state.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.utils.translation import gettext as _

from fleet.models import Node
from fleet.rules.lifecycles import node_path
from fleet.rules.refusals import Conflict
from fleet.services.trail import Actor, trail_add_all, trail_entry


@dataclass(frozen=True)
class NodeMove:
    """Where one locked node goes and why; `facts` go into the trail beside the new state."""

    node: Node
    to: str
    explanation: str
    facts: dict[str, Any] = field(default_factory=dict)


def nodes_move(moves: Iterable[NodeMove], *, actor: Actor, also: Sequence[str] = ()) -> int:
    """Move locked nodes and renew their explanations with one statement; return how many changed state.

    `also` names further fields that the caller has set on the nodes. Raises Conflict when the table has no way.
    """
    entries, nodes = [], []
    for move in moves:
        node, before = move.node, move.node.state
        if move.to != before:
            entries.append(_told(move, before, actor))
            node.version += 1
        node.state, node.explanation = move.to, move.explanation
        nodes.append(node)
    rows_update(Node, nodes, "state", "explanation", "version", *also)
    trail_add_all(entries)
    return len(entries)


def rows_update(model: Any, rows: Sequence[Any], *fields: str) -> None:
    """Write these fields of rows that exist and are locked: an upsert costs a third of bulk_update's CASEs."""
    model.objects.bulk_create(
        rows, update_conflicts=True, unique_fields=["pk"], update_fields=list(fields)
    )


def _told(move: NodeMove, before: str, actor: Actor) -> Any:
    path = node_path(before, move.to)
    if path is None:
        raise Conflict(
            _("%(node)s is %(state)s and cannot become %(to)s. Reload the page.")
            % {"node": move.node.name, "state": before, "to": move.to}
        )
    through = {"through": list(path[:-1])} if path[:-1] else {}
    return trail_entry(
        actor=actor,
        verb="node.move",
        object_kind="node",
        object_id=move.node.name,
        reason=move.explanation,
        before={"state": before},
        after={"state": move.to, **through, **move.facts},
    )
