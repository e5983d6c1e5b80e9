"""Tells the fleet which releases a node would serve: its pool's, or every pool's for a spare that may go anywhere."""

from __future__ import annotations

from collections.abc import Sequence

from fleet.models import Node, Pool
from fleet.rules.acceptance import Pins
from fleet.selectors.scope import pools_of_nodes
from fleet.selectors.serving import pins_add
from releases.models import Release
from releases.selectors.releases import release_to_launch


def node_pins(nodes: Sequence[Node]) -> dict[int, list[Pins]]:
    """Return the pins of the release that each node's pool launches; one query a pool, whatever the nodes."""
    releases = {pool.slug: release_to_launch(pool) for pool in Pool.objects.filter(is_spare=False)}
    by_pool = {slug: _pins(release) for slug, release in releases.items() if release is not None}
    return {
        pk: ([by_pool[pool]] if pool in by_pool else [])
        if pool is not None
        else list(by_pool.values())
        for pk, pool in pools_of_nodes(list(nodes)).items()
    }


def _pins(release: Release) -> Pins:
    content = release.content
    platform = content.get("platform") or {}
    return Pins(
        release=release.public_id,
        image=f"{content['image']['name']}@{content['image']['digest']}",
        driver=str(platform.get("driver", "")),
        vbios=str(platform.get("vbios", "")),
    )


pins_add(node_pins)
