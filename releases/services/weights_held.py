"""Reads what the nodes of a unit hold of a release's weights and image, for the guards of launch and rollout."""

from __future__ import annotations

from collections.abc import Sequence

from fleet.models import Node
from fleet.selectors.images import image_on
from fleet.selectors.revisions import revisions_seen
from releases.models import Release
from releases.rules.weights_held import judge_held, judge_image_held


def weights_refusals(
    release: Release, nodes: Sequence[Node], *, is_rollback: bool = False
) -> list[str]:
    """Say which nodes lack the weights or the image of a release, each once; nothing of what nobody knows.

    Five queries at most, however many nodes there are.
    """
    return [
        *_of_weights(release, nodes, is_rollback),
        *_of_image(release, nodes, is_rollback),
    ]


def _of_weights(release: Release, nodes: Sequence[Node], is_rollback: bool) -> list[str]:
    model = release.content.get("model", {})
    slug, revision = str(model.get("slug", "")), str(model.get("revision", ""))
    seen = revisions_seen(nodes, (slug, revision))
    return judge_held(
        directory=f"{slug}/{revision}",
        release=release.public_id,
        nodes={node.name: seen[node.pk] for node in nodes},
        is_rollback=is_rollback,
    )


def _of_image(release: Release, nodes: Sequence[Node], is_rollback: bool) -> list[str]:
    digest = str((release.content.get("image") or {}).get("digest", ""))
    image, held = image_on(nodes, digest)
    if image is None:
        return []
    return judge_image_held(
        image=image.public_id,
        release=release.public_id,
        nodes=[node.name for node in nodes],
        held=held,
        is_rollback=is_rollback,
    )
