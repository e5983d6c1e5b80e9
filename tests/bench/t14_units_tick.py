"""T14: a tick that moves 1,000 units after the proxy was read back, and a tick of a rollout over as many.

A wave is one unit, so no tick of a rollout moves more than one; what moves a thousand at once is a proxy that was
read back. The peer moves the same units one after the other, each under its own lock.
"""

from __future__ import annotations

import copy
import time
from typing import Any

from django.db.models.base import ModelState

from tests.bench.ground import Ground
from tests.bench.targets import Outcome, Seconds, interleave, target

SIZES = (10, 100, 1000)
TEN_TIMES = 10_000
TICK_S, NEED = 0.050, 8.0


@target("T14")
def units_tick(ground: Ground) -> Outcome:
    ground.database  # noqa: B018
    moving, rolling = set(), set()
    for size in SIZES:
        rollout = _pool_in_rollout(size)
        rolling.add(_queries(lambda rollout=rollout: _roll(rollout)))
        _read_back(weight=100)
        moving.add(_queries(_follow))
    rolls = sorted(_timed(lambda: _roll(rollout)) for _ in range(5))
    mine, theirs = interleave(lambda: _moved(_follow), lambda: _moved(_one_by_one))
    ratio = theirs / mine
    idle = sorted(_timed(_follow) for _ in range(5))[2]
    _pool_in_rollout(TEN_TIMES)
    ten_times = sorted(_moved(_follow) for _ in range(3))[1]
    return Outcome(
        is_met=len(moving) == len(rolling) == 1 and ratio >= NEED,
        values={
            "ratio": ratio,
            "need": NEED,
            "ours": Seconds(mine),
            "peer": Seconds(theirs),
            "aim": Seconds(TICK_S),
            "idle": Seconds(idle),
            "units_10000": Seconds(ten_times),
            "queries": "/".join(map(str, sorted(moving))),
            "rollout_tick": Seconds(rolls[2]),
            "rollout_queries": "/".join(map(str, sorted(rolling))),
        },
    )


def _pool_in_rollout(size: int) -> Any:
    """Leave a pool of so many units in the tables, its rollout observing the canary."""
    from django.db import connection

    from tests.rollouts import make_world, reach, running

    tables = "execution_host, fleet_leaf, fleet_rack, fleet_pool"
    with connection.cursor() as cursor:
        cursor.execute(f"TRUNCATE {tables} CASCADE")
    world = make_world(units=2)
    rollout = running(world, observe_s=3600)
    reach(world, rollout, 0, "observing")
    _grow(rollout, size - 2)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    return rollout


def _grow(rollout: Any, count: int) -> None:
    """Add so many units like the last one to the pool and, each with a wave, to its rollout."""
    wave = rollout.waves.select_related("replica").last()
    launch = wave.replica.launches.get()
    member = wave.replica.members.get()
    hosts = _copies(member.node.host, count, name="more-{}", address="127.9.{1}.{2}")
    nodes = _copies(member.node, count, host=hosts)
    units = _copies(wave.replica, count, name="more-{}")
    _copies(member, count, node=nodes, replica=units)
    launches = _copies(launch, count, replica=units)
    _copies(launch.endpoint, count, launch=launches)
    _copies(wave, count, replica=units, number=range(10, 10 + count))


def _copies(row: Any, count: int, **fields: Any) -> list[Any]:
    """Store copies of a row; a field is a pattern with the copy's number and its two bytes, or a value for each."""
    copies = []
    for number in range(count):
        one = type(row).objects.get(pk=row.pk) if not copies else copy.copy(copies[0])
        one.pk, one._state = None, ModelState()
        for name, value in fields.items():
            is_pattern = isinstance(value, str)
            setattr(
                one,
                name,
                value.format(number, *divmod(number, 256)) if is_pattern else value[number],
            )
        copies.append(one)
    return type(row).objects.bulk_create(copies)


def _queries(act: Any) -> int:
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    with CaptureQueriesContext(connection) as seen:
        act()
    return len(seen)


def _timed(act: Any) -> float:
    started = time.perf_counter()
    act()
    return time.perf_counter() - started


def _roll(rollout: Any) -> None:
    from releases.services.rollout_tick import rollout_advance

    rollout_advance(rollout.pk)


def _read_back(weight: int) -> None:
    """Let the proxy have told of every unit that it has this weight, while the units are ready without traffic."""
    from fleet.models import Replica
    from releases.models import Endpoint

    Endpoint.objects.update(seen_weight=weight, seen_mode="ready")
    Replica.objects.filter(state__in=("serving", "draining")).update(state="ready")


def _moved(move: Any) -> float:
    from fleet.models import Replica

    _read_back(weight=100)
    took_s = _timed(move)
    assert not Replica.objects.filter(state="ready").exists(), "every unit moved"
    return took_s


def _follow() -> None:
    from releases.services.gateways import units_follow

    units_follow()


def _one_by_one() -> None:
    from fleet.models import Replica
    from fleet.services.replicas import replica_move
    from fleet.services.trail import rule_actor

    for unit in Replica.objects.filter(state="ready"):
        replica_move(replica=unit, to="serving", explanation="", actor=rule_actor("bench"))
