"""Celery tasks of the releases room: short ticks, safe to run twice or never."""

import logging

from celery import shared_task

from fleet.services.ticks import tick_record
from releases.services.gates import gates_advance
from releases.services.launch_tick import launches_advance

log = logging.getLogger(__name__)


@shared_task(name="releases.tasks.tick", ignore_result=True)
def tick() -> None:
    """Advance launches and gate runs by one step, and note that each ran. One part's failure stops no other."""
    failures = []
    # Each row is a transaction of its own under its lock: one that fails stops no other.
    for name, part in (("launches", launches_advance), ("gates", gates_advance)):
        try:
            part()
            tick_record(name)
        except Exception as error:
            log.exception("tick: %s failed", name)
            failures.append(error)
    if failures:
        raise failures[0]


@shared_task(name="releases.tasks.gates", ignore_result=True)
def gates() -> None:
    """Judge what the open gate runs were answered, between two beats."""
    gates_advance()


def nudge_gates() -> None:
    """Ask that gate runs are looked at now. Losing the request costs two seconds."""
    try:
        gates.apply_async(expires=10, retry=False)
    except Exception as error:  # the broker is away; the beat ticks anyway
        log.warning("gates not nudged: %s", error)
