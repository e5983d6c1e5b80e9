"""Reads what the nodes of a unit hold of a release's weights and image, for the guards of launch and rollout."""

from __future__ import annotations

from collections.abc import Sequence

from fleet.models import Node
from fleet.selectors.images import image_on
from fleet.selectors.weights import held_on
from releases.models import Release
from releases.rules.weights_held import judge_held, judge_image_held


def weights_refusals(
    release: Release, nodes: Sequence[Node], *, is_rollback: bool = False
) -> list[str]:
    """Say which nodes lack the weights or the image of a release; nothing of what nobody made known.

    Four queries at most, however many nodes there are.
    """
    names = [node.name for node in nodes]
    return [
        *_of_weights(release, nodes, names, is_rollback),
        *_of_image(release, nodes, names, is_rollback),
    ]


def _of_weights(
    release: Release, nodes: Sequence[Node], names: list[str], is_rollback: bool
) -> list[str]:
    model = release.content.get("model", {})
    artefact, held = held_on(nodes, str(model.get("slug", "")), str(model.get("revision", "")))
    if artefact is None:
        return []
    return judge_held(
        artefact=artefact.public_id,
        release=release.public_id,
        nodes=names,
        held=held,
        is_rollback=is_rollback,
    )


def _of_image(
    release: Release, nodes: Sequence[Node], names: list[str], is_rollback: bool
) -> list[str]:
    digest = str((release.content.get("image") or {}).get("digest", ""))
    image, held = image_on(nodes, digest)
    if image is None:
        return []
    return judge_image_held(
        image=image.public_id,
        release=release.public_id,
        nodes=names,
        held=held,
        is_rollback=is_rollback,
    )
