"""Addresses of the fleet's pages and forms. Each name has an entry in fleet/rules/policy.py."""

from django.urls import path

from fleet.views import (
    acts,
    audit,
    evidence,
    facts,
    gpus,
    imports,
    jump,
    map,
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
    path("fleet/facts/", facts.fact_list, name="fact-list"),
    path("fleet/settings/", settings.fleet_settings, name="fleet-settings"),
    path("fleet/table/", map.fleet_table, name="fleet-table"),
    # before the names of nodes, of which none is called like these (rules/inventory.py)
    path("nodes/import/", imports.import_list, name="import-list"),
    path("nodes/import/<int:pk>/", imports.import_page, name="import"),
    path("nodes/import/<int:pk>/act/", imports.import_act, name="import-act"),
    path("nodes/add/", imports.node_add, name="node-add"),
    path("nodes/export/", imports.inventory_export, name="inventory-export"),
    path("nodes/<str:name>/", nodes.node, name="node"),
    path("nodes/<str:name>/probes/<int:pk>/raw/<str:section>/", nodes.probe_raw, name="probe-raw"),
    path("gpus/<str:uuid>/", gpus.gpu, name="gpu"),
    path("replicas/", replicas.replica_list, name="replica-list"),
    path("evidence/<int:pk>/", evidence.evidence, name="evidence"),
    path("audit/", audit.audit, name="audit"),
    path("probes/", acts.probe_start, name="probe-start"),
    path("nodes/<str:name>/probes/<int:pk>/cancel/", acts.probe_cancel, name="probe-cancel"),
    path("nodes/<str:name>/holds/", acts.hold_add, name="hold-add"),
    path("nodes/<str:name>/holds/<int:pk>/lift/", acts.hold_lift, name="hold-lift"),
    path("nodes/<str:name>/host-key/", acts.host_key, name="host-key"),
    path("nodes/<str:name>/host-key/<int:pk>/", acts.host_key_sign, name="host-key-sign"),
    path("brake/<int:pk>/clear/", acts.brake_clear, name="brake-clear"),
]
