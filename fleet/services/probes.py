"""Asking nodes what they are, and settling the answers: one request over many nodes, stored in one batch.

A probe changes nothing on a node. Not in charge of what an answer means (rules/probe_*.py).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.db import transaction
from django.db.models import Exists, OuterRef
from django.db.models.functions import Now
from django.utils.translation import gettext as _

from fleet.doorbell import ring
from fleet.execution import states
from fleet.execution.dispatch import Order, command_cancel, commands_dispatch
from fleet.execution.output import command_sections
from fleet.models import Node, NodeProbe, ProbeRun
from fleet.rules import gather, probe_verdict
from fleet.rules.message import say
from fleet.rules.nodeset import fold_nodeset
from fleet.rules.probe_cards import CardSeen, read_cards
from fleet.rules.probe_reading import FactSeen, ProbeReading, read_probe
from fleet.rules.refusals import Refused
from fleet.selectors.acceptance import valid_acceptances
from fleet.selectors.scope import pools_of_nodes
from fleet.services.history import history_store
from fleet.services.node_moves import NodeMove, nodes_move, rows_update
from fleet.services.permits import permit_demand
from fleet.services.probe_store import cards_store, facts_store, samples_store, storable
from fleet.services.trail import Actor, rule_actor, trail_add

log = logging.getLogger(__name__)

BATCH = 64


@transaction.atomic
def probe_start(*, nodes: Sequence[Node], actor: Actor, user: Any = None) -> ProbeRun:
    """Ask these nodes, each through one command; the answers are settled by the tick. Raises Refused, NotAllowed."""
    if not nodes:
        raise Refused(_("No node was selected. Choose at least one."))
    pools = pools_of_nodes(list(nodes))
    for pool in set(pools.values()):
        permit_demand(user, "probe-start", pool)
    ids = sorted({node.pk for node in nodes})
    locked = Node.objects.select_for_update(of=("self",)).select_related("host")
    rows = list(locked.filter(pk__in=ids).order_by("pk"))
    scope = _scope(rows)
    run = ProbeRun.objects.create(requested_by=user, scope=scope[:200])
    commands = commands_dispatch([_order(run, node) for node in rows])
    NodeProbe.objects.bulk_create(
        NodeProbe(run=run, node=node, command=command)
        for node, command in zip(rows, commands, strict=True)
    )
    first = [node for node in rows if node.state == Node.State.REGISTERED]
    nodes_move(
        [NodeMove(node, str(Node.State.PROBING), say("Being probed.")) for node in first],
        actor=actor,
    )
    trail_add(
        actor=actor,
        verb="probe.start",
        object_kind="node" if len(rows) == 1 else "fleet",
        object_id=rows[0].name if len(rows) == 1 else scope,
        after={"run": run.pk, "nodes": len(rows), "first_probes": len(first)},
    )
    ring("fleet", *(f"node-{node.name}" for node in rows))
    return run


@transaction.atomic
def probe_cancel(*, probe: NodeProbe, actor: Actor) -> bool:
    """Cancel the probe of one node, also while it is being asked; False when it is over already.

    The tick settles it as unknown, as soon as whoever asks has let go.
    """
    command = command_cancel(command=probe.command)
    if command.is_settled and command.state != states.CANCELLED:
        return False
    if probe.settled_at is None:
        trail_add(
            actor=actor,
            verb="probe.give_up",
            object_kind="node",
            object_id=probe.node.name,
            after={"run": probe.run_id, "command": command.state},
        )
        ring("fleet", f"node-{probe.node.name}")
    return probe.settled_at is None


@dataclass(frozen=True)
class _Settled:
    """One node's probe, read and judged, before anything is written."""

    probe: NodeProbe
    node: Node
    reading: ProbeReading | None
    cards: list[CardSeen]
    verdict: probe_verdict.Verdict
    is_accepted: bool = False

    @property
    def state(self) -> str:
        return probe_verdict.state_after(
            self.node.state, self.verdict.verdict, has_answered=self.reading is not None
        )

    @property
    def explanation(self) -> str:
        if self.state == Node.State.READY and self.verdict.verdict == probe_verdict.PASS:
            if self.is_accepted:
                return say("Accepted; probed again since.")
            return say("Probed only: acceptance tests have not run yet.")
        if self.state in (Node.State.QUARANTINED, Node.State.RETIRED):
            return self.node.explanation  # why a person took it out matters more
        return storable(self.verdict.summary)


@transaction.atomic
def probe_settle(limit: int = BATCH) -> int:
    """Store what finished probes told; returns how many. The number of queries does not grow with the nodes."""
    probes = list(
        NodeProbe.objects.select_for_update(of=("self",), skip_locked=True)
        .select_related("command__output")
        .filter(settled_at=None, command__state__in=sorted(states.TERMINAL))
        .order_by("id")[:limit]
    )
    if not probes:
        return 0
    ids = {probe.node_id for probe in probes}
    nodes = Node.objects.select_for_update(of=("self",)).filter(pk__in=ids).order_by("pk")
    by_id = {node.pk: node for node in nodes}
    accepted = valid_acceptances(ids)
    settled = [
        replace(_read(probe, by_id[probe.node_id]), is_accepted=probe.node_id in accepted)
        for probe in probes
    ]
    _store(settled)
    _move_nodes({item.node.pk: item for item in settled}.values())
    _end_runs({probe.run_id for probe in probes})
    ring("fleet", *(f"node-{item.node.name}" for item in settled))
    return len(settled)


def _scope(nodes: list[Node]) -> str:
    total = Node.objects.exclude(state=Node.State.RETIRED).count()
    return "all" if len(nodes) == total > 1 else fold_nodeset(node.name for node in nodes)


def _order(run: ProbeRun, node: Node) -> Order:
    return Order(
        purpose=f"probe:{run.pk}/{node.name}",
        host=node.host,
        verb="probe",
        queue="probe",
        payload=gather.probe_payload(node.model_root),
        effect="probe",
        deadline_s=gather.PROBE_DEADLINE_S,
        topic=f"node-{node.name}",
    )


def _read(probe: NodeProbe, node: Node) -> _Settled:
    command = probe.command
    why = command.explanation
    if command.state == states.SUCCEEDED and hasattr(command, "output"):
        try:
            return _judge(probe, node)
        except (
            Exception
        ):  # what a node printed must not keep the answers of the others from being stored
            log.exception("the answer of probe %s cannot be read", command.purpose)
            why = say("its answer cannot be read; the log of the conductor says why")
    return _Settled(probe, node, None, [], probe_verdict.judge_silence(why, command.state))


def _judge(probe: NodeProbe, node: Node) -> _Settled:
    command, commands = probe.command, gather.commands_of(node.model_root)
    boot_id = str((command.answer or {}).get("boot_id") or "")[:40]
    reading = read_probe(command_sections(command), commands, boot_id)
    cards = read_cards(reading, node.gpu_count)
    verdict = probe_verdict.judge_probe(reading, cards, commands, node.gpu_count, node.name)
    return _Settled(probe, node, reading, cards, verdict)


def _store(settled: list[_Settled]) -> None:
    answered = [item for item in settled if item.reading is not None]
    facts: list[tuple[NodeProbe, FactSeen]] = [
        (item.probe, fact)
        for item in answered
        for fact in item.reading.facts  # type: ignore[union-attr]
    ]
    facts_store(facts)
    cards = [(item.probe, card) for item in answered for card in item.cards]
    cards_store(cards)
    history_store(facts, cards)
    samples_store((item.probe, item.cards) for item in answered)
    for item in settled:
        item.probe.verdict = item.verdict.verdict
        item.probe.summary = storable(item.verdict.summary)
        item.probe.findings = storable([f.as_object() for f in item.verdict.findings])
        item.probe.settled_at = Now()
    rows_update(
        NodeProbe, [item.probe for item in settled], "verdict", "summary", "findings", "settled_at"
    )


def _move_nodes(settled: Iterable[_Settled]) -> None:
    moves = []
    for item in settled:
        if item.reading is not None:
            item.node.probed_at = item.probe.command.settled_at
        facts = {"probe": item.probe.pk, "verdict": item.verdict.verdict}
        moves.append(NodeMove(item.node, item.state, item.explanation, facts))
    nodes_move(moves, actor=rule_actor("probe"), also=["probed_at"])


def _end_runs(run_ids: set[int]) -> None:
    open_probes = NodeProbe.objects.filter(run=OuterRef("pk"), settled_at=None)
    ProbeRun.objects.filter(~Exists(open_probes), pk__in=run_ids, ended_at=None).update(
        ended_at=Now()
    )
