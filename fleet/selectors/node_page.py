"""Everything the node page shows, in a fixed number of queries. Facts come with source, time and expiry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db.models import Prefetch

from fleet.execution.models import Command
from fleet.models import CardSample, Fact, Gpu, Hold, KeyChange, Member, Node, NodeProbe, TrailEntry

PROBES_SHOWN = 5
HISTORY_SHOWN = 12


@dataclass(frozen=True)
class NodeSeen:
    """A node with all that hangs on it; `probe` is its newest probe."""

    node: Node
    seat: Member | None
    gpus: list[Gpu]
    facts: list[Fact]
    holds: list[Hold]
    probes: list[NodeProbe]
    key_change: KeyChange | None
    history: list[TrailEntry]
    samples: list[CardSample]  # oldest first

    @property
    def probe(self) -> NodeProbe | None:
        return self.probes[0] if self.probes else None


def node_seen(name: str) -> NodeSeen | None:
    """Return the node of this name with everything its page shows, or None."""
    holds = Hold.objects.filter(lifted_at=None).order_by("created_at")
    node = (
        Node.objects.filter(host__name=name)
        .prefetch_related(
            Prefetch("gpus", Gpu.objects.order_by("index")),
            Prefetch("facts", Fact.objects.order_by("key")),
            Prefetch("holds", holds, to_attr="live_holds"),
        )
        .first()
    )
    if node is None:
        return None
    seat = (
        Member.objects.select_related("replica__pool").filter(node=node, released_at=None).first()
    )
    probes = NodeProbe.objects.select_related("run__requested_by", "command").filter(node=node)
    change = KeyChange.objects.select_related("requested_by").filter(
        host_id=node.pk, closed_at=None
    )
    history = TrailEntry.objects.filter(object_kind="node", object_id=name).order_by("-id")
    return NodeSeen(
        node=node,
        seat=seat,
        gpus=list(node.gpus.all()),
        facts=list(node.facts.all()),
        holds=node.live_holds,
        probes=list(probes.order_by("-id")[:PROBES_SHOWN]),
        key_change=change.first(),
        history=list(history[:HISTORY_SHOWN]),
        samples=list(CardSample.objects.filter(node=node).order_by("at")),
    )


def neighbours(name: str) -> tuple[str, str]:
    """Return the names before and after this one, empty at the ends."""
    names = Node.objects.exclude(state=Node.State.RETIRED).values_list("host__name", flat=True)
    before = names.filter(host__name__lt=name).order_by("-host__name").first()
    after = names.filter(host__name__gt=name).order_by("host__name").first()
    return before or "", after or ""


def probe_command(name: str, pk: int) -> Command | None:
    """Return a probe's command of this node, or None: another node's output is never shown here."""
    return Command.objects.filter(pk=pk, host__name=name, verb="probe").first()


def topology_of(facts: list[Fact]) -> dict[str, Any] | None:
    """Return the parsed matrix among the facts, or None."""
    for fact in facts:
        if fact.key == "topo" and isinstance(fact.value, dict) and fact.value.get("rows"):
            return fact.value
    return None
