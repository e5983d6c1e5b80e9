"""Addresses of releases and launches. Each name has an entry in fleet/rules/policy.py."""

from django.urls import path

from releases.views import (
    gates,
    gateway,
    inbox,
    launches,
    log_download,
    logs,
    release_forms,
    releases,
    rollout_forms,
    rollouts,
    units,
)

urlpatterns = [
    path("inbox/", inbox.inbox, name="inbox"),
    path("rollouts/", rollouts.rollout_list, name="rollout-list"),
    path("rollouts/new/", rollout_forms.new, name="rollout-new"),
    path("rollouts/<str:name>/", rollouts.rollout, name="rollout"),
    path("rollouts/<str:name>/act/", rollout_forms.act, name="rollout-act"),
    path("rollouts/<str:name>/halt/", rollout_forms.halt, name="rollout-halt"),
    path("rollouts/<str:name>/ask/", rollout_forms.ask, name="wave-ask"),
    path("rollouts/<str:name>/sign/<int:pk>/", rollout_forms.sign, name="rollout-sign"),
    path("releases/", releases.release_list, name="release-list"),
    path("releases/new/", release_forms.new, name="release-new"),
    path("releases/<str:name>/", releases.release, name="release"),
    path("releases/<str:name>/draft/", release_forms.draft, name="release-draft"),
    path("releases/<str:name>/edit/", release_forms.edit, name="release-edit"),
    path("releases/<str:name>/seal/", release_forms.seal, name="release-seal"),
    path("releases/<str:name>/ask/", release_forms.ask, name="release-ask"),
    path("releases/<str:name>/sign/", release_forms.sign, name="release-sign"),
    path("releases/<str:name>/withdraw/", release_forms.withdraw, name="release-withdraw"),
    path("replicas/<str:name>/", units.replica, name="replica"),
    path("replicas/<str:name>/launch/", launches.launch_plan, name="launch-plan"),
    path("replicas/<str:name>/gen/<int:generation>/launch/", launches.launch, name="launch"),
    path("replicas/<str:name>/gen/<int:generation>/stop/", launches.launch_end, name="launch-stop"),
    path("replicas/<str:name>/gen/<int:generation>/log/", logs.log, name="log"),
    path("replicas/<str:name>/gen/<int:generation>/log/lines", logs.log_lines, name="log-lines"),
    path("replicas/<str:name>/gen/<int:generation>/gates/", gates.gate_start, name="gate-start"),
    path(
        "replicas/<str:name>/gen/<int:generation>/weight/",
        gateway.endpoint_weight,
        name="endpoint-set",
    ),
    path(
        "replicas/<str:name>/gen/<int:generation>/drain/",
        gateway.endpoint_drain,
        name="endpoint-drain",
    ),
    path("gateway/", gateway.gateway, name="gateway"),
    path("gateway/<str:name>/restart/", gateway.restart, name="gateway-restart"),
    path("gates/", gates.gate_list, name="gate-list"),
    path("gates/<str:name>/", gates.gate, name="gate"),
    path("gates/<str:name>/cancel/", gates.gate_cancel, name="gate-cancel"),
    path(
        "replicas/<str:name>/gen/<int:generation>/log/download",
        log_download.log_download,
        name="log-download",
    ),
]
