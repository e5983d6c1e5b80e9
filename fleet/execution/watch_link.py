"""The one connection to a node, shared by everything of the watch that reads from it.

The node's own thread opens it; followers and scrapes wait for it. At most eight channels are open at a time,
so that the node's limit of sessions is never met.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

from fleet.execution.addresses import AddressRefused, check_node_address
from fleet.execution.message import say, sentence_in
from fleet.execution.models import Host
from fleet.execution.remote import Connection, connect
from fleet.execution.remote_errors import RemoteError, Unreachable

FOLLOW_CHANNELS = 6  # the other two are for the status question and a scrape


def dial(host: Host, timeout_s: float) -> None:
    """See that the node takes new connections: an open one may outlive its listener. Raises Unreachable.

    Nothing is sent; the first bytes of the banner are enough.
    """
    try:
        address = check_node_address(host.address, host.port)
        with socket.create_connection((address, host.port), timeout=timeout_s) as sock:
            found = sock.recv(4)
    except (AddressRefused, OSError) as error:
        why = say("takes no new connections: %(why)s", why=sentence_in(error))
        raise Unreachable(why, node=host.name) from error
    if found != b"SSH-":
        why = say("takes no new connections: no SSH banner, found %(found)s", found=repr(found))
        raise Unreachable(why, node=host.name)


class NotConnected(RemoteError):
    """There is no connection now; the node's thread is opening one."""


class NodeLink:
    """Holds the connection of one node. `version` grows with every new connection."""

    def __init__(self, host: Host):
        self.host = host
        self.version = 0
        self._changed = threading.Condition()
        self._connection: Connection | None = None
        self._is_closed = False
        self._slots = threading.BoundedSemaphore(FOLLOW_CHANNELS)

    def open(self, deadline_s: float) -> tuple[Connection, bool]:
        """Return the connection and whether it is new. Raises the remote errors of connecting."""
        with self._changed:
            if self._connection is not None:
                return self._connection, False
        connection = connect(self.host, deadline=deadline_s)
        with self._changed:
            if self._is_closed:
                connection.close()
                raise NotConnected(say("the watch has ended"), node=self.host.name)
            self._connection = connection
            self.version += 1
            self._changed.notify_all()
        return connection, True

    def borrow(self, timeout_s: float) -> Connection:
        """Return the connection, waiting for it. Raises `NotConnected`."""
        with self._changed:
            self._changed.wait_for(lambda: self._connection or self._is_closed, timeout_s)
            connection = self._connection
        if connection is not None and not connection.is_alive:
            self.drop(connection)
            connection = None
        if connection is None:
            raise NotConnected(say("not connected"), node=self.host.name)
        return connection

    def drop(self, connection: Connection | None = None) -> None:
        """Close the connection (only if it is still this one); whoever reads from it ends."""
        with self._changed:
            if connection is not None and connection is not self._connection:
                return
            current, self._connection = self._connection, None
        if current is not None:
            with contextlib.suppress(Exception):  # it is broken: that is why it goes
                current.close()

    def close(self) -> None:
        """End for good."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self.drop()

    @contextlib.contextmanager
    def follow_slot(self) -> Iterator[bool]:
        """Give a place for a channel that stays open; False when all are taken."""
        has_slot = self._slots.acquire(blocking=False)
        try:
            yield has_slot
        finally:
            if has_slot:
                self._slots.release()
