"""Addresses of the fleet's pages and forms. Each name has an entry in fleet/rules/policy.py."""

from django.urls import path

from fleet.views import (
    acts,
    audit,
    evidence,
    jump,
    map,
    network,
    network_matrix,
    nodes,
    replicas,
    settings,
    sign_in,
)

urlpatterns = [
    path("login/", sign_in.sign_in, name="login"),
    path("logout/", sign_in.sign_out, name="logout"),
    path("language/", settings.language, name="language"),
    path("theme/", settings.theme, name="theme"),
    path("jump/", jump.jump, name="jump"),
    path("fleet/", map.fleet_map, name="fleet-map"),
    path("fleet/table/", map.fleet_table, name="fleet-table"),
    path("nodes/<str:name>/", nodes.node, name="node"),
    path("nodes/<str:name>/probes/<int:pk>/raw/<str:section>/", nodes.probe_raw, name="probe-raw"),
    path("replicas/", replicas.replica_list, name="replica-list"),
    path("evidence/<int:pk>/", evidence.evidence, name="evidence"),
    path("audit/", audit.audit, name="audit"),
    path("probes/", acts.probe_start, name="probe-start"),
    path("nodes/<str:name>/probes/<int:pk>/cancel/", acts.probe_cancel, name="probe-cancel"),
    path("nodes/<str:name>/holds/", acts.hold_add, name="hold-add"),
    path("nodes/<str:name>/holds/<int:pk>/lift/", acts.hold_lift, name="hold-lift"),
    path("nodes/<str:name>/host-key/", acts.host_key, name="host-key"),
    path("nodes/<str:name>/host-key/<int:pk>/", acts.host_key_sign, name="host-key-sign"),
    path("network/", network.network_list, name="network-list"),
    path("network/start/", network.network_start, name="network-start"),
    path("network/matrix/", network_matrix.network_matrix, name="network-matrix"),
    path("network/matrix/write/", network_matrix.matrix_write, name="network-matrix-write"),
    path("network/matrix/<int:pk>/sign/", network_matrix.matrix_sign, name="network-matrix-sign"),
    path("network/<str:name>/", network.network_run, name="network-run"),
    path("network/<str:name>/cancel/", network.network_cancel, name="network-cancel"),
    path("network/<str:name>/pairs/<int:pk>/", network.network_pair, name="network-pair"),
    path(
        "network/<str:name>/pairs/<int:pk>/raw/<int:n>/<str:section>/",
        network.network_raw,
        name="network-raw",
    ),
    path(
        "network/<str:name>/pairs/<int:pk>/golden/", network.network_golden, name="network-golden"
    ),
    path("brake/<int:pk>/clear/", acts.brake_clear, name="brake-clear"),
]
