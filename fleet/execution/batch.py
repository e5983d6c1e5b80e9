"""A batch of claimed commands on its way: threads dial the nodes, one thread speaks with the database.

What is not ours any more is not sent and not written. Not in charge of claiming (hands.py) nor of
what a result becomes (results.py).
"""

from __future__ import annotations

import logging
import queue
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from django.db import DatabaseError, InterfaceError, OperationalError, connection

from fleet.execution import moves, states
from fleet.execution.faults import fault_point, scaled
from fleet.execution.links import Links
from fleet.execution.message import say
from fleet.execution.models import Command
from fleet.execution.remote import Connection, RemoteError, Unreachable
from fleet.execution.results import Result, result_of_error, result_of_outcome, results_store
from fleet.execution.verbs import DO, FIND_OUT, UNDO, Call, carry_out
from fleet.execution.verdicts import AnswerLies, Outcome
from fleet.execution.wire import WireError

logger = logging.getLogger(__name__)

BEAT_S = 5.0
DIALS = 64
# How often a call that changes nothing is made in one attempt, when its connection breaks under it.
HARMLESS_CALLS = 3

Found = TypeVar("Found")


class LeaseGone(Exception):
    """The database was away for as long as the lease lasts: somebody else has the commands."""


class NotOurs(Exception):
    """The command was taken over before anything was sent."""


class CancelledUnsent(Exception):
    """The command was cancelled before anything was sent."""


class Task:
    """One claimed command on its way."""

    def __init__(self, command: Command, claimed: moves.Claimed) -> None:
        self.command = command
        self.claimed = claimed
        self.begun = time.monotonic()
        # Set by the beat, read by the thread that dials.
        self.is_cancelled = claimed.is_cancelled
        self.is_sent = command.sent_at is not None

    @property
    def mode(self) -> str:
        if self.is_cancelled and self.command.verb == "start":
            return UNDO
        return FIND_OUT if self.claimed.is_late and self.command.verb == "start" else DO

    @property
    def left_s(self) -> float | None:
        """Return the seconds until it is given up, None for never."""
        left_s = self.claimed.left_s
        return None if left_s is None else left_s - (time.monotonic() - self.begun)

    @property
    def is_over(self) -> str:
        """Return why nothing needs to be sent any more, or nothing."""
        if self.is_sent or self.command.verb == "stop":
            return ""
        if self.is_cancelled:
            return states.CANCELLED
        return states.FAILED if self.claimed.is_late else ""


class Batch:
    """Dials the nodes of a batch with threads; this thread alone speaks with the database.

    It beats for all, lets the threads send only what is still ours, and writes results as they come.
    """

    def __init__(self, tasks: Sequence[Task], last_fence: int) -> None:
        self.open = {task.command.pk: task for task in tasks}
        self.last_fence = last_fence
        self.links = Links()
        self.inbox: queue.SimpleQueue[Result | Permit] = queue.SimpleQueue()
        self.lease_until = time.monotonic() + scaled(moves.LEASE_S)

    def run(self) -> None:
        """Return when every command is settled or somebody else's."""
        pool = ThreadPoolExecutor(min(DIALS, len(self.open)), thread_name_prefix="dial")
        try:
            for task in list(self.open.values()):
                pool.submit(self._dial, task)
            self._serve()
        finally:
            self._refuse_permits()
            self.links.close()
            pool.shutdown(wait=False, cancel_futures=True)

    # the thread of the database

    def _serve(self) -> None:
        beat_at = time.monotonic() + scaled(BEAT_S)
        while self.open:
            items = list(self._take(beat_at - time.monotonic()))
            permits = [item for item in items if isinstance(item, Permit)]
            results = [item for item in items if isinstance(item, Result)]
            if permits:
                self._permit(permits)
            if results:
                self._settle(results)
            if time.monotonic() >= beat_at:
                self._beat()
                beat_at = time.monotonic() + scaled(BEAT_S)

    def _take(self, wait_s: float) -> Iterator[Result | Permit]:
        try:
            yield self.inbox.get(timeout=max(0.0, wait_s))
            while True:
                yield self.inbox.get_nowait()
        except queue.Empty:
            return

    def _permit(self, permits: Sequence[Permit]) -> None:
        mine = [(one.task.command.pk, one.task.claimed.fence, one.state) for one in permits]
        allowed = self._insist(lambda: moves.commands_permit(mine))
        if len(allowed) < len(mine):
            self._beat()  # taken over, or cancelled: the threads must know which
        for one in permits:
            one.answer.set_result(one.task.command.pk in allowed)

    def _settle(self, results: Sequence[Result]) -> None:
        held = [result for result in results if result.settlement.id in self.open]
        try:
            self._insist(lambda: results_store(held))
        except DatabaseError:
            logger.exception("results cannot be stored together; one after the other")
            for result in held:
                self._settle_alone(result)
        for result in held:
            # Written, or taken over: in both cases it is not ours any more.
            self.open.pop(result.settlement.id, None)

    def _settle_alone(self, result: Result) -> None:
        try:
            self._insist(lambda: results_store([result]))
        except DatabaseError as error:
            broken = _broken(self.open[result.settlement.id], error)
            self._insist(lambda: results_store([broken]))

    def _beat(self) -> None:
        held = {pk: task.claimed.fence for pk, task in self.open.items()}
        begun = time.monotonic()
        ours = self._insist(lambda: moves.commands_beat(held))
        self.lease_until = begun + scaled(moves.LEASE_S)
        for pk in set(self.open) - set(ours):
            logger.warning("command %s was taken over", pk)
            del self.open[pk]
        harmless = []
        for pk, is_cancelled in ours.items():
            task = self.open[pk]
            task.is_cancelled |= is_cancelled
            if task.is_cancelled and task.command.effect == "probe":
                harmless.append(_cancelled(task))
        if harmless:
            self._settle(harmless)

    def _insist(self, act: Callable[[], Found]) -> Found:
        """Do something with the database, again and again while it is away and the lease lasts."""
        while True:
            try:
                return act()
            except (OperationalError, InterfaceError) as error:
                if time.monotonic() >= self.lease_until:
                    raise LeaseGone("the database was away for longer than the lease") from error
                logger.warning("the database is away: %s", str(error).partition("\n")[0])
                connection.close()
                time.sleep(scaled(0.5))

    def _refuse_permits(self) -> None:
        self.open.clear()
        for item in self._take(0.0):
            if isinstance(item, Permit):
                item.answer.set_result(False)

    # the threads that dial

    def _dial(self, task: Task) -> None:
        try:
            result = self._carry_out(task)
        except NotOurs:
            return
        except CancelledUnsent:
            result = _cancelled(task)
        except Exception as error:  # a mistake of ours must settle the command, not hang it
            logger.exception("command %s failed inside the console", task.command.pk)
            result = _broken(task, error)
        fault_point("answer-read")
        self.inbox.put(result)

    def _carry_out(self, task: Task) -> Result:
        if over := task.is_over:
            return _cancelled(task) if over == states.CANCELLED else _too_late(task)
        try:
            outcome = self._connect_and_call(task)
        except (RemoteError, AnswerLies, WireError) as error:
            return result_of_error(task, error)
        return result_of_outcome(task, outcome)

    def _connect_and_call(self, task: Task) -> Outcome:
        calls = HARMLESS_CALLS if task.command.effect == "probe" else 1
        while True:
            calls -= 1
            link = self.links.get(task.command.host)
            fault_point("connected")
            try:
                outcome = self._call(task, link)
                if task.is_cancelled and outcome.state == states.SUCCEEDED and task.mode == UNDO:
                    outcome = self._call(task, link)
                return outcome
            except Unreachable as error:
                # The node answered a moment ago and only this connection broke: dial anew at once.
                if not calls or task.is_cancelled or link.is_alive:
                    raise
                logger.info("command %s: %s; asked again", task.command.pk, error)

    def _call(self, task: Task, link: Connection) -> Outcome:
        mode = task.mode
        if task.command.effect != "probe" and mode != FIND_OUT:
            mode = self._ask_permit(task, mode)
        return carry_out(link, Call(task.command, task.claimed.fence, self.last_fence, mode))

    def _ask_permit(self, task: Task, mode: str) -> str:
        """Return what may be sent; a cancel that came meanwhile turns a start that was sent into a stop."""
        if self._may(task, states.STOPPING if mode == UNDO else states.RUNNING):
            return mode
        if not task.is_cancelled:
            raise NotOurs
        if not task.is_sent:
            raise CancelledUnsent
        if mode == UNDO or not self._may(task, states.STOPPING):
            raise NotOurs
        return UNDO

    def _may(self, task: Task, state: str) -> bool:
        permit = Permit(task, state)
        self.inbox.put(permit)
        is_allowed = permit.answer.result()
        task.is_sent |= is_allowed
        fault_point("permitted")
        return is_allowed


class Permit:
    """A thread's question whether it may send now."""

    def __init__(self, task: Task, state: str) -> None:
        self.task = task
        self.state = state
        self.answer: Future[bool] = Future()


def _cancelled(task: Task) -> Result:
    return Result(
        moves.Settlement(
            task.command.pk,
            task.claimed.fence,
            states.CANCELLED,
            say("cancelled; nothing on the node was changed by it"),
        ),
        task.command,
    )


def _too_late(task: Task) -> Result:
    within = f"{task.command.deadline_s:g}"
    why = say("not begun within its %(seconds)s s; nothing was sent to the node", seconds=within)
    if before := task.command.explanation:
        why = say("%(why)s. Before: %(before)s", why=why, before=before)
    settlement = moves.Settlement(task.command.pk, task.claimed.fence, states.FAILED, why)
    return Result(settlement, task.command)


def _broken(task: Task, error: Exception) -> Result:
    state = states.UNKNOWN if task.is_sent else states.FAILED
    found = f"{type(error).__name__}: {error}"[:500]
    why = say("a fault of the console, not of the node: %(found)s", found=found)
    settlement = moves.Settlement(task.command.pk, task.claimed.fence, state, why, due_in_s=300.0)
    return Result(settlement, task.command)
