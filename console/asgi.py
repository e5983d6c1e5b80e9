"""HTTP and websockets of the web process."""

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
http = get_asgi_application()

from channels.auth import AuthMiddlewareStack  # noqa: E402
from channels.routing import ProtocolTypeRouter, URLRouter  # noqa: E402
from channels.security.websocket import (  # noqa: E402
    AllowedHostsOriginValidator,
    WebsocketDenier,
)
from django.urls import re_path  # noqa: E402

from console.lifespan import lifespan  # noqa: E402
from console.origins import OwnPagesOnly  # noqa: E402
from console.urls import websocket_urlpatterns  # noqa: E402

sockets = URLRouter([*websocket_urlpatterns, re_path("", WebsocketDenier.as_asgi())])

application = ProtocolTypeRouter(
    {
        "http": http,
        "lifespan": lifespan,
        "websocket": AllowedHostsOriginValidator(OwnPagesOnly(AuthMiddlewareStack(sockets))),
    }
)
