"""One connection a node for one batch, opened by the first thread that needs it and shared by the others."""

from __future__ import annotations

import contextlib
import threading

from fleet.execution.models import Host
from fleet.execution.remote import Connection, RemoteError, connect

CONNECT_S = 30.0


class _Link:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.connection: Connection | None = None
        self.error: RemoteError | None = None


class Links:
    """The connections of a batch. A node that could not be reached is not dialled twice; a connection that
    broke is made anew for the next who asks.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._links: dict[int, _Link] = {}

    def get(self, host: Host) -> Connection:
        """Return the connection to a node. Raises RemoteError, the same to all who ask."""
        with self._lock:
            link = self._links.setdefault(host.pk, _Link())
        with link.lock:
            if link.error is not None:
                raise link.error
            if link.connection is None or not link.connection.is_alive:
                try:
                    link.connection = connect(host, deadline=CONNECT_S)
                except RemoteError as error:
                    link.error = error
                    raise
            return link.connection

    def close(self) -> None:
        with self._lock:
            links = list(self._links.values())
        for link in links:
            if link.connection is not None:
                with contextlib.suppress(Exception):  # it is broken, or done with
                    link.connection.close()
