"""Host keys: a first key needs one admin, a changed key needs both fingerprints, a reason and a second person.

A node that shows its pinned key again needs one admin: that trusts no other key than the one trusted before.
Not in charge of noticing a changed key: the kernel sets `key_state`, the tick adds the hold (services/reach.py).
"""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now
from django.utils.translation import gettext as _

from fleet.doorbell import ring
from fleet.execution.models import Host
from fleet.models import Hold, KeyChange, Node
from fleet.rules import hostkeys
from fleet.rules.message import say
from fleet.rules.refusals import Conflict, NeedsReason, NotAllowed, Refused
from fleet.selectors.scope import pools_of_nodes
from fleet.services.holds import HOST_KEY, holds_lift
from fleet.services.permits import permit_demand
from fleet.services.trail import Actor, rule_actor, trail_add


@transaction.atomic
def host_key_accept(
    *,
    node: Node,
    fingerprint: str,
    actor: Actor,
    user: Any = None,
    old_fingerprint: str = "",
    reason: str = "",
) -> KeyChange | None:
    """Pin a node's first key, or ask for its changed key to be pinned; returns what waits for a signature.

    The fingerprints are those the person compared. Raises NotAllowed, Conflict, NeedsReason.
    """
    host = _lock(node)
    if user is not None:
        permit_demand(user, "host-key", pools_of_nodes([node])[node.pk])
    if not host.offered_key:
        raise Conflict(
            _("%(node)s has shown no new key. Probe it, then compare the fingerprint.")
            % {"node": host.name}
        )
    _demand_same(host.offered_key, fingerprint, _("offered key"))
    if host.key_state == Host.Key.UNSET:
        _pin(node, host, host.offered_key, actor=actor, verb="host_key.accept", reason=reason)
        return None
    _demand_same(host.host_key, old_fingerprint, _("pinned key"))
    return _request(node, host, reason=reason, actor=actor, user=user)


@transaction.atomic
def host_key_sign(*, change: KeyChange, actor: Actor, user: Any) -> KeyChange:
    """Sign as the second person and pin the key. Raises NotAllowed for the person who asked, Conflict."""
    node = change.host.node
    host = _lock(node)
    change = KeyChange.objects.select_for_update().get(pk=change.pk)
    permit_demand(user, "host-key-sign", pools_of_nodes([node])[node.pk])
    if change.closed_at is not None:
        raise Conflict(_("This request was already decided. Reload the page."))
    if change.requested_by_id == user.pk:
        raise NotAllowed(_("A changed key needs a second person; you asked for it yourself."))
    if host.offered_key != change.new_key or host.host_key != change.old_key:
        raise Conflict(
            _("%(node)s shows another key than the one asked for. Withdraw, compare, ask again.")
            % {"node": host.name}
        )
    KeyChange.objects.filter(pk=change.pk).update(signed_by=user, closed_at=Now())
    _pin(node, host, host.offered_key, actor=actor, verb="host_key.sign", reason=change.reason)
    change.refresh_from_db()
    return change


@transaction.atomic
def host_key_withdraw(*, change: KeyChange, reason: str, actor: Actor) -> None:
    """Close a request that nobody signed; the node stays blocked."""
    if not reason.strip():
        raise NeedsReason(_("Withdrawing needs a reason. Write why, then send again."))
    node = change.host.node
    _lock(node)
    if not KeyChange.objects.filter(pk=change.pk, closed_at=None).update(closed_at=Now()):
        raise Conflict(_("This request was already decided. Reload the page."))
    _tell(node, "host_key.withdraw", actor, reason, before={"new": _short(change.new_key)})


@transaction.atomic
def host_key_keep(
    *, node: Node, fingerprint: str, reason: str, actor: Actor, user: Any = None
) -> None:
    """Unblock a node that shows its pinned key again; a request for the other key is closed unsigned.

    `fingerprint` is that of the pinned key, as the person compared it. Nobody is believed by this: every
    connection compares the key before anything is sent, and another one blocks the node again.
    Raises NotAllowed, Conflict, NeedsReason.
    """
    host = _lock(node)
    permit_demand(user, "host-key", pools_of_nodes([node])[node.pk])
    if host.key_state != Host.Key.CHANGED:
        raise Conflict(
            _("No changed key blocks %(node)s any more. Reload the page.") % {"node": host.name}
        )
    _demand_same(host.host_key, fingerprint, _("pinned key"))
    KeyChange.objects.filter(host=host, closed_at=None).update(closed_at=Now())
    _pin(node, host, host.host_key, actor=actor, verb="host_key.keep", reason=reason)


def _request(node: Node, host: Host, *, reason: str, actor: Actor, user: Any) -> KeyChange:
    if not reason.strip():
        raise NeedsReason(
            _("A changed key needs a reason: why does this node show another key? Send again.")
        )
    if user is None:
        raise Refused(_("A changed key is asked for by a person, not by a rule."))
    if KeyChange.objects.filter(host=host, closed_at=None).exists():
        raise Conflict(_("A request for this key already waits for a second person."))
    change = KeyChange.objects.create(
        host=host,
        old_key=host.host_key,
        new_key=host.offered_key,
        reason=reason.strip(),
        requested_by=user,
    )
    before = {"fingerprint": _short(host.host_key)}
    after = {"fingerprint": _short(host.offered_key)}
    _tell(node, "host_key.request", actor, reason, before=before, after=after)
    return change


def _pin(node: Node, host: Host, key: str, *, actor: Actor, verb: str, reason: str) -> None:
    """Pin a key and end the hold. What was known of reachability is older: unknown until the watch got in."""
    Host.objects.filter(pk=host.pk).update(
        host_key=key,
        offered_key="",
        key_state=Host.Key.PINNED,
        reach=Host.Reach.UNKNOWN,
        misses=0,
        missed_since=None,
        explanation="",
    )
    before = {"fingerprint": _short(host.host_key), "offered": _short(host.offered_key)}
    _tell(node, verb, actor, reason, before=before, after={"fingerprint": _short(key)})
    held = Hold.objects.filter(node=node, owner=HOST_KEY, lifted_at=None)
    holds_lift(
        holds=held, reason=say("key pinned by %(who)s", who=actor.name), actor=rule_actor(HOST_KEY)
    )
    node.host.refresh_from_db()


def _lock(node: Node) -> Host:
    """Lock the node, then its host: the order of everything that needs both."""
    Node.objects.select_for_update(of=("self",)).get(pk=node.pk)
    return Host.objects.select_for_update().get(pk=node.pk)


def _tell(node: Node, verb: str, actor: Actor, reason: str, **changes: dict[str, str]) -> None:
    Node.objects.filter(pk=node.pk).update(version=F("version") + 1)
    ring("fleet", "inbox", f"node-{node.name}")
    trail_add(
        actor=actor, verb=verb, object_kind="node", object_id=node.name, reason=reason, **changes
    )


def _short(key: str) -> str:
    return f"{key.split(' ')[0]} {hostkeys.fingerprint(key)}" if key else ""


def _demand_same(key: str, compared: str, what: str) -> None:
    found = hostkeys.fingerprint(key)
    if compared.strip() != found:
        raise Conflict(
            _("The %(what)s is %(found)s; you compared %(compared)s. Reload and compare again.")
            % {"what": what, "found": found, "compared": compared.strip()[:80] or "-"}
        )
