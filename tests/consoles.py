"""A console over a two-node lab: real hands and a real watch as processes.

The ticks are driven by the test, or by real conductors when the test starts them.
"""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.children import Child
from tests.waiting import wait_until

TIMEOUT_S = 180.0  # patience with a busy machine; a quiet one needs seconds


@dataclass
class RunningConsole:
    """The processes over one lab. `until` ticks like a conductor does until the predicate holds."""

    lab: Any
    run_child: Callable[..., Child]
    key_file: str
    time_scale: float = 10.0
    hands: list[Child] = field(default_factory=list)
    watches: list[Child] = field(default_factory=list)
    conductors: list[Child] = field(default_factory=list)
    beats: list[Child] = field(default_factory=list)
    webs: list[Child] = field(default_factory=list)

    def start_hand(self, **env: str) -> Child:
        self.hands.append(self._start("hands", **env))
        return self.hands[-1]

    def start_watch(self, **env: str) -> Child:
        self.watches.append(self._start("watch", **env))
        return self.watches[-1]

    def start_conductor(self, *, with_beat: bool = True, **env: str) -> Child:
        """A Celery worker, with beat inside or beside it; from now on the test only looks."""
        words = ["worker", "--pool=prefork", "-c", "1", "--without-gossip", "--without-mingle"]
        words += ["--beat", *self._schedule()] if with_beat else []
        self.conductors.append(self._celery(*words, **env))
        return self.conductors[-1]

    def start_beat(self) -> Child:
        """The beat as a process of its own, for conductors that have none."""
        words = ["beat", "--max-interval", "1", "--pidfile=", *self._schedule()]
        self.beats.append(self._celery(*words))
        return self.beats[-1]

    def start_web(self, port: int, **env: str) -> Child:
        argv = [sys.executable, "-m", "uvicorn", "console.asgi:application", "--host", "127.0.0.1"]
        argv += ["--port", str(port), "--log-level", "warning"]
        self.webs.append(self._run(argv, PORT=str(port), **env))
        return self.webs[-1]

    def _celery(self, *words: str, **env: str) -> Child:
        argv = [sys.executable, "-W", "ignore", "-m", "celery", "--quiet", "-A", "console.celery"]
        return self._run([*argv, *words], **env)

    def _schedule(self) -> list[str]:
        number = len(self.conductors) + len(self.beats)
        return ["--schedule", str(Path(self.lab.directory) / f"beat-{number}")]

    def _start(self, command: str, **env: str) -> Child:
        return self._run(["manage.py", command], **env)

    def _run(self, argv: list[str], **env: str) -> Child:
        scale = str(self.time_scale)
        return self.run_child(argv, SSH_KEY_FILE=self.key_file, LAB="1", TIME_SCALE=scale, **env)

    def tick(self) -> None:
        from fleet import tasks
        from releases import tasks as releases
        from runbooks import tasks as runbooks

        tasks.sweep()
        tasks.tick()
        releases.tick()
        runbooks.tick()

    def until(self, predicate: Callable[[], Any], what: str, timeout_s: float = TIMEOUT_S):
        """Tick and look until `predicate()` is true; its value comes back."""

        def tick_and_look() -> Any:
            begun = time.monotonic()
            if not self.conductors:
                self.tick()
            found = predicate()
            if not found:
                # Half of the time for the hands, the watch and the nodes, which may have no other core.
                time.sleep(time.monotonic() - begun)
            return found

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
            *(
                f"--- {child.args}\n{child.log[-2000:]}"
                for child in (*self.hands, *self.watches, *self.conductors, *self.beats, *self.webs)
            ),
        ]
        return "\n".join(rows)
