"""The socket of the log viewer. Until lines can be followed it refuses every connection."""

from __future__ import annotations

from channels.generic.websocket import AsyncWebsocketConsumer


class LogConsumer(AsyncWebsocketConsumer):
    async def connect(self) -> None:
        await self.close()
