"""A console over a two-node lab: real hands and a real watch as processes, the ticks driven by the test."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.children import Child
from tests.waiting import wait_until

TICK_TIMEOUT_S = 60.0


@dataclass
class RunningConsole:
    """The processes over one lab. `until` ticks like a conductor does until the predicate holds."""

    lab: Any
    run_child: Callable[..., Child]
    key_file: str
    hands: list[Child] = field(default_factory=list)
    watches: list[Child] = field(default_factory=list)

    def start_hand(self, **env: str) -> Child:
        self.hands.append(self._start("hands", **env))
        return self.hands[-1]

    def start_watch(self, **env: str) -> Child:
        self.watches.append(self._start("watch", **env))
        return self.watches[-1]

    def _start(self, command: str, **env: str) -> Child:
        return self.run_child(
            ["manage.py", command], SSH_KEY_FILE=self.key_file, LAB="1", TIME_SCALE="10", **env
        )

    def tick(self) -> None:
        from fleet import tasks
        from releases.services.launch_tick import launches_advance

        tasks.sweep()
        tasks.tick()
        launches_advance()

    def until(self, predicate: Callable[[], Any], what: str, timeout_s: float = TICK_TIMEOUT_S):
        """Tick and look until `predicate()` is true; its value comes back."""

        def tick_and_look() -> Any:
            self.tick()
            return predicate()

        try:
            return wait_until(tick_and_look, timeout_s=timeout_s, what=what)
        except AssertionError as late:
            raise AssertionError(f"{late}\n{self.report()}") from None

    def report(self) -> str:
        """What the database and the processes say: read when a wait was in vain."""
        from fleet.execution.models import Command, Host, Subject

        rows = [
            *(f"{h} {h.key_state} {h.reach} {h.explanation}" for h in Host.objects.all()),
            *(f"{c.state} {c.purpose}: {c.explanation}" for c in Command.objects.order_by("id")),
            *(f"{s.state} {s}: {s.explanation}" for s in Subject.objects.all()),
            *(f"--- {child.args}\n{child.log[-2000:]}" for child in (*self.hands, *self.watches)),
        ]
        return "\n".join(rows)


@pytest.fixture
def console(lab, run_child, redis_client, transactional_db, settings) -> RunningConsole:
    """Two seeded and probed nodes, two hands and the watch; time runs ten times as fast."""
    from django.core.management import call_command

    settings.TIME_SCALE = 10.0
    settings.IS_REHEARSAL = True
    call_command("seed", inventory=str(lab.directory / "inventory.json"))
    running = RunningConsole(lab, run_child, str(lab.key_path))
    running.start_hand()
    running.start_hand()
    running.start_watch()
    probe_all(running)
    return running


def probe_all(console: RunningConsole) -> None:
    from django.contrib.auth import get_user_model

    from fleet.models import Node
    from fleet.services.probes import probe_start
    from fleet.services.trail import Actor

    ana = get_user_model().objects.get(username="ana")
    probe_start(nodes=list(Node.objects.all()), actor=Actor(name="ana"), user=ana)
    console.until(
        lambda: not Node.objects.exclude(state="ready", host__reach="ok").exists(),
        "both nodes to be ready and reachable",
    )


@pytest.fixture
def unit(console):
    from fleet.models import Replica

    return Replica.objects.get(pool__slug="glm52")


@pytest.fixture
def launch_unit(console, unit) -> Callable[[], Any]:
    """Ask for a launch of the unit as Ana would."""
    from fleet.services.trail import Actor
    from releases.models import Release
    from releases.services.launches import launch_create

    def launch():
        release = Release.objects.get(pool=unit.pool)
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
