"""What was done on a node lately and what lasts on it, and which weights and images it holds. Four queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fleet.execution.models import Command, Subject
from fleet.execution.states import SUBJECT_ENDED
from fleet.models import Holding, ImageHolding, Node

JOBS_SHOWN = 8
HELD_SHOWN = 20


@dataclass(frozen=True)
class JobsSeen:
    """`lasting`: processes under the shim that have not ended; `commands`: the newest first."""

    lasting: Sequence[Subject]
    commands: Sequence[Command]
    holdings: Sequence[Holding]
    images: Sequence[ImageHolding]


def jobs_of(node: Node) -> JobsSeen:
    """Return the newest commands of a node, what still runs on it, and what lies on its disk."""
    lasting = Subject.objects.filter(host_id=node.pk).exclude(state__in=SUBJECT_ENDED)
    commands = Command.objects.filter(host_id=node.pk).defer("payload", "answer")
    holdings = (
        Holding.objects.filter(node=node).select_related("artefact").defer("artefact__manifest")
    )
    images = ImageHolding.objects.filter(node=node).select_related("image")
    return JobsSeen(
        lasting=lasting.order_by("-pk")[:JOBS_SHOWN],
        commands=commands.order_by("-pk")[:JOBS_SHOWN],
        holdings=holdings.order_by("artefact__model", "-artefact_id")[:HELD_SHOWN],
        images=images.order_by("image__name", "-image_id")[:HELD_SHOWN],
    )
