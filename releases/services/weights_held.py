"""Reads what the nodes of a unit hold of a release's weights, for the guards of launch and rollout."""

from __future__ import annotations

from collections.abc import Sequence

from fleet.models import Node
from fleet.selectors.weights import held_on
from releases.models import Release
from releases.rules.weights_held import judge_held


def weights_refusals(
    release: Release, nodes: Sequence[Node], *, is_rollback: bool = False
) -> list[str]:
    """Say which nodes lack the weights of a release; nothing while its revision is no known artefact."""
    model = release.content.get("model", {})
    artefact, held = held_on(nodes, str(model.get("slug", "")), str(model.get("revision", "")))
    if artefact is None:
        return []
    return judge_held(
        artefact=artefact.public_id,
        release=release.public_id,
        nodes=[node.name for node in nodes],
        held=held,
        is_rollback=is_rollback,
    )
