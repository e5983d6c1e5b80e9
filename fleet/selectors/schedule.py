"""Which nodes the probe schedule asks, and which it leaves out, folded by the reason."""

from __future__ import annotations

from fleet.models import Node
from fleet.rules.nodeset import fold_nodeset
from fleet.rules.schedule import why_not_asked


def nodes_left_out() -> tuple[int, list[tuple[str, str]]]:
    """Return how many nodes are asked, and (reason, node set) of the others. One query."""
    rows = Node.objects.exclude(state=Node.State.RETIRED).values_list(
        "host__name", "state", "host__key_state", "host__reach"
    )
    asked = 0
    out: dict[str, list[str]] = {}
    for name, state, key_state, reach in rows:
        why = why_not_asked(state=state, key_state=key_state, reach=reach)
        if why:
            out.setdefault(why, []).append(name)
        else:
            asked += 1
    return asked, [(why, fold_nodeset(names)) for why, names in out.items()]
