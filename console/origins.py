"""Lets a socket in only from a page of this console. A host's name is not enough: its cookies go to every port."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings

App = Callable[[dict[str, Any], Any, Any], Awaitable[None]]


class OwnPagesOnly:
    """Refuse a handshake whose Origin is another port or host than the one that was asked (403)."""

    def __init__(self, application: App) -> None:
        self._application = application

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        headers = {name: value.decode("latin1") for name, value in scope["headers"]}
        if is_own_page(headers.get(b"origin", ""), headers.get(b"host", "")):
            await self._application(scope, receive, send)
        else:
            await receive()
            await send({"type": "websocket.close"})  # before an accept it is a 403


def is_own_page(origin: str, host: str) -> bool:
    """Compare an Origin with the Host that was asked, as the check of forms does."""
    if origin in settings.CSRF_TRUSTED_ORIGINS:
        return True
    try:
        place = urlsplit(origin)
    except ValueError:
        return False
    return bool(host) and place.scheme in {"http", "https"} and place.netloc == host
