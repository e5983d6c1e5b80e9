"""Follows the output of one subject on its node from the stored offset to its end, whatever breaks between.

Every attempt starts from the rows: what was not stored is read again from the node's file, so nothing is
lost, repeated or renumbered. Not in charge of connecting (watch_node.py).
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fleet.execution.faults import scaled
from fleet.execution.remote import Connection
from fleet.execution.remote_body import Body
from fleet.execution.remote_errors import RemoteError, ShimRefused
from fleet.execution.watch_capture import Capture, CaptureEnded
from fleet.execution.watch_ledger import LedgerClosed
from fleet.execution.watch_lines import splice_fits
from fleet.execution.watch_store import Position

if TYPE_CHECKING:
    from fleet.execution.watch_node import NodeWatch

logger = logging.getLogger(__name__)

ANSWER_S = 20.0
_BORROW_S = 5.0
_PAUSE_FIRST_S, _PAUSE_LONGEST_S = 0.5, 5.0
_POLL_S = 2.0

_CONTINUES = "the output goes on in a new file of the node (epoch {epoch})"
_WAS_CUT = (
    "the node's file was cut from {offset} to {size} bytes; lines between may be missing here"
)
_WAS_REPLACED = "the node's file holds other text before byte {offset} than was stored; lines may be missing here"
_OUTGREW = (
    "the node gave back the output from byte {offset} to {floor}, unread: it had outgrown its cap"
)
_IS_GONE = "the node's earlier file (epoch {epoch}) is gone; lines at its end may be missing here"


@dataclass(frozen=True)
class Work:
    """A subject to be watched, and its stream."""

    subject_id: int
    name: str
    stream_id: int
    layout: tuple[tuple[str, Any], ...]
    is_open: bool  # the subject has not ended, as far as the rows know


@dataclass(frozen=True)
class Place:
    """Where reading goes on: the stored position, and what must stand before it in the node's file."""

    position: Position
    proof: bytes = b""

    @property
    def read_from(self) -> int:
        """Return the offset that covers the proof and its line end too."""
        return max(0, self.position.end_offset - len(self.proof) - 2)


class Follower(threading.Thread):
    """One thread that reads one stream. It ends when everything is stored, or when told to."""

    def __init__(self, node: NodeWatch, work: Work):
        super().__init__(name=f"follow-{work.name}", daemon=True)
        self.work = work
        self._node = node
        self._stopping = threading.Event()
        self._body: Body | None = None
        self._has_moved = False  # to another file of the subject: read it at once
        self._is_final = False  # the file that was read grows no more

    def stop(self) -> None:
        self._stopping.set()
        body = self._body
        if body is not None:
            body.close()

    def run(self) -> None:
        pause_s = _PAUSE_FIRST_S
        while not self._stopping.is_set():
            try:
                if self._follow():
                    return
                pause_s = _PAUSE_FIRST_S
            except LedgerClosed:
                return
            except (RemoteError, CaptureEnded) as error:
                logger.info("log of %s: %s; reading on from what is stored", self.work.name, error)
            except (
                Exception
            ) as error:  # of the database, mostly: the next attempt starts from the rows
                logger.warning("log of %s: %s: %s", self.work.name, type(error).__name__, error)
            if self._has_moved:
                self._has_moved = False
                continue
            self._stopping.wait(scaled(pause_s))
            pause_s = min(pause_s * 2, _PAUSE_LONGEST_S)

    def _follow(self) -> bool:
        """Read until the output ends or breaks; tell whether the stream is complete."""
        connection = self._node.link.borrow(_BORROW_S)
        capture, place = self._node.shift.open_capture(self.work)
        try:
            with self._node.link.follow_slot() as has_slot:
                is_there = self._read(connection, capture, place, follows=has_slot)
            if self._stopping.is_set():
                return False
            is_complete = self._finish(connection, capture, place, is_there)
            if not has_slot and not is_complete:
                self._stopping.wait(scaled(_POLL_S))
            return is_complete
        finally:
            self._node.shift.close_capture(capture)

    def _read(
        self, connection: Connection, capture: Capture, place: Place, *, follows: bool
    ) -> bool:
        """Feed the capture with the node's file up to its end; False when there is no such file."""
        lines = [
            f";epoch {place.position.node_epoch}",
            f";offset {place.read_from}",
            f";follow {int(follows)}",
        ]
        answer, body = connection.shim(
            "logs", self.work.name, 0, lines, deadline=ANSWER_S, stdin_open=True
        )
        self._body = body
        try:
            if answer["answer"] == "ABSENT":
                return False
            self._accept(answer, body, capture, place)
            self._is_final = answer.get("ended") is True
            for block in body:
                self._refuse_hole(connection, block, capture)
                capture.feed(block)
                if self._stopping.is_set():
                    break
        finally:
            self._body = None
            body.close()
        return True

    def _accept(self, answer: dict[str, Any], body: Body, capture: Capture, place: Place) -> None:
        """See that the file goes on where the stored lines end; if not, it is another file."""
        if answer["answer"] != "LOGS":
            why = f"{answer['answer']} {answer.get('explanation', '')}"
            raise ShimRefused(f"{self.work.name}: expected LOGS, the node answered {why}")
        epoch, size, floor = (int(answer.get(name) or 0) for name in ("epoch", "size", "floor"))
        offset, go_on = place.position.end_offset, 0
        if size < offset:
            note = _WAS_CUT.format(offset=offset, size=size)
        elif offset < floor <= size:
            note, go_on = _OUTGREW.format(offset=offset, floor=floor), floor
        elif not self._fits(body, place, floor):
            note = _WAS_REPLACED.format(offset=offset)
        else:
            return
        self._turn_to(capture, epoch, note, level="W", offset=go_on)
        raise CaptureEnded(note)

    def _fits(self, body: Body, place: Place, floor: int) -> bool:
        size = place.position.end_offset - place.read_from
        if not size:
            return True
        before = body.read_exact(size)
        # What the node has given back proves nothing any more.
        return floor > place.read_from or splice_fits(before, place.proof)

    def _refuse_hole(self, connection: Connection, block: bytes, capture: Capture) -> None:
        """Raise unless these bytes are the subject's own: what a node gave back is read as NUL bytes.

        The node announces a hole before it makes it, so a look after the bytes came cannot miss it.
        """
        if b"\0" in block:
            status = self._status(connection)
            if int(status.get("floor") or 0) > capture.read_offset:
                raise CaptureEnded(f"{self.work.name}: its output outgrew what was read of it")

    def _status(self, connection: Connection) -> dict[str, Any]:
        status, body = connection.shim("status", self.work.name, 0, [], deadline=ANSWER_S)
        body.close()
        return status

    def _finish(
        self, connection: Connection, capture: Capture, place: Place, is_there: bool
    ) -> bool:
        """The file gave no more: ask why, and close the stream when its subject has ended."""
        status = self._status(connection)
        self._node.report({self.work.subject_id: status})
        is_absent = status["answer"] == "ABSENT"
        epoch = int(status.get("epoch") or 0)
        if not is_absent and epoch != place.position.node_epoch:
            if is_there and not self._is_final:
                self._has_moved = True  # it grew until the other began: once more, to its end
                return False
            self._next_file(capture, place, epoch, is_there)
            return False
        if status["answer"] == "RUNNING" or (is_absent and self.work.is_open):
            return False
        if is_there and int(status.get("out_bytes") or 0) > capture.read_offset:
            return False
        capture.finish()
        self._node.shift.store_now(capture)
        self._node.shift.complete(self.work.stream_id)
        return True

    def _next_file(self, capture: Capture, place: Place, current: int, is_there: bool) -> None:
        """The subject was started again: read its files one after the other, up to the current one."""
        self._has_moved = True
        known = place.position.node_epoch
        epoch = known + 1 if current > known else current
        if is_there:
            capture.finish()
            self._turn_to(capture, epoch, _CONTINUES.format(epoch=epoch), level="I")
        elif place.position.end_offset:
            self._turn_to(capture, epoch, _IS_GONE.format(epoch=known), level="W")
        else:  # nothing of it was ever seen, so nothing is missing
            capture.adopt_epoch(epoch)
            self._node.shift.store_now(capture)

    def _turn_to(
        self, capture: Capture, epoch: int, note: str, *, level: str, offset: int = 0
    ) -> None:
        """Go on with another file or further on: first everything of this one, then the line that says so."""
        self._node.shift.store_now(capture)
        capture.start_epoch(epoch, note, level=level, offset=offset)
        self._node.shift.store_now(capture)
