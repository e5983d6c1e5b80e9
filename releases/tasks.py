"""Celery tasks of the releases room: short ticks, safe to run twice or never."""

from celery import shared_task

from fleet.services.ticks import single_flight
from releases.services.launch_tick import launches_advance


@shared_task(name="releases.tasks.tick", ignore_result=True)
def tick() -> None:
    with single_flight("launches") as is_mine:
        if is_mine:
            launches_advance()
