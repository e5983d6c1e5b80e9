"""Hands: workers that carry a short batch of commands to their nodes and write down how each went.

A job names ids and nothing else; what to do is read from the rows, so a forged, double or stale job
does no harm. Nothing waits here: what lasts runs under the shim. Not in charge of deciding anything.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
from collections.abc import Sequence
from typing import Any

import django_rq
from django.db import connections
from rq import Worker
from rq.serializers import JSONSerializer

from fleet.execution import moves
from fleet.execution.batch import Batch, Task
from fleet.execution.faults import fault_point
from fleet.execution.models import Command
from fleet.execution.signals import batch_carried

_PR_SET_PDEATHSIG = 1


class HandWorker(Worker):
    """An RQ worker whose work-horse does not outlive it."""

    def main_work_horse(self, job: Any, queue: Any) -> None:
        # Without this a horse goes on after its worker was killed, and nobody can stop it.
        worker = os.getppid()
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != worker:
            os._exit(1)
        super().main_work_horse(job, queue)

    def perform_job(self, *args: Any, **kwargs: Any) -> bool:
        try:
            return bool(super().perform_job(*args, **kwargs))
        finally:
            connections.close_all()  # the horse ends by os._exit, which says goodbye to nobody


def carry_out(ids: Sequence[int]) -> int:
    """Carry out those of these commands that are due and free; return how many were claimed."""
    owner = f"{socket.gethostname()}:{os.getpid()}:{os.urandom(3).hex()}"
    claimed = moves.commands_claim([pk for pk in ids if isinstance(pk, int)], owner)
    fault_point("claimed")
    if not claimed:
        return 0
    rows = Command.objects.select_related("host", "subject").in_bulk([one.id for one in claimed])
    tasks = [Task(rows[one.id], one) for one in claimed]
    Batch(tasks, moves.last_fence()).run()
    batch_carried.send_robust(sender=Command)
    return len(tasks)


def work(names: Sequence[str]) -> None:
    """Work on these queues, in this order, until told to stop. Raises RedisError when Redis is away."""
    queues = [django_rq.get_queue(name) for name in names]
    worker = HandWorker(queues, connection=queues[0].connection, serializer=JSONSerializer)
    worker.work(with_scheduler=False, logging_level="WARNING")
