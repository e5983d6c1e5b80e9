"""The node's faults.json as the engine sees it: polled by modification time, never written.

Not in charge of what a fault does; it answers "is there one" and tells of changes.
"""

import asyncio
import json
import os
from collections.abc import Callable

POLL_S = 0.25


class Faults:
    """The faults that concern one container."""

    def __init__(self, path: str, unit: str) -> None:
        self.path = path
        self.unit = unit
        self.rows: list[dict] = []
        self.on_change: Callable[[], None] | None = None
        self._seen: tuple[int, int] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def read(self) -> bool:
        """Read the file when it changed; tell whether it did. A half-written file is ignored."""
        try:
            stat = os.stat(self.path)
            seen = (stat.st_mtime_ns, stat.st_ino)
        except FileNotFoundError:
            seen = (0, 0)
        if seen == self._seen:
            return False
        rows: list = []
        if seen != (0, 0):
            try:
                with open(self.path, encoding="utf-8") as file:
                    rows = json.load(file)
            except (OSError, ValueError):
                return False
        self._seen = seen
        self.rows = [row for row in rows if isinstance(row, dict) and self._is_mine(row)]
        return True

    def _is_mine(self, row: dict) -> bool:
        unit = (row.get("args") or {}).get("unit")
        return not unit or unit == self.unit

    def find(self, name: str) -> list[dict]:
        """Return the arguments of the present faults of a name."""
        return [row.get("args") or {} for row in self.rows if row.get("name") == name]

    def poll(self) -> None:
        """Read now and every POLL_S until `stop`."""
        if self.read() and self.on_change is not None:
            self.on_change()
        self._timer = asyncio.get_running_loop().call_later(POLL_S, self.poll)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
