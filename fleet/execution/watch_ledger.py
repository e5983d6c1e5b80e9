"""The one pen of the watch: every write of its many threads is done by one thread, in order.

Readers of nodes hand in jobs and wait for them or not; a database that is away fails the jobs and is
found again by the next one. Not in charge of what is written (watch_record.py, watch_store.py).
"""

from __future__ import annotations

import logging
import queue
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from django.db import InterfaceError, OperationalError, connection

logger = logging.getLogger(__name__)

T = TypeVar("T")


class LedgerClosed(Exception):
    """The watch is ending its shift; nothing is written any more."""


class Ledger:
    """A queue of jobs for the thread that owns the database connection."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None]
        self._jobs = queue.SimpleQueue()
        self._is_closed = False

    def call(self, job: Callable[[], T], timeout_s: float = 60.0) -> T:
        """Have a job done and return its result; its exception is raised here."""
        return self.post(job).result(timeout_s)

    def post(self, job: Callable[[], T]) -> Future[T]:
        """Have a job done later. A failure is logged unless somebody asks for the result."""
        future: Future[T] = Future()
        if self._is_closed:
            future.set_exception(LedgerClosed("the watch is ending its shift"))
        else:
            self._jobs.put((future, job))
        return future

    def wake(self) -> None:
        """End the wait of `work` early."""
        self._jobs.put(None)

    def work(self, wait_s: float) -> None:
        """Do the jobs that wait; wait up to `wait_s` for the first. Only the owning thread calls this."""
        try:
            job = self._jobs.get(timeout=wait_s)
        except queue.Empty:
            return
        while True:
            if job is not None:
                self._do(*job)
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                return

    def close(self) -> None:
        """Refuse further jobs and fail those that wait."""
        self._is_closed = True
        while True:
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                return
            if job is not None:
                job[0].set_exception(LedgerClosed("the watch is ending its shift"))

    def _do(self, future: Future[Any], job: Callable[[], Any]) -> None:
        try:
            future.set_result(job())
        except Exception as error:  # of whoever asked: they get it, the ledger goes on
            drop_broken_connection(error)
            logger.warning("a job of the watch failed: %s: %s", type(error).__name__, error)
            future.set_exception(error)


def drop_broken_connection(error: Exception) -> None:
    """After a database error, make sure that the next query starts on a fresh connection."""
    if isinstance(error, OperationalError | InterfaceError):
        connection.close()
