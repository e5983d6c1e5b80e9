"""Asking for a launch and for its end. What happens in between is decided tick by tick (launch_tick.py)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db import transaction
from django.db.models import F

from fleet.doorbell import ring
from fleet.execution.faults import fault_point
from fleet.execution.models import Host
from fleet.models import Hold, Member, Node, Replica
from fleet.rules.acceptance_stand import OWNER, Stand, remark_of, says_its_hold
from fleet.rules.message import say
from fleet.rules.refusals import RefusedFor
from fleet.selectors.acceptance import acceptance_refusals, stands_of
from fleet.selectors.network import launch_environment
from fleet.selectors.nodes import live_holds
from fleet.services.holds import owner_word
from fleet.services.replicas import members_reserve, replica_move
from fleet.services.trail import Actor, trail_add
from releases.launchers.choice import plan_render
from releases.launchers.docker_mp import Place, plan_sha256
from releases.models import Launch, LaunchPosition, Release
from releases.rules import launch as rules
from releases.rules.release import LAUNCHABLE as LAUNCHABLE_RELEASES
from releases.services.drains import drain_ask, drain_cut, is_out_of_traffic
from releases.services.launch_moves import launch_move
from releases.services.weights_held import weights_refusals

LAUNCHABLE = {
    Replica.State.PLANNED,
    Replica.State.STOPPED,
    Replica.State.FAILED,
}


class LaunchRefused(RefusedFor):
    """The launch may not be made; `reasons` are sentences for the person who asked."""


@dataclass(frozen=True)
class Preview:
    """The plan as it would run (empty without a whole shape), and why it may not run now (empty when it may).

    `remarks`: what is to be known of nodes that may be used and are not accepted ones.
    """

    plan: dict[str, Any]
    plan_sha256: str
    refusals: list[str]
    remarks: list[str] = field(default_factory=list)


def launch_preview(*, replica: Replica, release: Release) -> Preview:
    """Render the plan of the unit's next generation and say what stands against it. Writes nothing."""
    members = _members(replica)
    stands = stands_of(member.node_id for member in members)
    refusals = [*_busy_refusals(replica), *_place_refusals(replica, release, members, stands)]
    if len(members) != release.content["shape"]["nodes"]:
        return Preview({}, "", refusals)
    plan = _plan(replica, release, members)
    told = [remark_of(member.node.name, stands[member.node_id]) for member in members]
    return Preview(plan, plan_sha256(plan), refusals, [one for one in told if one])


def place_refusals(*, replica: Replica, release: Release) -> list[str]:
    """Say why a release could not be launched on the unit's nodes even if nothing of it ran; empty when it could."""
    return _place_refusals(replica, release, _members(replica))


@transaction.atomic
def launch_create(
    *,
    replica: Replica,
    release: Release,
    actor: Actor,
    user=None,
    plan_sha: str = "",
    first_weight: int | None = None,
) -> Launch:
    """Reserve the unit's nodes and create its next launch; nothing runs before the next tick.

    `plan_sha` is the hash the person saw; another one means that the facts moved. `first_weight`: 0 when
    the caller gives it traffic later; None leaves it to a gate of its own and the pool's custom (entries.py).
    Raises LaunchRefused.
    """
    node_ids = list(
        Member.objects.filter(replica=replica, released_at=None).values_list("node_id", flat=True)
    )
    # Nodes before the unit, in id order, as everything does that locks several.
    list(Node.objects.select_for_update(of=("self",)).filter(pk__in=node_ids).order_by("pk"))
    replica = Replica.objects.select_for_update().select_related("pool").get(pk=replica.pk)
    preview = launch_preview(replica=replica, release=release)
    refusals = list(preview.refusals)
    if plan_sha and preview.plan_sha256 != plan_sha:
        refusals.append(say("The plan changed since it was shown; read it again."))
    if refusals or not preview.plan:
        raise LaunchRefused(refusals)
    return _create(replica, release, preview, actor, user, first_weight)


def _create(
    replica: Replica,
    release: Release,
    preview: Preview,
    actor: Actor,
    user,
    first_weight: int | None,
) -> Launch:
    generation = preview.plan["generation"]
    members_reserve(replica=replica)
    replica_move(
        replica=replica,
        to=Replica.State.RESERVED,
        explanation=say("Generation %(generation)s is being launched.", generation=generation),
        actor=actor,
        from_states=LAUNCHABLE,
    )
    Replica.objects.filter(pk=replica.pk).update(generation=generation)
    launch = Launch.objects.create(
        replica=replica,
        release=release,
        generation=generation,
        plan=preview.plan,
        plan_sha256=preview.plan_sha256,
        first_weight=first_weight,
        explanation=say("Waiting for its first tick."),
        created_by=user,
    )
    LaunchPosition.objects.bulk_create(
        LaunchPosition(launch=launch, position=member.position, node=member.node)
        for member in _members(replica)
    )
    trail_add(
        actor=actor,
        verb="launch.create",
        object_kind="launch",
        object_id=launch.public_id,
        after={
            "unit": replica.name,
            "release": release.public_id,
            "plan_sha256": launch.plan_sha256,
        },
    )
    fault_point("launch-created")
    return launch


@transaction.atomic
def launch_stop(*, launch: Launch, reason: str, actor: Actor, is_now: bool = False) -> Launch:
    """Take the whole unit down because a person wants it; repeating it changes nothing.

    What is behind a gateway is drained first, unless it was or `is_now`: then what still runs is cut.
    """
    launch = Launch.objects.select_for_update(of=("self",)).get(pk=launch.pk)
    if launch.state in rules.ENDED | {rules.STOPPING, rules.FREEZING}:
        return launch
    if launch.state == rules.READY and not is_now and not is_out_of_traffic(launch):
        return _stop_when_drained(launch, reason, actor)
    if is_now:
        drain_cut(launch=launch, actor=actor, reason=reason)
    has_started = launch.state in rules.RUNNING_STATES
    launch_move(
        launch=launch,
        to=rules.STOPPING if has_started else rules.STOPPED,
        explanation=say("Stopping every rank: %(reason)s", reason=reason),
        actor=actor,
        reason=reason,
    )
    return launch


def _stop_when_drained(launch: Launch, reason: str, actor: Actor) -> Launch:
    """Begin with the drain; the tick stops the unit when that has ended."""
    if launch.stop_reason:
        return launch
    drain_ask(launch=launch, actor=actor, reason=reason)
    Launch.objects.filter(pk=launch.pk).update(stop_reason=reason, version=F("version") + 1)
    trail_add(
        actor=actor,
        verb="launch.stop",
        object_kind="launch",
        object_id=launch.public_id,
        reason=reason,
        after={"drain": True},
    )
    ring(launch.topic, f"replica-{launch.replica.name}")
    launch.refresh_from_db()
    return launch


def revision_of(content: dict[str, Any]) -> str:
    """Return the model directory of a release below a node's model root: slug/revision."""
    return f"{content['model']['slug']}/{content['model']['revision']}"


def node_refusals(
    nodes: Iterable[Node], stands: Mapping[int, Stand] | None = None
) -> dict[int, list[str]]:
    """Say by node key why each may not take part in a launch now; unknown counts as no (P28).

    The number of queries does not grow with the nodes. `stands`: what acceptance says of them, if it was read.
    """
    found = list(nodes)
    stands = stands_of(node.pk for node in found) if stands is None else stands
    held, unaccepted = live_holds(found), acceptance_refusals(found, stands)
    for node in found:
        if says_its_hold(stands[node.pk]):  # one sentence, and that with the next step
            held[node.pk] = [hold for hold in held[node.pk] if hold.owner != OWNER]
    return {
        node.pk: _node_refusals(node, held[node.pk], unaccepted.get(node.pk, "")) for node in found
    }


def _node_refusals(node: Node, holds: Iterable[Hold], unaccepted: str) -> list[str]:
    host: Host = node.host
    reasons = []
    if node.state == Node.State.QUARANTINED:
        # no probe brings it back: NODE_MOVES
        reasons.append(
            say("%(node)s is quarantined: mend it, then accept it again.", node=node.name)
        )
    elif node.state != Node.State.READY:
        reasons.append(
            say(
                "%(node)s is %(state)s, not ready: probe it first.",
                node=node.name,
                state=node.state,
            )
        )
    for hold in holds:
        reasons.append(
            say(
                "%(node)s is held by %(owner)s: %(reason)s",
                node=node.name,
                owner=owner_word(hold.owner),
                reason=hold.reason,
            )
        )
    if unaccepted:
        reasons.append(unaccepted)
    if host.key_state != Host.Key.PINNED:
        reasons.append(
            say(
                "%(node)s: its host key is %(state)s, not pinned.",
                node=node.name,
                state=host.key_state,
            )
        )
    if host.reach != Host.Reach.OK:
        reasons.append(
            say(
                "%(node)s: reachability is %(state)s, expected ok.",
                node=node.name,
                state=host.reach,
            )
        )
    return reasons


def _members(replica: Replica) -> list[Member]:
    return list(
        replica.members.filter(released_at=None)
        .select_related("node__host", "node__rack__leaf")
        .order_by("position")
    )


def _place_refusals(
    replica: Replica,
    release: Release,
    members: list[Member],
    stands: Mapping[int, Stand] | None = None,
) -> list[str]:
    nodes = [member.node for member in members]
    against = node_refusals(nodes, stands)
    return [
        *_release_refusals(replica, release),
        *_shape_refusals(release, members),
        *(reason for member in members for reason in against[member.node_id]),
        *weights_refusals(release, nodes),
    ]


def _release_refusals(replica: Replica, release: Release) -> list[str]:
    reasons = []
    if release.state not in LAUNCHABLE_RELEASES:
        reasons.append(
            say(
                "%(release)s is %(state)s: only a sealed release is launched.",
                release=release.public_id,
                state=release.state,
            )
        )
    if release.pool_id != replica.pool_id:
        reasons.append(say("%(release)s belongs to another pool.", release=release.public_id))
    return reasons


def _busy_refusals(replica: Replica) -> list[str]:
    live = replica.launches.filter(state__in=Launch.LIVE).first()
    if live:
        return [
            say(
                "%(launch)s of this unit is still %(state)s.",
                launch=live.public_id,
                state=live.state,
            )
        ]
    if replica.state not in LAUNCHABLE:
        return [say("The unit is %(state)s.", state=replica.state)]
    return []


def _shape_refusals(release: Release, members: list[Member]) -> list[str]:
    wanted = release.content["shape"]["nodes"]
    if len(members) == wanted:
        return []
    return [
        say(
            "Nodes that the release needs: %(wanted)s, of the unit: %(found)s.",
            wanted=wanted,
            found=len(members),
        )
    ]


def _plan(replica: Replica, release: Release, members: list[Member]) -> dict[str, Any]:
    env = launch_environment([member.node for member in members])
    return plan_render(
        unit=replica.name,
        generation=replica.generation + 1,
        content=release.content,
        content_sha=release.content_sha256,
        places=[
            Place(
                m.position,
                m.node.name,
                m.node.host.address,
                m.node.model_root,
                env.get(m.node_id, {}),
            )
            for m in members
        ],
    )
