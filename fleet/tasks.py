"""Celery tasks of the fleet: short ticks, safe to run twice or never, each alone by a lock of the database."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from celery import shared_task

from fleet.execution import dispatch, forget
from fleet.services.acceptance_settle import acceptances_void
from fleet.services.acceptances import acceptances_advance
from fleet.services.answers import answers_forget
from fleet.services.holds import holds_expire
from fleet.services.images_tick import images_advance
from fleet.services.network import net_runs_advance
from fleet.services.probes import probe_settle
from fleet.services.reach import reach_settle
from fleet.services.retention import probes_forget, readings_forget
from fleet.services.schedule import probes_due
from fleet.services.seal import trail_anchor, trail_seal
from fleet.services.ticks import single_flight, tick_record
from fleet.services.weights_tick import weights_advance

log = logging.getLogger(__name__)

# Of one process; with four hands at work a tick of 40 ms every 0.1 s each kept a core busy.
NUDGE_EVERY_S = 0.3
RETAIN_S = 2.0
_nudged_at = 0.0


@shared_task(name="fleet.tasks.sweep", ignore_result=True)
def sweep() -> None:
    """Put due and stale commands back into their queues, and take over those of dead hands."""
    _alone("sweep", dispatch.sweep)


@shared_task(name="fleet.tasks.tick", ignore_result=True)
def tick() -> None:
    """Settle probes and acceptances, ask who is due, end holds that ran out, follow reachability, carry copies of
    weights, pulls of images and network tests on.

    One part's failure stops no other.
    """
    failures = []
    parts: dict[str, Callable[[], Any]] = {
        "probes": _settle_probes,
        "schedule": partial(_alone, "schedule", probes_due),
        "acceptance": _advance_acceptances,
        "acceptance-void": partial(_alone, "acceptance-void", acceptances_void),
        "holds": partial(_alone, "holds", holds_expire),
        "reach": partial(_alone, "reach", reach_settle),
        "weights": partial(_alone, "weights", weights_advance),
        "images": partial(_alone, "images", images_advance),
        "network": _advance_network,
    }
    for name, part in parts.items():
        try:
            part()
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
        is_hour = trail_anchor()
        if is_hour:
            trail_seal(look_at_all=True)
            answers_forget()
            forget.subjects_forget()
    if is_hour:
        retain()


def retain() -> None:
    """Forget old probes and readings in batches, each a transaction of its own, for two seconds at most."""
    until = time.monotonic() + RETAIN_S
    for part in (probes_forget, readings_forget):
        while _alone("retention", part) and time.monotonic() < until:
            pass


def nudge(*, is_last: bool = False) -> None:
    """Ask for a tick now instead of at the next beat. Losing the request costs two seconds.

    Asked for within 0.3 s of the last one it is left out, unless nothing else will ask soon.
    """
    global _nudged_at
    if time.monotonic() - _nudged_at < NUDGE_EVERY_S and not is_last:
        return
    _nudged_at = time.monotonic()
    try:
        tick.apply_async(expires=10, retry=False)
    except Exception as error:  # the broker is away; the beat ticks anyway
        log.warning("tick not nudged: %s", error)


def _alone(name: str, part: Callable[[], int]) -> int:
    with single_flight(name) as is_mine:
        return part() if is_mine else 0


def _settle_probes() -> None:
    # Until nothing is left: whoever asked for a tick meanwhile found this one at work and went away.
    while _alone("probes", probe_settle):
        pass


def _advance_acceptances() -> None:
    while _alone("acceptance", acceptances_advance):
        pass


def _advance_network() -> None:
    # each run is a transaction of its own, under the lock of its row
    net_runs_advance()
    tick_record("network")
