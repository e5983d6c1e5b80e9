"""Addresses of the fleet's pages and forms. Each name has an entry in fleet/rules/policy.py."""

from django.urls import path

from fleet.views import (
    acts,
    audit,
    evidence,
    jump,
    map,
    nodes,
    reader,
    replicas,
    settings,
    sign_in,
    weights,
    weights_acts,
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
    path("weights/", weights.weights, name="weights"),
    path("weights/add/", weights_acts.artefact_add, name="artefact-add"),
    path("weights/<str:name>/", weights.artefact, name="artefact"),
    path("weights/<str:name>/read/", weights_acts.artefact_read, name="artefact-read"),
    path(
        "weights/<str:name>/distribute/",
        weights_acts.distribution_start,
        name="distribution-start",
    ),
    path("weights/<str:name>/nodes/<str:node>/", weights_acts.holding_act, name="holding-act"),
    path("distributions/<str:name>/", weights.distribution, name="distribution"),
    path("distributions/<str:name>/act/", weights_acts.distribution_act, name="distribution-act"),
    path("replicas/", replicas.replica_list, name="replica-list"),
    path("evidence/<int:pk>/", evidence.evidence, name="evidence"),
    path("reader/", reader.reader, name="reader"),
    path("audit/", audit.audit, name="audit"),
    path("probes/", acts.probe_start, name="probe-start"),
    path("nodes/<str:name>/probes/<int:pk>/cancel/", acts.probe_cancel, name="probe-cancel"),
    path("nodes/<str:name>/holds/", acts.hold_add, name="hold-add"),
    path("nodes/<str:name>/holds/<int:pk>/lift/", acts.hold_lift, name="hold-lift"),
    path("nodes/<str:name>/host-key/", acts.host_key, name="host-key"),
    path("nodes/<str:name>/host-key/<int:pk>/", acts.host_key_sign, name="host-key-sign"),
    path("brake/<int:pk>/clear/", acts.brake_clear, name="brake-clear"),
]
