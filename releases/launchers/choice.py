"""Which launcher renders the plan of a release: the one that its content names."""

from typing import Any

from releases.launchers import docker_mp, single
from releases.launchers.docker_mp import Place

RENDERERS = {"docker_mp": docker_mp.plan_render, "single": single.plan_render}


def plan_render(
    *, unit: str, generation: int, content: dict[str, Any], content_sha: str, places: list[Place]
) -> dict[str, Any]:
    """Render the launch plan of a unit as its release's launcher does."""
    return RENDERERS[content["launcher"]](
        unit=unit, generation=generation, content=content, content_sha=content_sha, places=places
    )
