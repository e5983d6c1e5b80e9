"""The watch: one process sees what nodes do. It waits for the lease, works a shift under it, and waits again.

A second one stands by and takes over within the lease's 30 s. Losing the lease ends the shift, not the process.
"""

from __future__ import annotations

import logging
import signal
import threading
from types import FrameType

from fleet.execution.faults import scaled
from fleet.execution.watch_lease import RENEW_EVERY_S, Fence, lease_claim, process_name
from fleet.execution.watch_ledger import drop_broken_connection
from fleet.execution.watch_shift import Shift, Tools

logger = logging.getLogger(__name__)


class Watch:
    """Runs shifts until stopped."""

    def __init__(self, tools: Tools, owner: str = ""):
        self.owner = owner or process_name()
        self._tools = tools
        self._stopping = threading.Event()

    def stop(self, number: int = 0, frame: FrameType | None = None) -> None:
        """End the shift and return from `run`; fits as a signal handler."""
        self._stopping.set()

    def run(self) -> None:
        """Work until stopped."""
        while not self._stopping.is_set():
            fence = self._claim()
            if fence is None:
                self._stopping.wait(scaled(RENEW_EVERY_S) / 5)
                continue
            logger.info("%s is the watch, fence %s", self.owner, fence.number)
            try:
                Shift(fence, self._tools).run(self._stopping)
            finally:
                self._release(fence)

    def _claim(self) -> Fence | None:
        try:
            return lease_claim(self.owner)
        except Exception as error:  # the database is away: ask again
            drop_broken_connection(error)
            logger.warning("the lease cannot be asked for: %s", error)
            return None

    def _release(self, fence: Fence) -> None:
        try:
            fence.release()
        except Exception as error:
            drop_broken_connection(error)
            logger.warning("the lease was not given back, it runs out by itself: %s", error)


def watch_forever(tools: Tools) -> None:
    """Run the watch in this process until SIGTERM or SIGINT."""
    watch = Watch(tools)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, watch.stop)
    watch.run()
