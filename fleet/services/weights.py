"""What people ask of weights: make an artefact known, spread it, pause, stop, verify now, heal.

Each is one change with its line in the trail; the tick (services/weights_tick.py) carries it out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import F
from django.db.models.functions import Now
from django.utils.translation import gettext as _

from fleet.doorbell import ring
from fleet.execution.addresses import AddressRefused, check_node_address
from fleet.models import Distribution, Holding, Node, WeightsArtefact
from fleet.rules import copier, holdings, shards
from fleet.rules.fanout import Limits
from fleet.rules.message import said, say
from fleet.rules.refusals import Conflict, NeedsReason, Refused
from fleet.services.holding_moves import HoldingMove, holdings_move
from fleet.services.permits import permit_demand
from fleet.services.trail import Actor, trail_add

TOPIC = "weights"
LIVE = (Distribution.State.RUNNING, Distribution.State.PAUSED)
_IDLE = (holdings.READY, holdings.FAILED, holdings.CANCELLED)


@transaction.atomic
def artefact_add(
    *,
    model: str,
    revision: str,
    actor: Actor,
    user: Any = None,
    checksums: str = "",
    index: str = "",
    seed_node: Node | None = None,
    store: str = "",
) -> WeightsArtefact:
    """Make a revision known: from a checksum list, or read on a node that holds it; raises Refused, Conflict.

    A list without sizes needs the node too: it fills them in, and must hold the very files that the list names.
    """
    permit_demand(user, "artefact-add")
    _demand_names(model, revision)
    if WeightsArtefact.objects.filter(model=model, revision=revision).exists():
        raise _known(model, revision)
    wanted = _read(checksums, index) if checksums.strip() or index.strip() else []
    is_whole = bool(wanted) and all(one.size is not None for one in wanted)
    if not is_whole and seed_node is None:
        raise Refused(
            _("The list has no sizes. Add lines SIZE NAME to it, or name a node that holds it.")
            if wanted
            else _("Paste a checksum list, or name a node that holds the revision.")
        )
    address, port = _store(store)
    origin = say("pasted by %(who)s", who=actor.name)
    if not wanted:
        origin = say("read on %(node)s", node=seed_node.name if seed_node else "-")
    artefact = WeightsArtefact(
        model=model,
        revision=revision,
        origin=origin,
        store_address=address,
        store_port=port,
        seed_node=seed_node,
        requested_by=user,
        manifest=[one.as_row() for one in wanted],
        explanation=say("Waits for the seed node to read its files."),
    )
    if is_whole:
        artefact_complete(artefact, wanted)
    _save_new(artefact)
    trail_add(
        actor=actor,
        verb="artefact.add",
        object_kind="weights",
        object_id=artefact.public_id,
        after={"model": model, "revision": revision, "files": len(wanted), "state": artefact.state},
    )
    if is_whole and seed_node is not None:
        _want(artefact, [seed_node], None)
    ring(TOPIC)
    return artefact


def _save_new(artefact: WeightsArtefact) -> None:
    """Save an artefact; another person may have made it known since it was looked for. Raises Conflict."""
    try:
        with transaction.atomic():
            artefact.save()
    except IntegrityError as error:
        if "artefact_revision_once" not in str(error):
            raise
        raise _known(artefact.model, artefact.revision) from error


def _known(model: str, revision: str) -> Conflict:
    return Conflict(
        _("%(model)s at %(revision)s is known already. Open it in the list of weights.")
        % {"model": model, "revision": revision[:12]}
    )


def artefact_complete(artefact: WeightsArtefact, wanted: Sequence[shards.Shard]) -> None:
    """Set the manifest and what follows from it; the caller saves the row."""
    parts = shards.part_hashes(wanted)
    artefact.manifest = [one.as_row() for one in wanted]
    artefact.manifest_sha256 = shards.manifest_sha256(wanted)
    artefact.total_bytes = sum(one.size or 0 for one in wanted)
    artefact.tokenizer_sha256 = parts["tokenizer"]
    artefact.template_sha256 = parts["template"]
    artefact.generation_config_sha256 = parts["generation_config"]
    artefact.state, artefact.explanation = WeightsArtefact.State.READY, ""


@transaction.atomic
def artefact_read_again(*, artefact: WeightsArtefact, actor: Actor, user: Any = None) -> None:
    """Let the seed node be read once more after it could not be. Raises Conflict for one that is known."""
    permit_demand(user, "artefact-add")
    row = WeightsArtefact.objects.select_for_update(of=("self",)).get(pk=artefact.pk)
    if row.state != WeightsArtefact.State.FAILED:
        raise Conflict(_("%(name)s is not waiting to be read again.") % {"name": row.public_id})
    row.state, row.subject, row.attempt = WeightsArtefact.State.MAKING, None, row.attempt + 1
    row.explanation = say("Waits for the seed node to read its files.")
    row.save()
    trail_add(
        actor=actor,
        verb="artefact.read",
        object_kind="weights",
        object_id=row.public_id,
        after={"attempt": row.attempt},
    )
    ring(TOPIC, row.topic)


@transaction.atomic
def distribution_start(
    *,
    artefact: WeightsArtefact,
    nodes: Sequence[Node],
    limits: Limits,
    actor: Actor,
    user: Any = None,
    reason: str = "",
) -> Distribution:
    """Bring a revision to these nodes; those that hold it verified stay as they are. Raises Refused, Conflict."""
    permit_demand(user, "distribution-start")
    row = _locked(artefact.pk)
    if row.state != WeightsArtefact.State.READY:
        raise Conflict(
            _("The manifest of %(name)s is not known yet: %(why)s")
            % {"name": row.public_id, "why": said(row.explanation, _)}
        )
    if live := row.distributions.filter(state__in=LIVE).first():
        raise Conflict(
            _("%(other)s of this revision is still open. Stop it, or wait for its end.")
            % {"other": live.public_id}
        )
    if not nodes:
        raise Refused(_("No node was selected. Choose at least one."))
    if problems := limits.problems():
        raise Refused(" ".join(said(one, _) for one in problems))
    distribution = Distribution.objects.create(
        artefact=row, limits=asdict(limits), reason=reason.strip(), requested_by=user
    )
    count = _want(row, nodes, distribution)
    trail_add(
        actor=actor,
        verb="distribution.start",
        object_kind="distribution",
        object_id=distribution.public_id,
        reason=reason,
        after={"artefact": row.public_id, "nodes": len(nodes), "to_check": count},
    )
    _ring(row)
    return distribution


@transaction.atomic
def distribution_act(
    *, distribution: Distribution, act: str, reason: str, actor: Actor, user: Any = None
) -> Distribution:
    """Pause, resume or cancel a distribution. What is half copied stays on its disk and is gone on with later.

    Raises NeedsReason for a cancel without words, Conflict when it has ended.
    """
    permit_demand(user, "distribution-act")
    to = {"pause": "paused", "resume": "running", "cancel": "cancelled"}.get(act)
    if to is None:
        raise Refused(_("Expected pause, resume or cancel, found %(act)s.") % {"act": act[:20]})
    _locked(distribution.artefact_id)
    row = Distribution.objects.select_for_update(of=("self",)).select_related("artefact")
    row = row.get(pk=distribution.pk)
    if to not in holdings.DISTRIBUTION_MOVES[row.state] or (
        act == "resume" and row.state != "paused"
    ):
        raise Conflict(
            _("%(name)s is %(state)s: it cannot be changed this way. Reload the page.")
            % {"name": row.public_id, "state": row.get_state_display()}
        )
    if act == "cancel" and not reason.strip():
        raise NeedsReason(_("Stopping a distribution needs a reason. Write why, then send again."))
    before = row.state
    row.state, row.version = to, row.version + 1
    row.explanation = _told(act, actor, reason)
    row.ended_at = Now() if act == "cancel" else None
    row.save()
    _apply(row, act, actor)
    trail_add(
        actor=actor,
        verb=f"distribution.{act}",
        object_kind="distribution",
        object_id=row.public_id,
        reason=reason,
        before={"state": before},
        after={"state": to},
    )
    _ring(row.artefact)
    return row


@transaction.atomic
def holding_verify(*, holding: Holding, actor: Actor, user: Any = None) -> None:
    """Read every byte of a revision on a node again. What is found is told; healing is asked for by a person."""
    permit_demand(user, "holding-act")
    row = _idle(holding)
    row.needs, row.findings, row.is_check_only, row.copies = None, [], True, 0
    row.check_run = None
    row.attempt += 1
    _send(row, "verify", holdings.VERIFYING, say("Is being verified."), actor)


@transaction.atomic
def holding_heal(*, holding: Holding, actor: Actor, user: Any = None) -> None:
    """Copy again what the last check found bad, and only that; without a check it is checked first."""
    permit_demand(user, "holding-act")
    row = _idle(holding)
    if row.state == holdings.READY:
        raise Conflict(_("Every file of it was verified; there is nothing to heal."))
    row.is_check_only, row.copies = False, 0
    row.attempt += 1
    count = len(row.needs or [])
    why = say("Waits for %(n)s files to be copied again.", n=count) if count else ""
    _send(row, "heal", holdings.WANTED, why or say("Waits to be checked."), actor)
    Distribution.objects.filter(pk=row.distribution_id, state="failed").exclude(
        artefact__distributions__state__in=LIVE
    ).update(state="running", ended_at=None, explanation="", version=F("version") + 1)


def _locked(artefact_id: int) -> WeightsArtefact:
    """Lock an artefact: all that people do to it, its distributions and who holds it, goes one after the other.

    It comes before the locks of its rows, so that no two wait for each other.
    """
    rows = WeightsArtefact.objects.select_for_update(of=("self",), no_key=True)
    return rows.get(pk=artefact_id)


def _idle(holding: Holding) -> Holding:
    _locked(holding.artefact_id)
    rows = Holding.objects.select_for_update(of=("self",)).select_related("node", "artefact")
    row = rows.get(pk=holding.pk)
    if row.state not in _IDLE:
        raise Conflict(
            _("%(node)s is at work on this revision (%(state)s). Wait for its end.")
            % {"node": row.node.name, "state": row.get_state_display()}
        )
    return row


def _send(row: Holding, act: str, to: str, explanation: str, actor: Actor) -> None:
    trail_add(
        actor=actor,
        verb=f"holding.{act}",
        object_kind="node",
        object_id=row.node.name,
        after={"artefact": row.artefact.public_id, "files": row.needs},
    )
    holdings_move([HoldingMove(row, to, explanation)])
    _ring(row.artefact)


def _want(
    artefact: WeightsArtefact, nodes: Iterable[Node], distribution: Distribution | None
) -> int:
    """Add or renew the holdings of these nodes; return how many are to be checked and copied."""
    held = {
        row.node_id: row
        for row in Holding.objects.select_for_update(of=("self",)).filter(
            artefact=artefact, node__in=list(nodes)
        )
    }
    moves, fresh = [], []
    waits = say("Waits to be checked.")
    for node in nodes:
        row = held.get(node.pk)
        if row is None:
            row = Holding(node=node, artefact=artefact, explanation=waits)
            row.distribution = distribution
            fresh.append(row)
            continue
        row.distribution = distribution
        if row.state in (holdings.FAILED, holdings.CANCELLED):
            row.needs, row.is_check_only, row.copies = None, False, 0
            row.attempt += 1
            moves.append(HoldingMove(row, holdings.WANTED, waits))
        else:
            moves.append(HoldingMove(row, row.state, row.explanation))
    Holding.objects.bulk_create(fresh)
    holdings_move(moves)
    return len(fresh) + sum(move.to == holdings.WANTED for move in moves)


def _apply(distribution: Distribution, act: str, actor: Actor) -> None:
    """Tell the holdings of it: those at work are ended by the tick, those that wait change at once."""
    rows = Holding.objects.select_for_update(of=("self",)).filter(distribution=distribution)
    moves = []
    for row in rows:
        if act == "resume":
            if row.state == holdings.PAUSED:
                moves.append(HoldingMove(row, holdings.WANTED, say("Waits for its turn.")))
            elif row.stop_for == holdings.PAUSED:
                row.stop_for = holdings.WANTED
                moves.append(HoldingMove(row, row.state, row.explanation))
            continue
        to = holdings.PAUSED if act == "pause" else holdings.CANCELLED
        words = distribution.explanation
        is_at_work = row.state == holdings.COPYING or (
            row.state == holdings.VERIFYING and act == "cancel"
        )
        if is_at_work:
            row.stop_for = to
            moves.append(HoldingMove(row, row.state, words))
        elif row.state == holdings.WANTED or (row.state == holdings.PAUSED and act == "cancel"):
            moves.append(HoldingMove(row, to, words))
    holdings_move(moves)


def _told(act: str, actor: Actor, reason: str) -> str:
    words = {
        "pause": say("Paused by %(who)s: %(reason)s", who=actor.name, reason=reason or "-"),
        "cancel": say("Stopped by %(who)s: %(reason)s", who=actor.name, reason=reason or "-"),
        "resume": "",
    }
    return words[act]


def _demand_names(model: str, revision: str) -> None:
    if not copier.MODEL.fullmatch(model) or model in (".", ".."):
        raise Refused(
            _("Model: expected the name of a directory (letters, digits, . _ -), found %(found)s.")
            % {"found": model[:80] or "-"}
        )
    if not copier.REVISION.fullmatch(revision):
        raise Refused(
            _("Revision: expected 40 hex digits (a commit, never main or latest), found %(found)s.")
            % {"found": revision[:60] or "-"}
        )


def _read(checksums: str, index: str) -> list[shards.Shard]:
    try:
        return shards.read_checksums(checksums, index)
    except shards.ManifestUnreadable as unreadable:
        words = "; ".join(said(one, _) for one in unreadable.problems[:5])
        raise Refused(_("The checksum list cannot be used: %(why)s.") % {"why": words}) from None


def _store(text: str) -> tuple[str, int]:
    """Return address and port of a store; nothing is looked up by name here."""
    if not text.strip():
        return "", copier.FIRST_PORT
    address, _colon, port = text.strip().partition(" ")
    try:
        number = int(port) if port.strip() else copier.FIRST_PORT
        return check_node_address(address, number), number
    except AddressRefused as refused:
        raise Refused(_("Store: %(why)s.") % {"why": said(refused.sentence, _)}) from None
    except ValueError:
        raise Refused(_("Store: expected ADDRESS or ADDRESS PORT.")) from None


def _ring(artefact: WeightsArtefact) -> None:
    ring(TOPIC, artefact.topic)
