"""Celery tasks of the releases room: short ticks, safe to run twice or never."""

from celery import shared_task

from fleet.services.ticks import tick_record
from releases.services.launch_tick import launches_advance


@shared_task(name="releases.tasks.tick", ignore_result=True)
def tick() -> None:
    """Advance every launch by one step, and note that the tick ran."""
    # Each launch is a transaction of its own under its row lock: one that fails stops no other.
    launches_advance()
    tick_record("launches")
