"""A websocket into one consumer, without a server (channels' own wants daphne, which is not installed)."""

from __future__ import annotations

import json
from typing import Any

from asgiref.testing import ApplicationCommunicator

TIMEOUT_S = 5


class Socket(ApplicationCommunicator):
    """Connects, receives frames as objects, and says with which code it was closed."""

    def __init__(self, application: Any, path: str, **scope: Any) -> None:
        path, _, query = path.partition("?")
        super().__init__(
            application,
            {
                "type": "websocket",
                "path": path,
                "query_string": query.encode(),
                "headers": [],
                "subprotocols": [],
                **scope,
            },
        )

    async def connect(self) -> bool:
        await self.send_input({"type": "websocket.connect"})
        return (await self.receive_output(TIMEOUT_S))["type"] == "websocket.accept"

    async def receive(self) -> dict[str, Any]:
        message = await self.receive_output(TIMEOUT_S)
        assert message["type"] == "websocket.send", message
        return json.loads(message["text"])

    async def say(self, text: str) -> None:
        await self.send_input({"type": "websocket.receive", "text": text})

    async def disconnect(self) -> None:
        await self.send_input({"type": "websocket.disconnect", "code": 1000})
        await self.wait(TIMEOUT_S)

    async def closed_with(self) -> int:
        while True:
            message = await self.receive_output(TIMEOUT_S)
            if message["type"] == "websocket.close":
                return message["code"]
