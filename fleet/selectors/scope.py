"""Finds the object that an address, a topic or a form names, and the pool that decides who may touch it.

Upper apps add their own kinds (a launch) with scope_add(), because this app may not import them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fleet.models import Member, Node, Pool, Replica
from fleet.selectors.acceptance import acceptance_named
from fleet.selectors.golden import line_named

Finder = Callable[[str], Any]
_FINDERS: dict[str, tuple[Finder, Callable[[Any], str | None]]] = {}


def scope_add(kind: str, find: Finder, pool_of: Callable[[Any], str | None]) -> None:
    """Register how to find an object of a kind by its name, and its pool's slug."""
    _FINDERS[kind] = (find, pool_of)


def scope_object(kind: str, name: str) -> Any:
    """Return the object of a kind by its public name, or None. Its row is not locked."""
    found = _FINDERS.get(kind)
    return found[0](name) if found else None


def scope_pool(kind: str, subject: Any) -> str | None:
    """Return the slug of the pool that decides about an object; None means the whole fleet."""
    _, pool_of = _FINDERS[kind]
    return pool_of(subject)


def name_in(kind: str, values: Mapping[str, Any]) -> str:
    """Return the name of the object of a kind among the parts of an address."""
    return str(values.get(kind) or values.get("name") or "")


def pools_of_nodes(nodes: list[Node]) -> dict[int, str | None]:
    """Return the pool of each node's unit by node key, with one query; a node without a unit has none."""
    found = dict(
        Member.objects.filter(node__in=nodes, released_at=None).values_list(
            "node_id", "replica__pool__slug"
        )
    )
    return {node.pk: found.get(node.pk) for node in nodes}


def _node(name: str) -> Node | None:
    return Node.objects.filter(host__name=name).first()


def _replica(name: str) -> Replica | None:
    return Replica.objects.select_related("pool").filter(name=name).first()


def _pool(slug: str) -> Pool | None:
    return Pool.objects.filter(slug=slug).first()


scope_add("node", _node, lambda node: pools_of_nodes([node])[node.pk])
scope_add("replica", _replica, lambda replica: replica.pool.slug)
scope_add("pool", _pool, lambda pool: pool.slug)
scope_add("golden", line_named, lambda line: None)
scope_add("acceptance", acceptance_named, lambda run: None)
