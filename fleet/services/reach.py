"""What a node's reachability, host key and boot do to it: holds of their own rules, added and lifted again.

Nothing is freed or stopped here; an unreachable node keeps its reservations. While the brake is on, no
hold is added for unreachable nodes.
"""

from __future__ import annotations

from django.db import transaction
from django.db.models import OuterRef, Subquery

from fleet.doorbell import ring
from fleet.execution.models import Host
from fleet.models import Fact, Hold, Node
from fleet.rules import hostkeys
from fleet.rules.message import say
from fleet.services.brake import brake_judge
from fleet.services.holds import HOST_KEY, REACH, holds_add, holds_lift
from fleet.services.node_moves import NodeMove, nodes_move
from fleet.services.trail import rule_actor

BOOT = "boot_id"


def reach_settle() -> int:
    """Bring holds in line with what the watch saw; returns how many nodes changed. Repeating changes nothing."""
    changed = _hold_changed_keys()
    if brake_judge() is None:
        changed += _hold_unreachable()
    return changed + _lift_reachable() + _recheck_rebooted()


def _hold_changed_keys() -> int:
    nodes = list(_without_hold(HOST_KEY).filter(host__key_state=Host.Key.CHANGED))
    reasons = {
        node.pk: say(
            "host key changed: pinned %(pinned)s, offered %(offered)s",
            pinned=hostkeys.fingerprint(node.host.host_key),
            offered=hostkeys.fingerprint(node.host.offered_key) or "–",
        )
        for node in nodes
    }
    return _add(nodes, reasons, HOST_KEY)


def _hold_unreachable() -> int:
    nodes = list(_without_hold(REACH).filter(host__reach=Host.Reach.UNREACHABLE))
    reasons = {
        node.pk: say("no answer since %(at)s UTC", at=f"{node.host.missed_since:%Y-%m-%d %H:%M:%S}")
        if node.host.missed_since
        else say("no answer")
        for node in nodes
    }
    return _add(nodes, reasons, REACH)


def _lift_reachable() -> int:
    back = list(Hold.objects.filter(lifted_at=None, owner=REACH, node__host__reach=Host.Reach.OK))
    if not back:
        return 0
    return holds_lift(holds=back, reason=say("it answers again"), actor=rule_actor(REACH))


@transaction.atomic
def _recheck_rebooted() -> int:
    """Send ready nodes that booted since their probe back to acceptance: what was read may no longer hold."""
    probed = Fact.objects.filter(node=OuterRef("pk"), key=BOOT).values("value")[:1]
    stale = (
        Node.objects.annotate(probed_boot=Subquery(probed))
        .filter(state=Node.State.READY, probed_boot__isnull=False)
        .exclude(host__boot_id="")
        .values_list("pk", "probed_boot", "host__boot_id")
    )
    pks = [pk for pk, probed_boot, boot in stale if probed_boot != boot]
    if not pks:
        return 0
    nodes = list(
        Node.objects.select_for_update(of=("self",))
        .filter(pk__in=pks, state=Node.State.READY)
        .order_by("pk")
    )
    explanation = say("It booted since its last probe. Probe it again.")
    nodes_move(
        [NodeMove(node, str(Node.State.ACCEPTANCE), explanation) for node in nodes],
        actor=rule_actor("reboot"),
    )
    ring("fleet", *(f"node-{node.name}" for node in nodes))
    return len(nodes)


def _without_hold(owner: str):
    held = Hold.objects.filter(owner=owner, lifted_at=None).values("node_id")
    return Node.objects.exclude(state=Node.State.RETIRED).exclude(pk__in=held)


def _add(nodes: list[Node], reasons: dict[int, str], owner: str) -> int:
    if not nodes:
        return 0
    return holds_add(nodes=nodes, kind=Hold.Kind.CORDON, reasons=reasons, actor=rule_actor(owner))
