"""The wiring app: settings, urls, shell pages, embedded services."""

from django.apps import AppConfig


class ConsoleConfig(AppConfig):
    name = "console"

    def ready(self) -> None:
        from console import celery  # noqa: F401 - tasks are sent through this application
