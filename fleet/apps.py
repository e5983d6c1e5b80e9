"""Nodes, commands on them, and the trail of who did what."""

from django.apps import AppConfig


class FleetConfig(AppConfig):
    name = "fleet"

    def ready(self) -> None:
        from fleet import wiring  # noqa: F401 - its receivers connect themselves
