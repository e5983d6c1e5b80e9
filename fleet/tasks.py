"""Celery tasks of the fleet: short ticks, safe to run twice or never, each alone by a lock of the database."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from celery import shared_task

from fleet.execution import dispatch, forget
from fleet.services.answers import answers_forget
from fleet.services.holds import holds_expire
from fleet.services.probes import probe_settle
from fleet.services.reach import reach_settle
from fleet.services.seal import trail_anchor, trail_seal
from fleet.services.ticks import single_flight

log = logging.getLogger(__name__)

NUDGE_EVERY_S = 0.1
_nudged_at = 0.0


@shared_task(name="fleet.tasks.sweep", ignore_result=True)
def sweep() -> None:
    """Put due and stale commands back into their queues, and take over those of dead hands."""
    _alone("sweep", dispatch.sweep)


@shared_task(name="fleet.tasks.tick", ignore_result=True)
def tick() -> None:
    """Settle probes, end holds that ran out, and follow reachability. One part's failure stops no other."""
    failures = []
    for name, part in (("probes", probe_settle), ("holds", holds_expire), ("reach", reach_settle)):
        try:
            _alone(name, part)
        except Exception as error:
            log.exception("tick: %s failed", name)
            failures.append(error)
    if failures:
        raise failures[0]


@shared_task(name="fleet.tasks.seal_trail", ignore_result=True)
def seal_trail() -> None:
    """Chain the newest rows of the trail; once an hour look at all rows, anchor the head, forget what is old."""
    with single_flight("seal") as is_mine:
        if not is_mine:
            return
        trail_seal()
        if trail_anchor():
            trail_seal(look_at_all=True)
            answers_forget()
            forget.subjects_forget()


def nudge() -> None:
    """Ask for a tick now instead of at the next beat. Losing the request costs two seconds."""
    global _nudged_at
    if time.monotonic() - _nudged_at < NUDGE_EVERY_S:
        return
    _nudged_at = time.monotonic()
    try:
        tick.apply_async(expires=10, retry=False)
    except Exception as error:  # the broker is away; the beat ticks anyway
        log.warning("tick not nudged: %s", error)


def _alone(name: str, part: Callable[[], int]) -> None:
    with single_flight(name) as is_mine:
        if is_mine:
            part()
