"""One tenure of the lease: everything that runs while this process is the watch, and the one pen it shares.

Starts a thread a node, stores what they read, judges reachability, runs the scrapes. Ends whole when the
lease is lost. Not in charge of getting the lease (watch.py).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.conf import settings
from django.db import connections

from fleet.execution import watch_plan, watch_record
from fleet.execution.adopt import host_adopt
from fleet.execution.faults import scaled
from fleet.execution.message import said, say
from fleet.execution.models import Host, LogStream
from fleet.execution.remote import Connection
from fleet.execution.remote_errors import HostKeyError
from fleet.execution.results import host_key_seen
from fleet.execution.watch_adopt import read_list
from fleet.execution.watch_capture import Capture, Classify, Redact
from fleet.execution.watch_follow import Place, Work
from fleet.execution.watch_frames import FrameSender
from fleet.execution.watch_lease import RENEW_EVERY_S, Fence, LeaseLost
from fleet.execution.watch_ledger import Ledger, drop_broken_connection
from fleet.execution.watch_lines import splice_proof
from fleet.execution.watch_node import NodeWatch
from fleet.execution.watch_notes import Gathered, started_again
from fleet.execution.watch_reach import OK, PERIOD_S, AwakeClock, count_misses, judge_reach
from fleet.execution.watch_scraper import Scraper
from fleet.execution.watch_store import Superseded, last_line_ms, open_writer

logger = logging.getLogger(__name__)

STORE_EVERY_S = 0.5  # the design asks for 1 s at most
PLAN_EVERY_S = 1.0
_STALL_S = 5.0
_CALL_S = 60.0
_HEARTBEAT_S = 5.0


@dataclass(frozen=True)
class Tools:
    """What the kernel may not import: how lines are read and what is secret."""

    classifier_of: Callable[[dict[str, Any]], Classify]
    redactor_of: Callable[[list[str]], Redact]


class Shift:
    """The watch at work under one fence."""

    def __init__(self, fence: Fence, tools: Tools):
        self.fence = fence
        self.tools = tools
        self.ledger = Ledger()
        self.awake = AwakeClock(max(0.5, scaled(_STALL_S)))
        self._nodes: dict[int, NodeWatch] = {}
        self._captures: dict[int, Capture] = {}
        self._guard = threading.Lock()
        self._frames = FrameSender(settings.STREAMS_REDIS_URL, self.captures)
        self._scraper = Scraper(self)
        self._ending = threading.Event()
        self._lost = False
        self._due = {"plan": 0.0, "store": 0.0, "reach": 0.0, "beat": 0.0, "tell": 0.0}
        self._said_reach: dict[int, tuple[str, int]] = {}
        self._started_again = Gathered()

    def run(self, stopping: threading.Event) -> None:
        """Work until told to stop or the lease is lost; every thread has ended when this returns."""
        self._frames.start()
        keepers = [
            threading.Thread(target=target, name=name, daemon=True)
            for name, target in (("awake", self._keep_awake), ("lease", self._keep_lease))
        ]
        for keeper in keepers:
            keeper.start()
        try:
            while not stopping.is_set() and not self._lost:
                self._turn()
        finally:
            self._end(keepers)

    # the main thread: the ledger and what is due

    def _turn(self) -> None:
        self.ledger.work(wait_s=0.1)
        for name, every_s, act in (
            ("store", STORE_EVERY_S, self._store_all),
            ("plan", scaled(PLAN_EVERY_S), self._plan),
            ("reach", scaled(PLAN_EVERY_S), self._judge),
            ("beat", scaled(_HEARTBEAT_S), self._beat),
            ("tell", PLAN_EVERY_S, self._tell),
        ):
            if time.monotonic() < self._due[name]:
                continue
            self._due[name] = time.monotonic() + every_s
            try:
                act()
            except Exception as error:  # of the database: nothing is judged, all is tried again
                drop_broken_connection(error)
                logger.warning("the watch could not %s: %s: %s", name, type(error).__name__, error)

    def _plan(self) -> None:
        """Read from the rows which nodes and subjects are to be watched."""
        plan = watch_plan.read_plan()
        for pk in [pk for pk, node in self._nodes.items() if not plan.keeps(node.host)]:
            self._nodes.pop(pk).stop()
        for pk, host in plan.hosts.items():
            if pk not in self._nodes:
                self._nodes[pk] = NodeWatch(host, self)
                self._nodes[pk].start()
            self._nodes[pk].assign(plan.work.get(pk, ()))
        self._scraper.run_due(plan.scrapes, self._nodes)

    def _store_all(self) -> None:
        for capture in self.captures():
            try:
                capture.store()
            except Superseded as error:
                logger.warning("%s", error)
                self.fence.check()
            except Exception as error:
                drop_broken_connection(error)
                logger.warning("lines wait to be read again: %s: %s", type(error).__name__, error)

    def _judge(self) -> None:
        """Write which nodes answered and which are silent; nothing was judged while we slept."""
        answered = [pk for pk, node in self._nodes.items() if node.take_news()]
        if answered:
            watch_record.record_answers(self.fence, answered)
            for pk in answered:
                self._said_reach.pop(pk, None)
        for pk, node in self._nodes.items():
            silent_s = node.silent_s
            misses = count_misses(silent_s, scaled(PERIOD_S))
            said = judge_reach(silent_s, scaled(PERIOD_S)), misses
            if misses and self._said_reach.get(pk) != said:
                self._said_reach[pk] = said
                self._record_silence(node, *said)

    def _record_silence(self, node: NodeWatch, reach: str, misses: int) -> None:
        why = node.silence_why or say("no answer")
        watch_record.record_silence(self.fence, node.host.pk, reach, misses, why)
        if reach != OK:
            logger.warning("%s is %s after %s misses: %s", node.host.name, reach, misses, said(why))

    def _beat(self) -> None:
        watch_record.record_heartbeat(self.fence, [one.stream_id for one in self.captures()])

    def _tell(self, *, is_last_call: bool = False) -> None:
        if names := self._started_again.take(is_last_call=is_last_call):
            logger.warning("%s", started_again(names))

    def _end(self, keepers: list[threading.Thread]) -> None:
        self._ending.set()
        for node in self._nodes.values():
            node.stop()
        self._scraper.stop()
        if not self._lost:
            self._store_all()
            self.ledger.work(wait_s=0)
        self._tell(is_last_call=True)
        for capture in self.captures():
            capture.end(LeaseLost("the watch ended its shift"))
        self.ledger.close()
        self._frames.stop()
        for thread in (*keepers, *self._nodes.values(), self._frames):
            thread.join(timeout=2.0)

    # the threads that keep the shift alive

    def _keep_awake(self) -> None:
        while not self._ending.wait(self.awake.stall_s / 10):
            stall_s = self.awake.tick()
            if stall_s:
                logger.warning(
                    "this process stood still for %.1f s; nothing is judged of it", stall_s
                )

    def _keep_lease(self) -> None:
        while not self._ending.wait(scaled(RENEW_EVERY_S)):
            try:
                self.fence.renew()
            except LeaseLost as error:
                logger.warning("%s", error)
                self._lost = True
                self.ledger.wake()
                break
            except Exception as error:
                drop_broken_connection(error)
                logger.warning("the lease could not be renewed: %s", error)
        connections.close_all()

    # what the threads of nodes ask for

    def captures(self) -> list[Capture]:
        with self._guard:
            return list(self._captures.values())

    def open_capture(self, work: Work) -> tuple[Capture, Place]:
        """Resume a stream from its rows; its lines flow to both stores until it is closed."""
        capture, place = self.ledger.call(partial(self._open, work), _CALL_S)
        capture.on_lines = self._frames.wake
        capture.on_much = self._store_soon
        with self._guard:
            self._captures[work.stream_id] = capture
        return capture, place

    def _open(self, work: Work) -> tuple[Capture, Place]:
        self.fence.check()
        writer, texts = open_writer(work.stream_id, self.fence)
        row = LogStream.objects.only("last_line_at").get(pk=work.stream_id)
        classify = self.tools.classifier_of(dict(work.layout))
        for text in texts:
            classify(text)
        capture = Capture(
            writer,
            classify=classify,
            redact=self.tools.redactor_of(texts),
            last_ms=last_line_ms(row.last_line_at),
        )
        return capture, Place(writer.position, splice_proof(texts[-1]) if texts else b"")

    def close_capture(self, capture: Capture) -> None:
        """Store what is left and stop the flow. Lines that could not be stored are read again later."""
        with self._guard:
            if self._captures.get(capture.stream_id) is capture:
                del self._captures[capture.stream_id]
        if not self._ending.is_set():
            self.ledger.post(capture.store).add_done_callback(
                lambda _: capture.end(LeaseLost("the capture was closed"))
            )

    def _store_soon(self) -> None:
        self._due["store"] = 0.0
        self.ledger.wake()

    def store_now(self, capture: Capture) -> None:
        """Store what a capture holds, and wait for it."""
        self.ledger.call(capture.store, _CALL_S)

    def complete(self, stream_id: int) -> None:
        self.ledger.call(partial(watch_record.record_complete, self.fence, stream_id), _CALL_S)

    def record_statuses(self, statuses: Mapping[int, dict[str, Any]]) -> None:
        self.ledger.post(partial(watch_record.record_statuses, self.fence, dict(statuses)))

    def record_key(self, host: Host, error: HostKeyError) -> None:
        self.ledger.post(partial(host_key_seen, host, error))

    def adopt(self, host: Host, connection: Connection) -> None:
        """Compare what the node lists with the rows; a failure of ours is tried again at the next scan."""
        answer, found = read_list(connection)
        self.ledger.post(partial(self._adopt, host, answer, found))

    def _adopt(self, host: Host, answer: dict[str, Any], found: list[dict[str, Any]]) -> None:
        self.fence.check()
        if watch_record.record_boot(self.fence, host.pk, str(answer.get("boot_id", ""))):
            self._started_again.add(host.name)
        host_adopt(host, answer, found)
