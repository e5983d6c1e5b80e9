"""Addresses of incidents and runs. Each name has an entry in fleet/rules/policy.py."""

from django.urls import path

from runbooks.views import incidents, runs

urlpatterns = [
    path("incidents/", incidents.incident_list, name="incident-list"),
    path("incidents/<str:name>/", incidents.incident, name="incident"),
    path("runs/<str:name>/", runs.run, name="run"),
]
