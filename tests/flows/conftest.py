"""Fixtures of the flows: a console over the lab's nodes, its unit, and a launch that is ready."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.consoles import RunningConsole


@pytest.fixture
def time_scale() -> float:
    """How much faster the console's clock runs; a test that restarts processes has a slower one of its own."""
    return 10.0


@pytest.fixture
def bare_console(
    lab, run_child, redis_client, transactional_db, settings, time_scale
) -> RunningConsole:
    """Seeded nodes and the watch; no hand yet."""
    from django.core.management import call_command

    from fleet.models import ProbeSchedule

    settings.TIME_SCALE = time_scale
    settings.IS_REHEARSAL = True
    call_command("seed", inventory=str(lab.directory / "inventory.json"))
    # Nobody probes by schedule: on this clock it would be every 54 s, beside what a test asks for.
    ProbeSchedule.objects.create(pk=1, every_s=0)
    running = RunningConsole(lab, run_child, str(lab.key_path), time_scale)
    running.start_watch()
    return running


@pytest.fixture
def console(bare_console) -> RunningConsole:
    """Probed nodes, two hands and the watch."""
    bare_console.start_hand()
    bare_console.start_hand()
    probe_all(bare_console)
    return bare_console


def probe_all(console: RunningConsole) -> None:
    """Probe all nodes as Ana would and wait until they may be used."""
    from django.contrib.auth import get_user_model

    from fleet.models import Node
    from fleet.services.probes import probe_start
    from fleet.services.trail import Actor

    ana = get_user_model().objects.get(username="ana")
    probe_start(nodes=list(Node.objects.all()), actor=Actor(name="ana"), user=ana)
    console.until(
        lambda: not Node.objects.exclude(state="ready", host__reach="ok").exists(),
        "all nodes to be ready and reachable",
    )


@pytest.fixture
def unit(console):
    from fleet.models import Replica

    return Replica.objects.get(pool__slug="glm52")


@pytest.fixture
def launch_unit(console, unit) -> Callable[[], Any]:
    """Ask for a launch of the unit as Ana would."""
    from fleet.services.trail import Actor
    from releases.selectors.releases import release_to_launch
    from releases.services.launches import launch_create

    def launch():
        release = release_to_launch(unit.pool)
        return launch_create(replica=unit, release=release, actor=Actor(name="ana"))

    return launch


@pytest.fixture
def ready_launch(console, launch_unit):
    """A unit that proved to be ready."""
    from releases.models import Launch

    launch = launch_unit()

    def is_ready() -> bool:
        launch.refresh_from_db()
        assert launch.state in Launch.LIVE, launch.cause
        return launch.state == "ready"

    console.until(is_ready, "the unit to be ready")
    return launch
