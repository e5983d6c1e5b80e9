"""Spare nodes for units: a canary's own unit, and a unit moved whole to other nodes. Never a part of a unit.

The floor holds for rollouts only: a unit that lost its nodes may take the last spares.
"""

from django.db import transaction
from django.db.models import F, QuerySet
from django.db.models.functions import Now

from fleet.doorbell import ring
from fleet.models import Member, Node, Pool, Replica
from fleet.rules.acceptance_stand import rank_of, remark_of
from fleet.rules.message import say, say_all
from fleet.rules.refusals import RefusedFor
from fleet.rules.revisions import revisions_held
from fleet.rules.spares import SpareSeen, Wanted, choose_spares, layout_of
from fleet.selectors.acceptance import stands_of
from fleet.selectors.nodes import facts_of
from fleet.selectors.revisions import revisions_seen
from fleet.services.trail import Actor, trail_add
from releases.models import Launch, Release
from releases.services.launches import node_refusals, revision_of


class SparesRefused(RefusedFor):
    """No spare nodes are taken or given back; `reasons` are sentences."""


def spare_floor() -> int:
    """Return how many usable spares no rollout may take; 0 in a fleet without a spare pool."""
    return max(Pool.objects.filter(is_spare=True).values_list("spare_floor", flat=True), default=0)


def spares_usable() -> int:
    """Count the nodes without a unit that may take work now; a node of which something is unknown is none."""
    return sum(1 for one in _seen(list(_spare_nodes())) if not one.refusals)


@transaction.atomic
def canary_create(*, pool: Pool, release: Release, name: str, actor: Actor) -> Replica:
    """Make a rollout's own unit on spare nodes of one leaf; the one of that name when it is there already.

    Raises SparesRefused when the floor would be broken or no leaf has enough.
    """
    count = release.content["shape"]["nodes"]
    nodes = _locked_spares(_spare_nodes())
    if found := Replica.objects.filter(name=name, is_canary=True).first():
        return found
    wanted = Wanted(count, revision_of(release.content), floor=spare_floor())
    chosen, remark = _chosen(nodes, wanted)
    replica = Replica.objects.create(
        name=name,
        pool=pool,
        is_canary=True,
        explanation=say("Planned as the canary of %(release)s.", release=release.public_id),
    )
    _seat(replica, chosen)
    _tell(replica, "replica.create", actor, None, chosen, remark)
    return replica


@transaction.atomic
def unit_to_spares(*, replica: Replica, exclude: frozenset[str], actor: Actor) -> Replica:
    """Move a unit without a live launch to spare nodes of one leaf; none of `exclude` (names) is taken.

    Its old nodes are left as they are, without a unit. Raises SparesRefused.
    """
    own = Member.objects.filter(replica=replica, released_at=None)
    nodes = _locked_spares(_spare_nodes() | Node.objects.filter(pk__in=own.values("node_id")))
    before = list(own.order_by("position").select_related("node__host"))
    replica = (
        Replica.objects.select_for_update(of=("self",)).select_related("pool").get(pk=replica.pk)
    )
    _demand_idle(replica)
    last = Launch.objects.filter(replica=replica).order_by("-pk").select_related("release").first()
    chosen, remark = _chosen(
        nodes,
        Wanted(
            count=len(before) or replica.pool.unit_nodes,
            revision=revision_of(last.release.content) if last else "",
            exclude=exclude,
        ),
    )
    own.update(released_at=Now())
    _seat(replica, chosen)
    _tell(replica, "replica.to_spares", actor, [member.node for member in before], chosen, remark)
    return replica


@transaction.atomic
def canary_remove(*, replica: Replica, actor: Actor) -> None:
    """Give a canary's nodes back; without nodes it is not shown any more. Repeating it changes nothing.

    Raises SparesRefused while a launch of it lives, or for a unit that is no canary.
    """
    members = Member.objects.filter(replica=replica, released_at=None)
    nodes = list(
        Node.objects.select_for_update(of=("self",))
        .filter(pk__in=members.values("node_id"))
        .order_by("pk")
    )
    replica = (
        Replica.objects.select_for_update(of=("self",)).select_related("pool").get(pk=replica.pk)
    )
    if not replica.is_canary:
        raise SparesRefused([say("%(unit)s is no canary.", unit=replica.name)])
    _demand_idle(replica)
    if members.update(released_at=Now()):
        _tell(replica, "replica.remove", actor, nodes, [])


def _spare_nodes() -> QuerySet[Node]:
    """Nodes that belong to no unit."""
    taken = Member.objects.filter(released_at=None)
    return Node.objects.exclude(state=Node.State.RETIRED).exclude(pk__in=taken.values("node_id"))


def _locked_spares(wanted: QuerySet[Node]) -> list[Node]:
    """Lock nodes in id order; return those that are spare now: one may have been taken while this waited."""
    rows = Node.objects.select_for_update(of=("self",)).filter(pk__in=wanted.values("pk"))
    locked = {node.pk for node in rows.order_by("pk")}
    return list(_spare_nodes().filter(pk__in=locked).order_by("pk"))


def _seen(nodes: list[Node]) -> tuple[SpareSeen, ...]:
    """Gather what placement must know of nodes; a constant number of queries."""
    stands = stands_of(node.pk for node in nodes)
    against = node_refusals(nodes, stands)
    read, revisions = facts_of(nodes, ("topo",)), revisions_seen(nodes)
    return tuple(
        SpareSeen(
            node.name,
            node.rack.leaf.number,
            tuple(against[node.pk]),
            layout_of(read[node.pk].get("topo")),
            revisions_held(revisions[node.pk]),
            rank_of(stands[node.pk]),
            remark_of(node.name, stands[node.pk]),
        )
        for node in nodes
    )


def _chosen(nodes: list[Node], wanted: Wanted) -> tuple[list[Node], str]:
    """Return the chosen nodes in their order, and what is to be said of them as one sentence."""
    choice = choose_spares(_seen(nodes), wanted)
    if choice.refusals:
        raise SparesRefused(list(choice.refusals))
    by_name = {node.name: node for node in nodes}
    return [by_name[name] for name in choice.nodes], say_all(choice.remarks)


def _demand_idle(replica: Replica) -> None:
    live = Launch.objects.filter(replica=replica, state__in=Launch.LIVE).first()
    if live:
        raise SparesRefused(
            [
                say(
                    "%(launch)s of this unit is still %(state)s.",
                    launch=live.public_id,
                    state=live.state,
                )
            ]
        )


def _seat(replica: Replica, nodes: list[Node]) -> None:
    Member.objects.bulk_create(
        Member(replica=replica, node=node, position=position) for position, node in enumerate(nodes)
    )


def _tell(
    replica: Replica,
    verb: str,
    actor: Actor,
    before: list[Node] | None,
    after: list[Node],
    remark: str = "",
) -> None:
    touched = [*(before or []), *after]
    Replica.objects.filter(pk=replica.pk).update(version=F("version") + 1)
    Node.objects.filter(pk__in=[node.pk for node in touched]).update(version=F("version") + 1)
    trail_add(
        actor=actor,
        verb=verb,
        object_kind="replica",
        object_id=replica.name,
        reason=remark,
        before=None if before is None else {"nodes": [node.name for node in before]},
        after={"nodes": [node.name for node in after], "pool": replica.pool.slug},
    )
    topics = [f"node-{node.name}" for node in touched]
    ring("fleet", f"replica-{replica.name}", f"pool-{replica.pool.slug}", *topics)
