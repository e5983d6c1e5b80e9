"""What the HTTP side must know of the engine's health: serving, draining, dead."""

from dataclasses import dataclass

from .engine import Engine


@dataclass
class ServingState:
    """Shared by the routes, the shutdown and the death of one engine."""

    engine: Engine
    is_draining: bool = False
    is_dead: bool = False
