"""Celery tasks of the runbooks room: short ticks, safe to run twice or never."""

import logging

from celery import shared_task

from fleet.services.ticks import tick_record
from runbooks.services.detectors import detect
from runbooks.services.run_tick import runs_advance
from runbooks.services.suspicion import suspicion_follow

log = logging.getLogger(__name__)


@shared_task(name="runbooks.tasks.tick", ignore_result=True)
def tick() -> None:
    """Open what the detectors found, advance every run by a step, and note that the tick ran."""
    try:
        suspicion_follow()
    finally:
        try:
            detect()
        finally:
            runs_advance()
    tick_record("runs")


def nudge() -> None:
    """Ask that the detectors look now. Losing the request costs two seconds."""
    try:
        tick.apply_async(expires=10, retry=False)
    except Exception as error:  # the broker is away; the beat ticks anyway
        log.warning("runbooks not nudged: %s", error)
