"""Whether the nodes of a unit hold a release's weights and image verified, as a guard of launch and rollout. Pure.

It speaks once the revision is known as an artefact, and once the image was pulled for somebody; before that the
pre-flight alone reads each node's `.ready` and asks its docker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fleet.rules import images
from fleet.rules.holdings import READY
from fleet.rules.message import say


def judge_held(
    *, artefact: str, release: str, nodes: Sequence[str], held: Mapping[str, str], is_rollback: bool
) -> list[str]:
    """Name each node that does not hold the artefact verified; `held`: node -> state of what it holds.

    `is_rollback`: the release is the one to go back to, whose weights must stay on the nodes.
    """
    return [
        _sentence(artefact, release, node, held.get(node, ""), is_rollback)
        for node in nodes
        if held.get(node) != READY
    ]


def judge_image_held(
    *, image: str, release: str, nodes: Sequence[str], held: Mapping[str, str], is_rollback: bool
) -> list[str]:
    """Name each node on which the image is not verified; `held`: node -> its state there."""
    return [
        _image_sentence(image, release, node, held.get(node, ""), is_rollback)
        for node in nodes
        if held.get(node) != images.READY
    ]


def _image_sentence(image: str, release: str, node: str, state: str, is_rollback: bool) -> str:
    words = {"node": node, "image": image, "release": release}
    if is_rollback:
        return say(
            "%(node)s does not hold image %(image)s verified, which a rollback to %(release)s needs: pull it.",
            **words,
        )
    if not state:
        return say(
            "%(node)s is not known to hold image %(image)s of %(release)s: pull it on the node.",
            **words,
        )
    return say(
        "%(node)s does not hold image %(image)s of %(release)s verified (%(state)s): wait for it, or pull it again.",
        **words,
        state=state,
    )


def _sentence(artefact: str, release: str, node: str, state: str, is_rollback: bool) -> str:
    words = {"node": node, "artefact": artefact, "release": release}
    if is_rollback:
        return say(
            "%(node)s does not hold %(artefact)s verified, which a rollback to %(release)s needs: spread or heal it.",
            **words,
        )
    if not state:
        return say(
            "%(node)s is not known to hold %(artefact)s of %(release)s: spread it to the node.",
            **words,
        )
    return say(
        "%(node)s does not hold %(artefact)s of %(release)s verified (%(state)s): wait for it, or heal it.",
        **words,
        state=state,
    )
