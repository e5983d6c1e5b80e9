"""Addresses of releases and launches. Each name has an entry in fleet/rules/policy.py."""

from django.urls.resolvers import URLPattern

urlpatterns: list[URLPattern] = []
