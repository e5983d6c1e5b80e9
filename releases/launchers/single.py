"""Renders the launch plan of a unit that takes 1 to 8 named cards of one node: one container, TP over them.

The commands are docker_mp's; what differs is that the container gets its cards and no others, and that its port
follows from the first of them, so that units beside each other on a node could not take each other's.
Source: manual C 2 (one card first, TP within one node); docker's device list must be quoted inside its word.
"""

from typing import Any

from releases.launchers import docker_mp
from releases.launchers.docker_mp import Cards, Place


def plan_render(
    *, unit: str, generation: int, content: dict[str, Any], content_sha: str, places: list[Place]
) -> dict[str, Any]:
    """Render the plan of a unit on the cards that its release names (shape.gpus)."""
    return docker_mp.plan_render(
        unit=unit,
        generation=generation,
        content=content,
        content_sha=content_sha,
        places=places,
        launcher="single",
        cards=cards_of(content["shape"]["gpus"]),
    )


def cards_of(gpus: list[int]) -> Cards:
    """Return docker's word for these cards, and their port: 8000 for card 0, 8004 for cards 4 to 7."""
    listed = ",".join(str(index) for index in sorted(gpus))
    return Cards(word=f'"device={listed}"', http_port=docker_mp.HTTP_PORT + min(gpus))
