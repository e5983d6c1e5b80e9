"""Addresses of releases and launches. Each name has an entry in fleet/rules/policy.py."""

from django.urls import path

from releases.views import launches, log_download, logs, units

urlpatterns = [
    path("replicas/<str:name>/", units.replica, name="replica"),
    path("replicas/<str:name>/launch/", launches.launch_plan, name="launch-plan"),
    path("replicas/<str:name>/gen/<int:generation>/launch/", launches.launch, name="launch"),
    path("replicas/<str:name>/gen/<int:generation>/stop/", launches.launch_end, name="launch-stop"),
    path("replicas/<str:name>/gen/<int:generation>/log/", logs.log, name="log"),
    path("replicas/<str:name>/gen/<int:generation>/log/lines", logs.log_lines, name="log-lines"),
    path(
        "replicas/<str:name>/gen/<int:generation>/log/download",
        log_download.log_download,
        name="log-download",
    ),
]
