"""All URLs. Each name must stand in fleet/rules/policy.py, or the build fails."""

from django.urls import include, path

from console import health, views
from fleet import consumers

urlpatterns = [
    path("healthz", health.healthz, name="healthz"),
    path("counts/", views.counts, name="counts"),
    path("frozen/", views.frozen, name="frozen"),
    path("", include("fleet.urls")),
    path("", include("releases.urls")),
    path("", include("runbooks.urls")),
]

handler404 = "console.error_pages.not_found"
handler500 = "console.error_pages.failed"

websocket_urlpatterns = [
    path("ws/page/", consumers.PageConsumer.as_asgi(), name="ws-page"),
    path("ws/log/<str:launch>/", consumers.LogConsumer.as_asgi(), name="ws-log"),
]
