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
from fleet.execution.message import say
from fleet.execution.models import Host
from fleet.execution.remote import LOGIN_FLOOR_S, Connection, check_host_key
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
_GOLDEN_RATIO = 0.6180339887
_DIAL_FLOOR_S = 2.0  # a loaded machine takes this long, however fast a test's clock


def scan_share(host_id: int) -> float:
    """Return the part of the scan's period after which a node is scanned first: rising ids spread evenly."""
    return host_id * _GOLDEN_RATIO % 1


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
                found = f"{type(error).__name__}: {error}"[:300]
                self.silence_why = say(
                    "a fault of the console, not of the node: %(found)s", found=found
                )
            self._tend()
            self._wake.wait(max(0.05, scaled(PERIOD_S) - (time.monotonic() - begun)))
            self._wake.clear()

    def _round(self) -> None:
        connection, is_new = self._open()
        # a round early rather than a round late
        is_due = time.monotonic() + scaled(PERIOD_S) > self._scan_at
        if is_new:
            self._answered()
            self._dialled_at = self._answered_at
            self.silence_why = ""
        else:
            self._dial(with_key=is_due)
        if is_new or is_due:
            self._scan(connection, is_first=is_new)
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

    def _dial(self, *, with_key: bool) -> None:
        """Hands dial anew for every job: a node that takes no new connection is no use to them.

        Once a scan with a key exchange: a host key that changed is noticed though our connection is open.
        """
        try:
            if with_key:
                check_host_key(self.host, deadline=max(LOGIN_FLOOR_S, scaled(_ANSWER_S)))
            else:
                dial(self.host, max(_DIAL_FLOOR_S, scaled(_ANSWER_S)))
        except HostKeyError:
            raise  # nothing more is asked of this node, nor read from it
        except RemoteError as error:
            self.silence_why = error.sentence
        else:
            self._dialled_at = self.shift.awake.now()
            self.silence_why = ""

    def _status(self, connection: Connection, name: str) -> dict[str, Any]:
        status, body = connection.shim("status", name, 0, [], deadline=_ANSWER_S)
        body.close()
        self._answered()
        return status

    def _scan(self, connection: Connection, *, is_first: bool) -> None:
        """Compare what lives on the node with the rows (adoption), and see whether it was started again.

        Nodes that were connected to at once share the minute: each waits its own part of it at first.
        """
        self.shift.adopt(self.host, connection)
        self._answered()
        share = scan_share(self.host.pk) if is_first else 1.0
        self._scan_at = time.monotonic() + scaled(SCAN_EVERY_S) * share

    def report(self, statuses: Mapping[int, dict[str, Any]]) -> None:
        """Hand the shim's answers to the ledger."""
        if statuses:
            self.shift.record_statuses(statuses)

    def _answered(self) -> None:
        self._answered_at = self.shift.awake.now()
        self._has_news = True

    def _failed(self, error: RemoteError) -> None:
        self.silence_why = error.sentence
        self.link.drop()
        if isinstance(error, HostKeyError):
            logger.warning("%s", error)
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
