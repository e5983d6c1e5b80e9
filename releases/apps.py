"""Releases and the launches of whole service units."""

from django.apps import AppConfig


class ReleasesConfig(AppConfig):
    name = "releases"

    def ready(self) -> None:
        """Tell the fleet's selectors how launches are named; they may not import this app."""
        from releases.selectors import logs, names  # noqa: F401
