"""Reads acceptances: which nodes are accepted now, one run with its nodes, the history of a node."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.db.models import Count, Q
from django.db.models.functions import Now

from fleet.execution.clock import database_now
from fleet.models import AcceptanceRun, Hold, Member, Node, NodeAcceptance
from fleet.rules.acceptance import ACCEPTED
from fleet.rules.acceptance_stand import NEVER, OWNER, Stand, refusal_of
from fleet.rules.message import say

RUNS_SHOWN = 50
HISTORY_SHOWN = 8
_ID = re.compile(r"AC-(\d{1,9})")
_VALID = Q(is_standing=True, verdict=ACCEPTED, voided_at=None, valid_until__gt=Now())
EVERY_POOL = "all"


def stands_of(node_ids: Iterable[int]) -> dict[int, Stand]:
    """Return what acceptance says of each of these nodes now, by key. Two queries, however many nodes there are."""
    wanted = list(node_ids)
    rows = NodeAcceptance.objects.filter(node__in=wanted, is_standing=True).select_related("run")
    standing = {row.node_id: row for row in rows}
    holds: dict[int, list[Hold]] = defaultdict(list)
    if standing:
        for hold in Hold.objects.filter(node__in=list(standing), owner=OWNER).order_by("pk"):
            holds[hold.node_id].append(hold)
    now = database_now()
    return {pk: _stand(standing[pk], holds[pk], now) if pk in standing else NEVER for pk in wanted}


def _stand(row: NodeAcceptance, holds: Sequence[Hold], now: datetime) -> Stand:
    """A person answers for a verdict by lifting a hold after it was given; what was lifted before is of another one."""
    ended = row.voided_why
    if not ended and row.valid_until is not None and row.valid_until <= now:
        ended = say("It was accepted more than 30 days ago.")
    answers = [
        hold
        for hold in holds
        if hold.lifted_at is not None
        and row.settled_at is not None
        and hold.lifted_at >= row.settled_at
        and not hold.lifted_by.startswith("rule:")
    ]
    held_for = next((hold.reason for hold in holds if hold.lifted_at is None), "")
    is_let_in = bool(answers) and not held_for
    return Stand(
        verdict=row.verdict,
        run=row.run.public_id,
        summary=row.summary,
        ended=ended,
        let_in_by=answers[-1].lifted_by if is_let_in else "",
        let_in_why=answers[-1].lift_reason if is_let_in else "",
        held_for=held_for,
    )


def acceptance_refusals(
    nodes: Iterable[Node], stands: Mapping[int, Stand] | None = None
) -> dict[int, str]:
    """Say by node key which nodes may not be placed for what acceptance says of them; one that may, is not in it.

    A spare may go to any pool, so it is asked as soon as one pool asks. At most three queries; `stands` saves two.
    """
    names = {node.pk: node.name for node in nodes}
    wanted = settings.ACCEPTANCE_REQUIRED
    pools: dict[int, str] = {}
    if wanted:
        seats = Member.objects.filter(node__in=names, released_at=None)
        pools = dict(seats.values_list("node_id", "replica__pool__slug"))
    found = stands_of(names) if stands is None else stands
    refusals = {
        pk: refusal_of(
            name,
            found[pk],
            is_asked=bool(wanted)
            and (EVERY_POOL in wanted or pk not in pools or pools[pk] in wanted),
        )
        for pk, name in names.items()
    }
    return {pk: why for pk, why in refusals.items() if why}


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
