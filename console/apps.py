"""The wiring app: settings, urls, shell pages, embedded services."""

from django.apps import AppConfig


class ConsoleConfig(AppConfig):
    name = "console"
