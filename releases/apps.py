"""Releases and the launches of whole service units."""

from django.apps import AppConfig


class ReleasesConfig(AppConfig):
    name = "releases"

    def ready(self) -> None:
        """Tell the fleet's selectors how launches are named, since they may not import this app, and listen."""
        from releases import wiring  # noqa: F401
        from releases.selectors import gate_page, logs, names, pinned, pins  # noqa: F401
        from releases.services import releases  # noqa: F401
