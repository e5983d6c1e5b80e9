"""Addresses of the fleet's pages and forms. Each name has an entry in fleet/rules/policy.py."""

from django.urls import path
from django.views.generic import RedirectView

from fleet.views import acts

urlpatterns = [
    path("", RedirectView.as_view(pattern_name="fleet-map"), name="home"),
    path("probes/", acts.probe_start, name="probe-start"),
    path("nodes/<str:name>/holds/", acts.hold_add, name="hold-add"),
    path("nodes/<str:name>/holds/<int:pk>/lift/", acts.hold_lift, name="hold-lift"),
    path("nodes/<str:name>/host-key/", acts.host_key, name="host-key"),
    path("nodes/<str:name>/host-key/<int:pk>/", acts.host_key_sign, name="host-key-sign"),
    path("brake/clear/", acts.brake_clear, name="brake-clear"),
]
