"""Reads acceptances: which nodes are accepted now, one run with its nodes, the history of a node."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from django.conf import settings
from django.db.models import Count, Q
from django.db.models.functions import Now

from fleet.models import AcceptanceRun, Member, Node, NodeAcceptance
from fleet.rules.acceptance import ACCEPTED
from fleet.rules.message import say

RUNS_SHOWN = 50
HISTORY_SHOWN = 8
_ID = re.compile(r"AC-(\d{1,9})")
_VALID = Q(is_standing=True, verdict=ACCEPTED, voided_at=None, valid_until__gt=Now())
EVERY_POOL = "all"


def valid_acceptances(node_ids: Iterable[int]) -> set[int]:
    """Return those of these nodes (keys) that are accepted now: not too old, and nothing ended it."""
    rows = NodeAcceptance.objects.filter(_VALID, node__in=list(node_ids))
    return set(rows.values_list("node_id", flat=True))


def acceptance_refusals(nodes: Iterable[Node]) -> dict[int, str]:
    """Say by node key which nodes may not be placed for want of an acceptance; one that may, is not in it.

    A spare may go to any pool, so it is asked as soon as one pool asks. At most two queries.
    """
    wanted = settings.ACCEPTANCE_REQUIRED
    names = {node.pk: node.name for node in nodes} if wanted else {}
    if not names:
        return {}
    valid = valid_acceptances(names)
    seats = Member.objects.filter(node__in=names, released_at=None)
    pools = dict(seats.values_list("node_id", "replica__pool__slug"))
    return {
        pk: say(
            "%(node)s has no valid acceptance, which its pool asks for: accept it first.",
            node=name,
        )
        for pk, name in names.items()
        if pk not in valid and (EVERY_POOL in wanted or pk not in pools or pools[pk] in wanted)
    }


def acceptance_named(public_id: str) -> AcceptanceRun | None:
    """Return the run of this public id, or None."""
    found = _ID.fullmatch(public_id)
    rows = AcceptanceRun.objects.select_related("requested_by")
    return rows.filter(pk=int(found[1])).first() if found else None


def run_rows(run: AcceptanceRun) -> list[NodeAcceptance]:
    """Return the nodes of a run in name order, with what their steps are at."""
    rows = run.nodes.select_related(
        "node__host", "probe__command", "look", "allreduce__subject", "disk_read__subject"
    )
    return list(rows.order_by("node__host__name"))


def acceptance_runs() -> list[AcceptanceRun]:
    """Return the newest runs with the count of each verdict."""
    counts = {
        f"{verdict or 'open'}_count": Count("nodes", filter=Q(nodes__verdict=verdict))
        for verdict in ("", *NodeAcceptance.Verdict.values)
    }
    rows = AcceptanceRun.objects.select_related("requested_by").annotate(
        node_count=Count("nodes"), **counts
    )
    return list(rows.order_by("-id")[:RUNS_SHOWN])


@dataclass(frozen=True)
class NodeStanding:
    """What acceptance says of a node: the one that stands, one at work, and the newest before."""

    standing: NodeAcceptance | None
    open: NodeAcceptance | None
    newest: NodeAcceptance | None
    history: list[NodeAcceptance]


def node_standing(node: Node) -> NodeStanding:
    """Return the acceptances of one node, in one query: the newest few, and the one that stands."""
    rows = list(
        NodeAcceptance.objects.select_related(
            "run__requested_by",
            "probe__command",
            "look",
            "allreduce__subject",
            "disk_read__subject",
        )
        .filter(node=node)
        .order_by("-is_standing", "-id")[: HISTORY_SHOWN + 1]
    )
    history = sorted(rows, key=lambda row: -row.pk)
    standing = next((row for row in rows if row.is_standing), None)
    is_open = next((row for row in rows if row.settled_at is None), None)
    newest = next((row for row in history if row.settled_at is not None), None)
    return NodeStanding(standing, is_open, newest, history)


def standing_counts() -> dict[str, int]:
    """Return how many nodes are accepted, marginal, rejected, or none of them now. Retired ones are left out."""
    nodes = Node.objects.exclude(state=Node.State.RETIRED)
    total = nodes.count()
    rows = NodeAcceptance.objects.filter(is_standing=True, node__in=nodes)
    found = rows.aggregate(
        accepted=Count("pk", filter=_VALID),
        marginal=Count("pk", filter=Q(verdict="marginal", voided_at=None)),
        rejected=Count("pk", filter=Q(verdict="rejected")),
    )
    return {**found, "none": total - sum(found.values()), "all": total}
