"""Holds: the set of reasons not to place anything on a node. Each has an owner; only the owner lifts it freely.

Everything that holds several nodes locks their rows in node order.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now
from django.utils.translation import gettext as _

from fleet.doorbell import ring
from fleet.models import Hold, Node
from fleet.rules.acceptance_stand import OWNER
from fleet.rules.message import say
from fleet.rules.refusals import Conflict, NeedsReason, NotAllowed, Refused
from fleet.selectors.scope import pools_of_nodes
from fleet.services.permits import permit_demand
from fleet.services.trail import Actor, rule_actor, trail_add, trail_add_all, trail_entry

ACCEPTANCE, HOST_KEY, REACH = OWNER, "host-key", "unreachable"  # owners that are rules


def owner_of(actor: Actor) -> str:
    """Return the owner's word for holds of an actor: user:ana, or the name of the rule."""
    return actor.name[5:] if actor.name.startswith("rule:") else f"user:{actor.name}"


def owner_word(owner: str) -> str:
    """Return an owner as sentences name it: a person by name, a rule by its own."""
    return owner.removeprefix("user:")


@transaction.atomic
def hold_add(
    *,
    node: Node,
    kind: str,
    reason: str,
    actor: Actor,
    user: Any = None,
    expires_at: datetime | None = None,
) -> Hold:
    """Add a hold to one node. Raises Refused for an unknown kind, NeedsReason, NotAllowed."""
    if kind not in Hold.Kind.values:
        raise Refused(
            _("A hold is one of %(kinds)s, found %(kind)s.")
            % {"kinds": ", ".join(Hold.Kind.values), "kind": kind[:20]}
        )
    if not reason.strip():
        raise NeedsReason(_("A hold needs a reason. Write why, then send again."))
    node = _lock([node.pk])[0]
    if user is not None:
        permit_demand(user, "hold-add", pools_of_nodes([node])[node.pk])
    hold = Hold.objects.create(
        node=node,
        kind=kind,
        owner=owner_of(actor),
        reason=reason.strip(),
        created_by=user,
        expires_at=expires_at,
    )
    _changed([node])
    trail_add(
        actor=actor,
        verb="hold.add",
        object_kind="node",
        object_id=node.name,
        reason=reason,
        after=_words(hold),
    )
    return hold


@transaction.atomic
def hold_lift(
    *, hold: Hold, reason: str, actor: Actor, user: Any = None, override: bool = False
) -> Hold:
    """Lift a hold. Another owner's needs `override` and a reason; a host key's is lifted by pinning the key.

    Raises NeedsReason, NotAllowed, and Conflict when it was lifted already or belongs to somebody else.
    """
    node = _lock([hold.node_id])[0]
    hold = Hold.objects.get(pk=hold.pk)
    if hold.lifted_at is not None:
        raise Conflict(
            _("This hold was already lifted by %(who)s.") % {"who": hold.lifted_by or "?"}
        )
    is_own = hold.owner == owner_of(actor)
    if not is_own:
        _demand_override(hold, override)
    if user is not None:
        pool = pools_of_nodes([node])[node.pk]
        permit_demand(user, _permission(hold, is_own), pool)
    if not reason.strip():
        raise NeedsReason(_("Lifting a hold needs a reason. Write why, then send again."))
    before = _words(hold)
    _lift([hold], actor=actor, reason=reason)
    _changed([node])
    trail_add(
        actor=actor,
        verb="hold.lift" if is_own else "hold.override",
        object_kind="node",
        object_id=node.name,
        reason=reason,
        before=before,
        after={"lifted_by": actor.name},
    )
    hold.refresh_from_db()
    return hold


@transaction.atomic
def holds_add(*, nodes: Iterable[Node], kind: str, reasons: dict[int, str], actor: Actor) -> int:
    """Add one hold of a rule to each node that has none of its own yet; return how many were added."""
    rows, owner = _lock([node.pk for node in nodes]), owner_of(actor)
    held = set(
        Hold.objects.filter(node__in=rows, owner=owner, lifted_at=None).values_list(
            "node_id", flat=True
        )
    )
    fresh = [node for node in rows if node.pk not in held]
    holds = Hold.objects.bulk_create(
        Hold(node=node, kind=kind, owner=owner, reason=reasons[node.pk]) for node in fresh
    )
    trail_add_all(
        trail_entry(
            actor=actor,
            verb="hold.add",
            object_kind="node",
            object_id=hold.node.name,
            reason=hold.reason,
            after=_words(hold),
        )
        for hold in holds
    )
    _changed(fresh)
    return len(holds)


@transaction.atomic
def holds_lift(*, holds: Iterable[Hold], reason: str, actor: Actor) -> int:
    """Lift holds that a rule owns or that ran out; return how many were still live."""
    wanted = list(holds)
    rows = {node.pk: node for node in _lock([hold.node_id for hold in wanted])}
    live = list(Hold.objects.filter(pk__in=[hold.pk for hold in wanted], lifted_at=None))
    _lift(live, actor=actor, reason=reason)
    trail_add_all(
        trail_entry(
            actor=actor,
            verb="hold.lift",
            object_kind="node",
            object_id=rows[hold.node_id].name,
            reason=reason,
            before=_words(hold),
            after={"lifted_by": actor.name},
        )
        for hold in live
    )
    _changed([rows[pk] for pk in sorted({hold.node_id for hold in live})])
    return len(live)


def holds_expire() -> int:
    """Lift every hold whose time is over, by the database's clock; return how many."""
    over = list(Hold.objects.filter(lifted_at=None, expires_at__lte=Now()))
    if not over:
        return 0
    return holds_lift(holds=over, reason=say("its time is over"), actor=rule_actor("hold-expiry"))


def _lock(node_ids: Iterable[int]) -> list[Node]:
    rows = Node.objects.select_for_update(of=("self",)).filter(pk__in=set(node_ids))
    return list(rows.order_by("pk"))


def _lift(holds: list[Hold], *, actor: Actor, reason: str) -> None:
    Hold.objects.filter(pk__in=[hold.pk for hold in holds]).update(
        lifted_at=Now(), lifted_by=actor.name[:80], lift_reason=reason.strip()
    )


def _changed(nodes: list[Node]) -> None:
    if not nodes:
        return
    Node.objects.filter(pk__in=[node.pk for node in nodes]).update(version=F("version") + 1)
    ring("fleet", *(f"node-{node.name}" for node in nodes))


def _words(hold: Hold) -> dict[str, str]:
    return {"kind": hold.kind, "owner": hold.owner, "reason": hold.reason}


def _permission(hold: Hold, is_own: bool) -> str:
    if is_own:
        return "hold-lift"
    return "hold.lift-acceptance" if hold.owner == ACCEPTANCE else "hold.override"


def _demand_override(hold: Hold, override: bool) -> None:
    if hold.owner == HOST_KEY:
        raise NotAllowed(
            _("This hold stands for a changed host key. It ends when the key is pinned again.")
        )
    if not override:
        raise Conflict(
            _("This hold belongs to %(owner)s. Ask them, or lift it as an override with a reason.")
            % {"owner": hold.owner}
        )
