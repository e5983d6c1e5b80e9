"""Harm done to a running console: a process frozen at a fault point, and somebody killed meanwhile."""

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

from django.db import connection

from console.embedded import leftovers
from fleet.lab import procs
from tests import services
from tests.children import Child
from tests.consoles import RunningConsole
from tests.fault_points import CONDUCTOR_POINTS, HAND_POINTS

ALL_POINTS = [*HAND_POINTS, *CONDUCTOR_POINTS]
# Who is killed, and at which points: a horse and a tick die where they stand, their owners around them.
VICTIMS = {
    "horse": HAND_POINTS,
    "worker": HAND_POINTS,
    "tick": CONDUCTOR_POINTS,
    "conductor": CONDUCTOR_POINTS,
    "beat": ALL_POINTS,
    "watch": ALL_POINTS,
    "web": ALL_POINTS,
    "postgres": ALL_POINTS,
    "valkey": ALL_POINTS,
}


class HarmedConsole:
    """A whole console, each part a process, of which one is killed while another stands at a point."""

    def __init__(self, console: RunningConsole, fault_file: Path, web_port: int):
        self.console = console
        self.web_port = web_port
        self._file = fault_file
        self._env = {"FAULT_POINT": f"@{fault_file}"}

    def start(self) -> None:
        """Two hands and the web; the conductor comes after the probes, which a test ticks by itself."""
        for _ in range(2):
            self.console.start_hand(**self._env)
        self.console.start_web(self.web_port)

    def start_conductor(self) -> None:
        self.console.start_conductor(with_beat=False, **self._env)
        self.console.start_beat()

    @property
    def _fired(self) -> Path:
        return self._file.with_name(f"{self._file.name}.fired")

    @contextlib.contextmanager
    def frozen_at(self, point: str) -> Iterator[list[int]]:
        """Freeze the first process that comes to the point; it goes on afterwards if it still lives."""
        self.console.until(lambda: self._fired.exists() and frozen_pids(), f"a freeze at {point}")
        try:
            yield frozen_pids()
        finally:
            for pid in frozen_pids():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def arm(self, point: str) -> None:
        self._fired.unlink(missing_ok=True)
        self._file.write_text(f"{point}:stop")

    def kill(self, victim: str, frozen: list[int]) -> None:
        """Kill -9 the victim and, unless its owner does so, start it again."""
        if victim in {"horse", "tick"}:
            for pid in frozen:
                os.kill(pid, signal.SIGKILL)
        elif victim in {"postgres", "valkey"}:
            services.session().kill(victim)
            services.session().start_again(victim)
            connection.close()
        else:
            self._replace(victim, frozen)

    def _replace(self, victim: str, frozen: list[int]) -> None:
        console = self.console
        group, start_another = {
            "worker": (console.hands, lambda: console.start_hand(**self._env)),
            "conductor": (
                console.conductors,
                lambda: console.start_conductor(with_beat=False, **self._env),
            ),
            "beat": (console.beats, console.start_beat),
            "watch": (console.watches, console.start_watch),
            "web": (console.webs, lambda: console.start_web(self.web_port)),
        }[victim]
        child = _owner(group, frozen)
        child.kill()
        child.wait()
        group.remove(child)
        start_another()


def _owner(group: list[Child], frozen: list[int]) -> Child:
    """The member of a group below which a process is frozen, else its first."""
    for child in group:
        if set(frozen) & set(procs.descendants(child.pid)):
            return child
    return group[0]


def frozen_pids() -> list[int]:
    """Processes of this run that are stopped."""
    marked = leftovers.find_marked([services.session().mark])
    return [pid for pid in marked if (procs.stat_fields(pid) or "?")[0] == "T"]
