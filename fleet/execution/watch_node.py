"""One node under watch: keeps its connection, asks its subjects how they are, tends who reads from it.

A thread a node, so that a node that hangs stops no other. It changes nothing on the node.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fleet.execution.faults import scaled
from fleet.execution.models import Host
from fleet.execution.remote import Connection, connect
from fleet.execution.remote_errors import HostKeyError, RemoteError
from fleet.execution.watch_follow import Follower, Work
from fleet.execution.watch_link import NodeLink, dial
from fleet.execution.watch_reach import PERIOD_S

if TYPE_CHECKING:
    from fleet.execution.watch_shift import Shift

logger = logging.getLogger(__name__)

SCAN_EVERY_S = 60.0
_ANSWER_S = 10.0
_CONNECT_S = 30.0
_DIAL_FLOOR_S = 2.0  # a loaded machine takes this long, however fast a test's clock


class NodeWatch(threading.Thread):
    """Watches one node until it is stopped."""

    def __init__(self, host: Host, shift: Shift):
        super().__init__(name=f"node-{host.name}", daemon=True)
        self.host = host
        self.shift = shift
        self.link = NodeLink(host)
        self.silence_why = ""
        self._work: tuple[Work, ...] = ()
        self._followers: dict[int, Follower] = {}
        self._stopping = threading.Event()
        self._wake = threading.Event()
        self._answered_at = self._dialled_at = shift.awake.now()
        self._scan_at = 0.0
        self._has_news = False

    # what the shift asks

    @property
    def silent_s(self) -> float:
        """Return for how long the node gave no answer, or took no new connection, while we listened."""
        return self.shift.awake.now() - min(self._answered_at, self._dialled_at)

    def take_news(self) -> bool:
        """Tell whether the node answered since the last call and takes new connections too."""
        had_news, self._has_news = self._has_news, False
        return had_news and not self.silence_why

    def assign(self, work: tuple[Work, ...]) -> None:
        """Set the subjects of this node; new ones are followed at once."""
        if work != self._work:
            self._work = work
            self._wake.set()

    def stop(self) -> None:
        self._stopping.set()
        self._wake.set()
        for follower in list(self._followers.values()):
            follower.stop()
        self.link.close()

    # its own thread

    def run(self) -> None:
        while not self._stopping.is_set():
            begun = time.monotonic()
            try:
                self._round()
            except RemoteError as error:
                self._failed(error)
            except Exception as error:
                logger.exception("the watch of %s failed in one round", self.host.name)
                self.silence_why = f"{type(error).__name__}: {error}"
            self._tend()
            self._wake.wait(max(0.05, scaled(PERIOD_S) - (time.monotonic() - begun)))
            self._wake.clear()

    def _round(self) -> None:
        connection, is_new = self._open()
        if is_new:
            self._answered()
            self._dialled_at = self._answered_at
            self.silence_why = ""
        else:
            self._dial()
        if is_new or time.monotonic() >= self._scan_at:
            if not is_new:
                self._look_at_key()
            self._scan(connection)
        work = [one for one in self._work if one.is_open]
        self.report({one.subject_id: self._status(connection, one.name) for one in work})
        # Nothing to ask about: the banner and the keepalive of the open connection are answer enough, and
        # spare an idle node a shell every few seconds. The scan asks the shim itself once a minute.
        if not work and connection.is_alive and not self.silence_why:
            self._answered()

    def _open(self) -> tuple[Connection, bool]:
        connection, is_new = self.link.open(_CONNECT_S)
        if not connection.is_alive:
            self.link.drop(connection)
            connection, is_new = self.link.open(_CONNECT_S)
        return connection, is_new

    def _dial(self) -> None:
        """Hands dial anew for every job: a node that takes no new connection is no use to them."""
        try:
            dial(self.host, max(_DIAL_FLOOR_S, scaled(_ANSWER_S)))
        except RemoteError as error:
            self.silence_why = str(error)
        else:
            self._dialled_at = self.shift.awake.now()
            self.silence_why = ""

    def _look_at_key(self) -> None:
        """Log in anew and out again: an open connection does not tell that the node got another host key."""
        if not self.silence_why:
            connect(self.host, deadline=_CONNECT_S).close()

    def _status(self, connection: Connection, name: str) -> dict[str, Any]:
        status, body = connection.shim("status", name, 0, [], deadline=_ANSWER_S)
        body.close()
        self._answered()
        return status

    def _scan(self, connection: Connection) -> None:
        """Compare what lives on the node with the rows (adoption), and see whether it was started again."""
        self.shift.adopt(self.host, connection)
        self._answered()
        self._scan_at = time.monotonic() + scaled(SCAN_EVERY_S)

    def report(self, statuses: Mapping[int, dict[str, Any]]) -> None:
        """Hand the shim's answers to the ledger."""
        if statuses:
            self.shift.record_statuses(statuses)

    def _answered(self) -> None:
        self._answered_at = self.shift.awake.now()
        self._has_news = True

    def _failed(self, error: RemoteError) -> None:
        self.silence_why = str(error)
        self.link.drop()
        if isinstance(error, HostKeyError):
            self.shift.record_key(self.host, error)

    def _tend(self) -> None:
        """Start a reader for each stream that has none; forget those that ended."""
        wanted = {one.stream_id: one for one in self._work}
        for stream_id, follower in list(self._followers.items()):
            if stream_id not in wanted:
                follower.stop()
            if not follower.is_alive():
                del self._followers[stream_id]
        for stream_id, one in wanted.items():
            if stream_id in self._followers:
                self._followers[stream_id].work = one
            elif not self._stopping.is_set():
                follower = self._followers[stream_id] = Follower(self, one)
                follower.start()
