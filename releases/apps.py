"""Releases and the launches of whole service units."""

from django.apps import AppConfig


class ReleasesConfig(AppConfig):
    name = "releases"
