"""Judges finished acceptances and does to the nodes what follows; ends acceptances that hold no more.

Rejected: quarantined, with a hold of this rule. Marginal: ready, with a hold that an approver may lift with a reason.
Accepted: ready, and only this rule's own hold is lifted.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, F, Max, OuterRef, Q
from django.db.models.fields.json import KT
from django.db.models.functions import Now

from fleet.doorbell import ring
from fleet.execution.clock import database_now
from fleet.execution.models import Command
from fleet.models import Evidence, Fact, GoldenProfile, Hold, Node, NodeAcceptance
from fleet.rules import acceptance as rules
from fleet.rules.acceptance import Gold, NodeSeen, Read, Verdict
from fleet.rules.acceptance_checks import judge
from fleet.rules.acceptance_host import ALLREDUCE, DISK_READ, DISK_TOOL, IMAGES
from fleet.rules.acceptance_steps import IMAGE_HEAD, MEMLOCK
from fleet.rules.golden import IGNORE, Found, Wanted, compare
from fleet.rules.message import say
from fleet.rules.probe_reading import FactSeen
from fleet.services.acceptance_steps import Told, cards_of, pins_seen, steps_told
from fleet.services.holds import ACCEPTANCE, holds_add, holds_lift
from fleet.services.node_moves import NodeMove, nodes_move, rows_update
from fleet.services.probe_store import facts_store, storable
from fleet.services.trail import Actor, rule_actor, trail_add_all, trail_entry

BATCH = 256
_TITLES = {
    "allreduce": say("all_reduce_perf on one node"),
    "disk_read": say("sequential read of the model disk"),
}

_LIFTED = {
    rules.ACCEPTED: say("Accepted again."),
    rules.REJECTED: say("Rejected again for another reason."),
    rules.MARGINAL: say("Marginal now; another hold says why."),
}


@dataclass(frozen=True)
class _Measure:
    """Where a measured fact comes from, in the words of the store of facts."""

    node_id: int
    command: Command


def judged(rows: Sequence[NodeAcceptance]) -> dict[int, Verdict]:
    """Judge acceptances whose steps are over: freeze outputs, store what was measured, compare with gold.

    Sets profile, identity and boot of each row. The number of queries does not grow with the rows.
    """
    if not rows:
        return {}
    told = steps_told(rows)
    evidence = _freeze(rows, told)
    _store(rows, told)
    nodes = [row.node for row in rows]
    facts, cards = _facts_of(nodes), cards_of(nodes)
    profiles, answered = _profiles_of(nodes), _answered(nodes)
    found = {}
    for row in rows:
        read, mine = facts[row.node_id], told[row.pk]
        profile = profiles.get((row.node.node_class, row.node.origin))
        row.profile = profile.public_id if profile else ""
        row.identity = rules.identity_of({key: fact.value for key, fact in read.items()})
        row.identity["host_boot_id"] = row.node.host.boot_id
        row.boot_id = str(row.identity.get("boot_id", ""))[:40]
        row.driver = str(row.identity.get("driver_version", ""))[:40]
        seen = NodeSeen(
            expected_gpus=row.node.gpu_count,
            facts=_with_look(row, read, mine),
            cards=cards[row.node_id],
            allreduce=replace(mine.allreduce, evidence=evidence.get((row.pk, "allreduce"), "")),
            disk_read=replace(mine.disk_read, evidence=evidence.get((row.pk, "disk_read"), "")),
            pins=pins_seen(row),
            answered_at=answered.get(row.node_id),
            **_gold(profile, read),
        )
        found[row.pk] = judge(seen)
    return found


def verdicts_settle(
    rows: Sequence[NodeAcceptance], verdicts: Mapping[int, Verdict], *, actor: Actor
) -> None:
    """Write these verdicts, move and hold the nodes, and tell the trail. The caller holds the rows."""
    if not rows:
        return
    nodes = {
        node.pk: node
        for node in Node.objects.select_for_update(of=("self",))
        .filter(pk__in=[row.node_id for row in rows])
        .order_by("pk")
    }
    now = database_now()
    for row in rows:
        verdict = verdicts[row.pk]
        row.verdict, row.summary = verdict.verdict, storable(verdict.summary)
        row.checks = storable([check.as_object() for check in verdict.checks])
        row.settled_at = row.compared_at = now
        row.is_standing = verdict.verdict in rules.STANDING
        if row.is_standing and verdict.verdict != rules.REJECTED:
            row.valid_until = now + rules.VALID_FOR / settings.TIME_SCALE
    own = _rejected_before(nodes)
    standing = [row.node_id for row in rows if row.is_standing]
    NodeAcceptance.objects.filter(node__in=standing, is_standing=True).update(is_standing=False)
    rows_update(
        NodeAcceptance, rows, "verdict", "summary", "checks", "settled_at", "compared_at",
        "is_standing", "valid_until", "profile", "identity", "boot_id", "driver",
    )  # fmt: skip
    _moves(rows, nodes, own)  # before the holds, which raise the versions that moves write
    _holds(rows, nodes)
    trail_add_all(_entry(row, nodes[row.node_id], actor) for row in rows)


@transaction.atomic
def acceptances_void(limit: int = BATCH) -> int:
    """End acceptances that hold no more: too old, another boot, driver or firmware. Return how many."""
    fresh = Fact.objects.filter(node=OuterRef("node"), observed_at__gt=OuterRef("compared_at"))
    is_rebooted = (
        ~Q(node__host__boot_id="")
        & ~Q(node__host__boot_id=F("boot_id"))
        & ~Q(node__host__boot_id=KT("identity__host_boot_id"))
    )
    rows = list(
        NodeAcceptance.objects.select_for_update(of=("self",), skip_locked=True)
        .select_related("node__host", "run")
        .filter(
            Q(valid_until__lte=Now()) | Q(Exists(fresh)) | is_rebooted,
            is_standing=True,
            voided_at=None,
            verdict__in=[rules.ACCEPTED, rules.MARGINAL],
        )
        .order_by("id")[:limit]
    )
    if not rows:
        return 0
    facts = _facts_of([row.node for row in rows])
    now = database_now()
    voided = [row for row in rows if _void(row, facts[row.node_id], now)]
    for row in rows:
        row.compared_at = now
    rows_update(NodeAcceptance, rows, "compared_at", "voided_at", "voided_why")
    trail_add_all(
        trail_entry(
            actor=rule_actor(ACCEPTANCE),
            verb="acceptance.void",
            object_kind="node",
            object_id=row.node.name,
            reason=row.voided_why,
            before={"run": row.run.public_id, "verdict": row.verdict},
        )
        for row in voided
    )
    if voided:
        ring("fleet", *(f"node-{row.node.name}" for row in voided))
    return len(voided)


def _void(row: NodeAcceptance, facts: Mapping[str, Read], now: Any) -> str:
    """Set and return why a row holds no more; empty when it does."""
    values = rules.identity_of({key: fact.value for key, fact in facts.items()})
    host_boot = row.node.host.boot_id
    if host_boot and host_boot != row.identity.get("host_boot_id"):
        values["boot_id"] = host_boot  # the watch sees a reboot before any probe does
    if row.valid_until is not None and row.valid_until <= now:
        row.voided_why = say("It was accepted more than 30 days ago.")
    else:
        row.voided_why = storable(rules.changed_since(row.identity, values))
    if row.voided_why:
        row.voided_at = now
    return row.voided_why


def _with_look(row: NodeAcceptance, read: Mapping[str, Read], told: Told) -> dict[str, Read]:
    """Add what the look told: the images, and the locked memory of a container over that of the host."""
    facts, look = dict(read), row.look
    if look is None:
        return facts
    facts[IMAGES] = Read(told.images, command=look.pk, section=f"{IMAGE_HEAD}0")
    if told.memlock is not None:
        facts["memlock_kb"] = Read(told.memlock, command=look.pk, section=MEMLOCK)
    return facts


def _facts_of(nodes: Sequence[Node]) -> dict[int, dict[str, Read]]:
    now, found = database_now(), defaultdict[int, dict[str, Read]](dict)
    for fact in Fact.objects.filter(node__in=nodes).order_by():
        found[fact.node_id][fact.key] = Read(
            fact.value, fact.expires_at <= now, fact.problem, fact.source_id, fact.section
        )
    return found


def _answered(nodes: Sequence[Node]) -> dict[int, datetime]:
    """Return up to when a person has answered for each node: when the newest hold was made that one of them lifted.

    What the kernel told after that hold was made, whoever lifted it did not see in its acceptance.
    """
    rows = (
        Hold.objects.filter(node__in=nodes, owner=ACCEPTANCE)
        .exclude(lifted_at=None)
        .exclude(lifted_by__startswith="rule:")
    )
    return dict(rows.values_list("node").annotate(at=Max("created_at")).order_by())


def _profiles_of(nodes: Sequence[Node]) -> dict[tuple[str, str], GoldenProfile]:
    """Return the current profile of each class and origin: one for each line, fetched together."""
    classes = {node.node_class for node in nodes}
    rows = GoldenProfile.objects.filter(
        node_class__in=classes, is_current=True, kind=GoldenProfile.Kind.NODE
    )
    return {(one.node_class, one.origin): one for one in rows.prefetch_related("keys")}


def _gold(profile: GoldenProfile | None, read: Mapping[str, Read]) -> dict[str, Any]:
    """Return what gold says to a node; without a profile nothing, so that paths and rates stay unknown."""
    if profile is None:
        return {}
    wanted: list[Wanted] = [
        one for key in profile.keys.all() if (one := key.wanted()).tolerance != IGNORE
    ]
    found = {key: Found(fact.value, fact.is_expired) for key, fact in read.items()}
    return {
        "differences": compare(wanted, found),
        "gold": {one.key: Gold(one.value, one.ratio) for one in wanted},
        "profile": profile.public_id,
    }


def _freeze(rows: Sequence[NodeAcceptance], told: Mapping[int, Told]) -> dict[tuple[int, str], str]:
    """Freeze what the tests printed; return (row key, step) -> evidence word of the check."""
    keys, frozen = [], []
    for row in rows:
        for step, text in told[row.pk].outputs.items():
            body = storable(text).encode()
            command = row.allreduce if step == "allreduce" else row.disk_read
            keys.append((row.pk, step))
            frozen.append(
                Evidence(
                    object_kind="acceptance",
                    object_id=row.run.public_id,
                    title=say("%(node)s: %(what)s", node=row.node.name, what=_TITLES[step]),
                    origin=command.purpose if command else "",
                    body=body,
                    size_bytes=len(body),
                    sha256=hashlib.sha256(body).hexdigest(),
                    is_rehearsal=row.node.origin == "lab",
                )
            )
    made = Evidence.objects.bulk_create(frozen)
    return {key: f"evidence:{one.pk}" for key, one in zip(keys, made, strict=True)}


def _store(rows: Sequence[NodeAcceptance], told: Mapping[int, Told]) -> None:
    """Store measured rates as facts, so that a golden profile taken from an accepted node holds them."""
    seen: list[tuple[Any, FactSeen]] = []
    ttl_s = rules.VALID_FOR.total_seconds()
    for row in rows:
        mine = told[row.pk]
        for key, measured, command in (
            (ALLREDUCE, mine.allreduce, row.allreduce),
            (DISK_READ, mine.disk_read, row.disk_read),
        ):
            if measured.value is None or command is None:
                continue
            source = _Measure(row.node_id, command)
            seen.append((source, FactSeen(key, measured.value, "", "GB/s", ttl_s=ttl_s)))
            if measured.tool:
                seen.append((source, FactSeen(DISK_TOOL, measured.tool, "", ttl_s=ttl_s)))
    facts_store(seen)


def _rejected_before(node_ids: Iterable[int]) -> set[int]:
    """Return the nodes that an acceptance took out: what took them out may bring them back."""
    rows = NodeAcceptance.objects.filter(
        node__in=list(node_ids), is_standing=True, verdict=rules.REJECTED
    )
    return set(rows.values_list("node_id", flat=True))


def _moves(rows: Sequence[NodeAcceptance], nodes: Mapping[int, Node], own: set[int]) -> None:
    moves = []
    for row in rows:
        node, is_own = nodes[row.node_id], row.node_id in own
        to = rules.state_after(node.state, row.verdict, is_own_quarantine=is_own)
        explanation = _explanation(row, to)
        if node.state == Node.State.QUARANTINED and not is_own:
            continue  # why a person took it out matters more
        if explanation and node.state != Node.State.RETIRED:
            moves.append(NodeMove(node, to, explanation, {"acceptance": row.run.public_id}))
    nodes_move(moves, actor=rule_actor(ACCEPTANCE))


def _holds(rows: Sequence[NodeAcceptance], nodes: Mapping[int, Node]) -> None:
    """Hold what was rejected or is marginal, with its newest reason; lift this rule's own hold of what was accepted."""
    actor = rule_actor(ACCEPTANCE)
    reasons = {
        row.node_id: why
        for row in rows
        if (why := rules.why_held(row.verdict, row.summary, row.checks))
    }
    by_node = {row.node_id: row for row in rows}
    over: dict[str, list[Hold]] = defaultdict(list)
    for hold in Hold.objects.filter(node__in=list(nodes), owner=ACCEPTANCE, lifted_at=None):
        verdict = by_node[hold.node_id].verdict
        if verdict == rules.ACCEPTED or (
            verdict in rules.STANDING and hold.reason != reasons[hold.node_id]
        ):
            over[verdict].append(hold)
    for verdict, holds in over.items():
        holds_lift(holds=holds, reason=_LIFTED[verdict], actor=actor)
    if reasons:
        held = [nodes[pk] for pk in reasons]
        holds_add(nodes=held, kind=Hold.Kind.CORDON, reasons=reasons, actor=actor)


def _explanation(row: NodeAcceptance, to: str) -> str:
    if row.verdict == rules.REJECTED:
        return say(
            "Rejected by acceptance %(run)s: %(why)s", run=row.run.public_id, why=row.summary
        )
    if row.verdict == rules.ACCEPTED and to == Node.State.READY:
        return say("Accepted by %(run)s.", run=row.run.public_id)
    if row.verdict == rules.MARGINAL and to == Node.State.READY:
        return say(
            "Marginal by acceptance %(run)s: %(why)s", run=row.run.public_id, why=row.summary
        )
    return ""


def _entry(row: NodeAcceptance, node: Node, actor: Actor) -> Any:
    failed = [check["name"] for check in row.checks if check["verdict"] != rules.PASS]
    return trail_entry(
        actor=actor,
        verb=f"acceptance.{row.verdict}",
        object_kind="node",
        object_id=node.name,
        reason=row.summary,
        after={"run": row.run.public_id, "checks": len(row.checks), "not_passed": failed},
    )
