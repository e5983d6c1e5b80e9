"""Which nodes a selection means, and which of them may take work now."""

from __future__ import annotations

from django.db.models import Exists, OuterRef, QuerySet
from django.utils.translation import gettext as _

from fleet.execution.models import Host
from fleet.models import Hold, Node
from fleet.rules.nodeset import ALL, NodesetError, parse_nodeset
from fleet.rules.refusals import Refused

_NAMED_MAX = 5


def nodes_selected(text: str) -> list[Node]:
    """Return the nodes of a selection in name order. Raises Refused for words that name no node."""
    try:
        taken, left = parse_nodeset(text)
    except NodesetError as error:
        raise Refused(_("The selection cannot be read: %(why)s.") % {"why": error}) from error
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


def placeable() -> QuerySet[Node]:
    """Return the nodes that may take work: ready, no live hold, reachable, key pinned. Unknown is no."""
    held = Hold.objects.filter(node=OuterRef("pk"), lifted_at=None)
    return Node.objects.filter(
        ~Exists(held),
        state=Node.State.READY,
        host__reach=Host.Reach.OK,
        host__key_state=Host.Key.PINNED,
    )
