"""Addresses of the overview, of incidents and of runs. Each name has an entry in fleet/rules/policy.py."""

from django.urls import path

from runbooks.views import incident_forms, incidents, overview, run_forms, runs

urlpatterns = [
    path("", overview.overview, name="home"),
    path("incidents/", incidents.incident_list, name="incident-list"),
    path("incidents/<str:name>/", incidents.incident, name="incident"),
    path("incidents/<str:name>/act/", incident_forms.act, name="incident-act"),
    path("incidents/<str:name>/runs/", incident_forms.propose, name="run-propose"),
    path("runs/<str:name>/", runs.run, name="run"),
    path("runs/<str:name>/start/", run_forms.start, name="run-start"),
    path("runs/<str:name>/halt/", run_forms.halt, name="run-halt"),
    path("runs/<str:name>/steps/<str:step>/", run_forms.step_act, name="step-act"),
]
