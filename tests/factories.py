"""One object each, nothing random. People are Ana (operator), Bo (approver), Chen (viewer), Dana (admin)."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.utils import timezone

from fleet.execution.models import Command, Host
from fleet.models import Fact, Hold, Leaf, Member, Node, Pool, Rack, Replica, RoleGrant
from fleet.services.trail import Actor

ROLES = {"ana": "operator", "bo": "approver", "chen": "viewer", "dana": "admin"}
NOON = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)


def host_key(seed: int = 1) -> str:
    """A well-formed ed25519 host key that no machine has."""
    kind = b"ssh-ed25519"
    blob = len(kind).to_bytes(4, "big") + kind + (32).to_bytes(4, "big") + bytes([seed]) * 32
    return f"ssh-ed25519 {base64.b64encode(blob).decode()}"


def make_person(name: str = "ana", role: str | None = None, pool: Pool | None = None) -> Any:
    """A person with the role of the house's names; `role=""` gives none."""
    user, _ = get_user_model().objects.get_or_create(username=name)
    wanted = ROLES.get(name, "") if role is None else role
    if wanted:
        RoleGrant.objects.get_or_create(user=user, role=wanted, pool=pool)
    return user


def make_actor(name: str = "ana", **fields: str) -> Actor:
    return Actor(name=name, address="127.0.0.1", request_id="r-1", **fields)


def make_host(name: str = "h100-001", **fields: Any) -> Host:
    number = int(name.rpartition("-")[2]) if name.rpartition("-")[2].isdigit() else 250
    defaults = {
        "address": f"127.0.64.{number}",
        "port": 2222,
        "user": "fleet",
        "host_key": host_key(),
        "key_state": Host.Key.PINNED,
        "reach": Host.Reach.OK,
    }
    return Host.objects.create(name=name, **{**defaults, **fields})


def make_node(
    name: str = "h100-001",
    *,
    host: dict[str, Any] | None = None,
    on: Host | None = None,
    **fields: Any,
) -> Node:
    """A reachable node with a pinned key, ready unless told otherwise; `on` is a host that exists."""
    leaf, _ = Leaf.objects.get_or_create(number=1)
    rack, _ = Rack.objects.get_or_create(name="R01", defaults={"leaf": leaf})
    defaults = {"rack": rack, "node_class": "hgx-h100-roce", "state": Node.State.READY}
    return Node.objects.create(host=on or make_host(name, **(host or {})), **{**defaults, **fields})


def let_know(node: Node, *revisions: str, topo: str = "eight equal cards") -> Node:
    """Let a probe have read of a node its topology and which model directories (slug/revision) it holds."""
    values = {
        "topo": {"rows": topo},
        "models": [{"directory": f"{node.model_root}/{name}"} for name in revisions],
    }
    now = timezone.now()
    Fact.objects.bulk_create(
        Fact(node=node, key=key, value=value, observed_at=now, expires_at=now + timedelta(days=1))
        for key, value in values.items()
    )
    return node


def make_nodes(count: int, **fields: Any) -> list[Node]:
    return [make_node(f"h100-{number:03d}", **fields) for number in range(1, count + 1)]


def make_pool(slug: str = "glm52", **fields: Any) -> Pool:
    defaults = {"name": "GLM-5.2", "tone": "p52", "unit_nodes": 2, "unit_gpus": 16}
    return Pool.objects.create(slug=slug, **{**defaults, **fields})


def make_replica(
    name: str = "glm52-r1",
    *,
    pool: Pool | None = None,
    nodes: list[Node] | None = None,
    **fields: Any,
) -> Replica:
    """A unit on these nodes, in their order."""
    pool = pool or Pool.objects.filter(slug="glm52").first() or make_pool()
    replica = Replica.objects.create(name=name, pool=pool, **fields)
    Member.objects.bulk_create(
        Member(replica=replica, node=node, position=position)
        for position, node in enumerate(nodes or [])
    )
    return replica


def make_hold(node: Node, owner: str = "user:ana", **fields: Any) -> Hold:
    defaults = {"kind": Hold.Kind.CORDON, "reason": "looking at its fans"}
    return Hold.objects.create(node=node, owner=owner, **{**defaults, **fields})


def make_command(host: Host, purpose: str = "probe:1/h100-001", **fields: Any) -> Command:
    defaults = {"verb": "probe", "queue": "probe", "effect": "probe", "due_at": NOON}
    return Command.objects.create(purpose=purpose, host=host, **{**defaults, **fields})
