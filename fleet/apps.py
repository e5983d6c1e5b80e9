"""Nodes, commands on them, and the trail of who did what."""

from django.apps import AppConfig


class FleetConfig(AppConfig):
    name = "fleet"
