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
from fleet.execution.dispatch import Order, commands_cancel, commands_dispatch
from fleet.execution.output import command_sections
from fleet.models import Node, NodeProbe, ProbeRun
from fleet.rules import gather, probe_verdict
from fleet.rules.acceptance import ACCEPTED, MARGINAL
from fleet.rules.acceptance_stand import NEVER, Stand
from fleet.rules.message import say
from fleet.rules.nodeset import fold_nodeset
from fleet.rules.probe_cards import CardSeen, read_cards
from fleet.rules.probe_reading import FactSeen, ProbeReading, read_probe
from fleet.rules.refusals import Refused
from fleet.selectors.acceptance import stands_of
from fleet.selectors.scope import pools_of_nodes
from fleet.services.history import history_store
from fleet.services.node_moves import NodeMove, nodes_move, rows_update
from fleet.services.permits import permit_demand
from fleet.services.probe_store import cards_store, facts_store, samples_store, storable
from fleet.services.trail import Actor, rule_actor, trail_add, trail_add_all, trail_entry

log = logging.getLogger(__name__)

BATCH = 64


@transaction.atomic
def probe_start(*, nodes: Sequence[Node], actor: Actor, user: Any = None) -> ProbeRun:
    """Ask these nodes, each through one command; the answers are settled by the tick. Raises Refused, NotAllowed.

    A node takes one connection: one that is being asked already is not asked twice, its open probe answers for both.
    The run holds the others; where there are none it is the run of the newest open probe, and nothing is written.
    """
    if not nodes:
        raise Refused(_("No node was selected. Choose at least one."))
    pools = pools_of_nodes(list(nodes))
    for pool in set(pools.values()):
        permit_demand(user, "probe-start", pool)
    ids = sorted({node.pk for node in nodes})
    locked = Node.objects.select_for_update(of=("self",)).select_related("host")
    wanted = list(locked.filter(pk__in=ids).order_by("pk"))
    asked = probes_open(wanted)
    rows = [node for node in wanted if node.pk not in asked]
    if not rows:
        return max((probe.run for probe in asked.values()), key=lambda run: run.pk)
    scope = nodes_scope(rows)
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
        after={
            "run": run.pk,
            "nodes": len(rows),
            "first_probes": len(first),
            **({"joined": len(asked)} if asked else {}),
        },
    )
    ring("fleet", *(f"node-{node.name}" for node in rows))
    return run


def probes_open(nodes: Iterable[Node]) -> dict[int, NodeProbe]:
    """Return the newest probe of each of these nodes that is not settled yet, by node key. One query."""
    rows = NodeProbe.objects.filter(node__in=list(nodes), settled_at=None).select_related("run")
    return {probe.node_id: probe for probe in rows.order_by("pk")}


def probe_cancel(*, probe: NodeProbe, actor: Actor) -> bool:
    """Cancel the probe of one node, also while it is being asked; False when it is over already.

    The tick settles it as unknown, as soon as whoever asks has let go.
    """
    return bool(probes_cancel([probe], actor=actor))


@transaction.atomic
def probes_cancel(probes: Sequence[NodeProbe], *, actor: Actor) -> int:
    """Cancel the probes of many nodes the same way; return how many were not over. Few queries for any number."""
    commands = commands_cancel([probe.command for probe in probes])
    given_up = [
        (probe, commands[probe.command_id])
        for probe in probes
        if probe.settled_at is None
        and (
            not commands[probe.command_id].is_settled
            or commands[probe.command_id].state == states.CANCELLED
        )
    ]
    trail_add_all(
        trail_entry(
            actor=actor,
            verb="probe.give_up",
            object_kind="node",
            object_id=probe.node.name,
            after={"run": probe.run_id, "command": command.state},
        )
        for probe, command in given_up
    )
    if given_up:
        ring("fleet", *(f"node-{probe.node.name}" for probe, _command in given_up))
    return len(given_up)


@dataclass(frozen=True)
class _Settled:
    """One node's probe, read and judged, before anything is written."""

    probe: NodeProbe
    node: Node
    reading: ProbeReading | None
    cards: list[CardSeen]
    verdict: probe_verdict.Verdict
    stand: Stand = NEVER

    @property
    def state(self) -> str:
        return probe_verdict.state_after(
            self.node.state, self.verdict.verdict, has_answered=self.reading is not None
        )

    @property
    def explanation(self) -> str:
        if self.state == Node.State.READY and self.verdict.verdict == probe_verdict.PASS:
            return _ready_words(self.stand)
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
    stands = stands_of(ids)
    settled = [
        replace(_read(probe, by_id[probe.node_id]), stand=stands[probe.node_id]) for probe in probes
    ]
    _store(settled)
    _move_nodes({item.node.pk: item for item in settled}.values())
    _end_runs({probe.run_id for probe in probes})
    ring("fleet", *(f"node-{item.node.name}" for item in settled))
    return len(settled)


def _ready_words(stand: Stand) -> str:
    """Say of a node whose probe passed what its acceptance is: a probe accepts nothing."""
    if stand.ended:
        return say("Probed only: acceptance %(run)s ended. %(why)s", run=stand.run, why=stand.ended)
    if stand.verdict == ACCEPTED:
        return say("Accepted; probed again since.")
    if stand.verdict:
        return say(
            "Probed; %(verdict)s by acceptance %(run)s: %(why)s",
            verdict=say("marginal") if stand.verdict == MARGINAL else say("rejected"),
            run=stand.run,
            why=stand.summary,
        )
    return say("Probed only: acceptance tests have not run yet.")


def nodes_scope(nodes: Sequence[Node]) -> str:
    """Return which nodes a request is about: all of the fleet, or their names folded."""
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
