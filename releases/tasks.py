"""Celery tasks of the releases room: short ticks, safe to run twice or never."""

import logging

from celery import Task, shared_task

from fleet.services.ticks import tick_record
from releases.services.drains import drains_advance
from releases.services.entries import entries_advance
from releases.services.gates import gates_advance
from releases.services.gateways import gateways_advance
from releases.services.launch_tick import launches_advance
from releases.services.releases import releases_settle
from releases.services.rollout_tick import rollouts_advance

log = logging.getLogger(__name__)

PARTS = {
    "launches": launches_advance,
    "gates": gates_advance,
    "entries": entries_advance,
    "drains": drains_advance,
    "gateways": gateways_advance,
    "releases": releases_settle,
    "rollouts": rollouts_advance,
}


@shared_task(name="releases.tasks.tick", ignore_result=True)
def tick() -> None:
    """Advance everything of this room by one step, and note that each ran. One part's failure stops no other."""
    failures = []
    # Each row is a transaction of its own under its lock: one that fails stops no other.
    for name, part in PARTS.items():
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
    """Judge what the open gate runs were answered, between two beats, and let in what passed."""
    gates_advance()
    entries_advance()


@shared_task(name="releases.tasks.traffic", ignore_result=True)
def traffic() -> None:
    """Order and read back what was just wanted of a gateway, between two beats."""
    drains_advance()
    gateways_advance()


def nudge_gates() -> None:
    """Ask that gate runs are looked at now. Losing the request costs two seconds."""
    _nudge(gates)


def nudge_traffic() -> None:
    """Ask that gateways are looked at now. Losing the request costs two seconds."""
    _nudge(traffic)


def _nudge(task: Task) -> None:
    try:
        task.apply_async(expires=10, retry=False)
    except Exception as error:  # the broker is away; the beat ticks anyway
        log.warning("%s not nudged: %s", task.name, error)
