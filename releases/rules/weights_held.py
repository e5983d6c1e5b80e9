"""Whether the nodes of a unit hold a release's weights and image verified, as a guard of launch and rollout. Pure.

One judge for the weights (fleet/rules/revisions.py), one sentence for a node. Where nothing is known, the pre-flight
alone reads each node's `.ready` and asks its docker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fleet.rules import images
from fleet.rules.message import say
from fleet.rules.revisions import GONE, HELD, UNREAD, RevisionsSeen, judge_revision
from fleet.rules.spares import lacks


def judge_held(
    *, directory: str, release: str, nodes: Mapping[str, RevisionsSeen], is_rollback: bool
) -> list[str]:
    """Name each node that does not hold the revision `directory` (model/revision); `nodes`: what is known of each.

    `is_rollback`: the release is the one to go back to, whose weights must stay on the nodes.
    """
    verdicts = {node: judge_revision(seen, directory) for node, seen in nodes.items()}
    return [
        _sentence(directory, release, node, nodes[node], verdict, is_rollback)
        for node, verdict in verdicts.items()
        if verdict not in (HELD, UNREAD)
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


def _sentence(
    directory: str,
    release: str,
    node: str,
    seen: RevisionsSeen,
    verdict: str,
    is_rollback: bool,
) -> str:
    words = {"node": node, "artefact": seen.artefacts.get(directory, directory), "release": release}
    state, _at = seen.states.get(directory, ("", None))
    if is_rollback:
        return say(
            "%(node)s does not hold %(artefact)s verified, which a rollback to %(release)s needs: spread or heal it.",
            **words,
        )
    if verdict == GONE:
        return say(
            "%(node)s held %(artefact)s of %(release)s verified, but the last probe found no .ready mark of it: "
            "verify it now.",
            **words,
        )
    if directory not in seen.artefacts:
        return lacks(node, directory)
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
