"""The engine's processes: one blocked `/bin/cat` a GPU and an engine core, under vLLM's names.

A worker ends when its pipe ends, so an engine killed by -9 takes its workers along. Not in charge
of what their death means: it only tells.
"""

import json
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from .clock import rfc3339
from .plan import RankId
from .procfs import is_alive, remove_file, start_ticks, write_pid_file

CAT = "/bin/cat"


@dataclass(eq=False)
class Worker:
    """One process of the engine; `rank` is None for a core or an API server."""

    argv0: str
    pid: int
    ticks: int
    pipe: int
    pid_file: str
    rank: RankId | None = None
    dp: int = 0
    gpu: int | None = None

    @property
    def is_core(self) -> bool:
        return self.argv0.startswith("VLLM::EngineCore")

    def row(self) -> dict:
        return {
            "rank": self.rank.world_rank if self.rank else None,
            "local_rank": self.gpu,
            "pid": self.pid, "start_ticks": self.ticks, "argv0": self.argv0, "dp": self.dp,
            "pid_file": self.pid_file,
        }  # fmt: skip


class Workers:
    """Start, list, signal and reap the processes of one engine."""

    def __init__(self, container_dir: str, node_dir: str, gpus: list[int]) -> None:
        self.container_dir = container_dir
        self.node_dir = node_dir
        self.gpus = gpus
        self.living: list[Worker] = []
        self.on_death: Callable[[Worker], None] | None = None

    def start(self, name: str, rank: RankId | None = None, dp: int = 0) -> Worker:
        """Start one process named `VLLM::<name>`; it lives as long as its pipe."""
        argv0 = f"VLLM::{name}"
        read_end, write_end = os.pipe()
        null = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        # Only descriptors 0 to 2 reach the child: a sibling that held this pipe's write end
        # would keep the worker alive after its engine.
        actions = [
            (os.POSIX_SPAWN_DUP2, read_end, 0),
            (os.POSIX_SPAWN_DUP2, null, 1),
            (os.POSIX_SPAWN_DUP2, null, 2),
        ]
        pid = os.posix_spawn(self._link(argv0), [argv0], os.environ, file_actions=actions)
        os.close(read_end)
        os.close(null)
        pid_file = write_pid_file(self.node_dir, "worker", pid, argv0, rfc3339())
        worker = Worker(argv0, pid, start_ticks(pid), write_end, pid_file, rank, dp)
        if rank is not None and rank.local < len(self.gpus):
            worker.gpu = self.gpus[rank.local]
        self.living.append(worker)
        return worker

    def _link(self, argv0: str) -> str:
        """Return a symbolic link whose first 15 letters become the process's comm."""
        folder = os.path.join(self.container_dir, "exec")
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, argv0[:15])
        if not os.path.islink(path):
            os.symlink(CAT, path)
        return path

    def publish(self) -> None:
        """Write workers.json (tmp + rename) for the lab and the monitor."""
        path = os.path.join(self.container_dir, "workers.json")
        with open(path + ".new", "w", encoding="utf-8") as file:
            json.dump([worker.row() for worker in self.living], file)
        os.replace(path + ".new", path)

    def reap(self) -> None:
        """Collect ended children (call on SIGCHLD) and tell of those that nobody ended here."""
        for worker in list(self.living):
            if worker not in self.living:
                continue  # ended by the reaction to an earlier one
            try:
                pid, _ = os.waitpid(worker.pid, os.WNOHANG)
            except ChildProcessError:
                pid = worker.pid
            if pid:
                self._forget(worker)
                if self.on_death is not None:
                    self.on_death(worker)

    def ranks(self) -> list[Worker]:
        return [worker for worker in self.living if worker.rank is not None]

    def of_gpu(self, gpu: int) -> Worker | None:
        """Return the rank on a GPU of the node (not of the container)."""
        return next((worker for worker in self.ranks() if worker.gpu == gpu), None)

    def core(self, dp: int = 0) -> Worker | None:
        return next((w for w in self.living if w.is_core and w.dp == dp), None)

    def signal(self, worker: Worker, number: int) -> None:
        if is_alive(worker.pid, worker.ticks):
            os.kill(worker.pid, number)

    def end_all(self) -> None:
        """End and reap every process; their deaths are expected and not told."""
        self.on_death = None
        for worker in list(self.living):
            self.signal(worker, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(worker.pid, 0)
            self._forget(worker)
        self.publish()

    def _forget(self, worker: Worker) -> None:
        self.living.remove(worker)
        os.close(worker.pipe)
        remove_file(worker.pid_file)
