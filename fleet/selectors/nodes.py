"""Which nodes a selection means, and which of them may take work now."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db.models import Exists, OuterRef, QuerySet
from django.db.models.functions import Now
from django.utils.translation import gettext as _

from fleet.execution.models import Host
from fleet.models import Fact, Hold, Node
from fleet.rules.message import said
from fleet.rules.nodeset import ALL, NodesetError, parse_nodeset
from fleet.rules.refusals import Refused

_NAMED_MAX = 5


def nodes_selected(text: str) -> list[Node]:
    """Return the nodes of a selection in name order. Raises Refused for words that name no node."""
    try:
        taken, left = parse_nodeset(text)
    except NodesetError as error:
        raise Refused(
            _("The selection cannot be read: %(why)s.") % {"why": said(error.sentence, _)}
        ) from error
    known = {node.name: node for node in Node.objects.exclude(state=Node.State.RETIRED)}
    if ALL in taken:
        taken = list(known)
    if unknown := [name for name in [*taken, *left] if name not in known and name != ALL]:
        more = f" (+{len(unknown) - _NAMED_MAX})" if len(unknown) > _NAMED_MAX else ""
        raise Refused(
            _("No node is called %(names)s. Check the names, or import the nodes first.")
            % {"names": ", ".join(unknown[:_NAMED_MAX]) + more}
        )
    return sorted((known[name] for name in set(taken) - set(left)), key=lambda node: node.name)


def node_chosen(name: str) -> Node:
    """Return the one node of a form's field. Raises Refused for words that name none, or more than one."""
    nodes = nodes_selected(name)
    if len(nodes) != 1:
        raise Refused(
            _("Expected the name of one node, found %(n)d. Write one name.") % {"n": len(nodes)}
        )
    return nodes[0]


def placeable() -> QuerySet[Node]:
    """Return the nodes that may take work: ready, no live hold, reachable, key pinned. Unknown is no."""
    held = Hold.objects.filter(node=OuterRef("pk"), lifted_at=None)
    return Node.objects.filter(
        ~Exists(held),
        state=Node.State.READY,
        host__reach=Host.Reach.OK,
        host__key_state=Host.Key.PINNED,
    )


def live_holds(nodes: Iterable[Node]) -> dict[int, list[Hold]]:
    """Return node id -> its live holds in the order they came, for all of these nodes with one query."""
    found: dict[int, list[Hold]] = {node.pk: [] for node in nodes}
    for hold in Hold.objects.filter(node__in=found, lifted_at=None).order_by("created_at"):
        found[hold.node_id].append(hold)
    return found


def facts_of(nodes: Iterable[Node], keys: Iterable[str]) -> dict[int, dict[str, Any]]:
    """Return node id -> key -> value of facts that were read and have not expired, with one query."""
    found: dict[int, dict[str, Any]] = {node.pk: {} for node in nodes}
    rows = Fact.objects.filter(node__in=found, key__in=list(keys), expires_at__gt=Now(), problem="")
    for node_id, key, value in rows.values_list("node_id", "key", "value"):
        found[node_id][key] = value
    return found
