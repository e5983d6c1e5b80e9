"""A trigger that fires while Redis is away: the fleet runs on, the pages say it, and the halt comes with Redis."""

import time
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.utils import timezone

from fleet.execution.models import Command
from fleet.models import Tick
from releases.models import Drain, Endpoint, GateRun, Gateway, Launch, Rollout, Wave
from tests import services
from tests.consoles import RunningConsole
from tests.factories import make_person
from tests.rollouts import make_world, reach, running
from tests.waiting import wait_until

pytestmark = [pytest.mark.faults, pytest.mark.django_db(transaction=True)]
LONG_S = 36_000
PATIENCE_S = 60.0


@pytest.fixture
def conductor(run_child, redis_client, tmp_path) -> RunningConsole:
    """Ticks as in life, of a console whose nodes are rows."""
    console = RunningConsole(SimpleNamespace(directory=tmp_path), run_child, "")
    console.start_conductor()
    wait_until(lambda: Tick.objects.filter(name="rollouts").exists(), PATIENCE_S, "the first tick")
    return console


@pytest.fixture
def observing() -> tuple[Any, Rollout]:
    """A canary that gets its share, observed for hours."""
    world = make_world(units=2)
    rollout = running(world, observe_s=LONG_S)
    reach(world, rollout, 0, "observing")
    return world, rollout


def errors_come(world) -> None:
    """The proxy counts errors of the new release, as the watch reads them back."""
    behind = Endpoint.objects.filter(launch__release=world.new)
    for endpoint in behind:
        Endpoint.objects.filter(pk=endpoint.pk).update(
            requests=endpoint.requests + 50, errors=endpoint.errors + 10
        )


def halted(rollout: Rollout) -> bool:
    Gateway.objects.update(seen_at=timezone.now())  # the watch reads on: it needs no Redis
    rollout.refresh_from_db()
    return rollout.state == "paused"


def fleet() -> list[Any]:
    """What units are, what they get and what was ordered of them."""
    tables = (Wave, Launch, Drain, GateRun, Endpoint, Command)
    return [list(table.objects.order_by("pk").values()) for table in tables]


def test_it_halts_nothing_before_redis_is_back_and_then_it_halts(observing, conductor, client):
    world, rollout = observing
    servers = services.session()
    servers.kill("valkey")
    try:
        wait_until(stands_still, PATIENCE_S, "the ticks to stop")
        errors_come(world)
        before = fleet()
        Tick.objects.update(at=timezone.now() - timedelta(minutes=1))
        client.force_login(make_person("bo"))
        page = client.get(f"/rollouts/{rollout.public_id}/").content.decode()
        assert "nothing is decided, the fleet runs on" in page
        assert (fleet(), halted(rollout)) == (before, False)
    finally:
        servers.start_again("valkey")
    begun = time.monotonic()
    wait_until(lambda: halted(rollout), PATIENCE_S, "the halt")
    print(f"halted {time.monotonic() - begun:.1f} s after Redis answered again")
    assert "Errors of the new release" in rollout.fired


def test_a_redis_that_forgets_everything_at_that_moment_changes_nothing(
    observing, conductor, redis_client
):
    world, rollout = observing
    errors_come(world)
    redis_client.flushall()
    wait_until(lambda: halted(rollout), PATIENCE_S, "the halt")
    assert "Errors of the new release" in rollout.fired


def stands_still() -> bool:
    """Tell whether no tick has come for a second, which is five of them here."""
    newest = Tick.objects.latest("at").at
    return (timezone.now() - newest).total_seconds() > 1.0
