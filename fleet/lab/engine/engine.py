"""The engine of one container: everything its parts share, its phase, and its one end.

Not in charge of start-up, serving or death themselves; those rooms get this object.
"""

import asyncio
import json
import os

from .faults import Faults
from .log import Log, Voice
from .models import ModelFiles, ModelShape, find_shape, read_model
from .plan import Plan
from .rendezvous import FollowerLink, HeadLink, Link
from .workers import Worker, Workers


class Engine:
    """What one container is: its plan, log, processes, peers and state."""

    def __init__(self, container_dir: str, config: dict, plan: Plan, log: Log, up: int) -> None:
        self.dir = container_dir
        self.config = config
        self.plan = plan
        self.log = log
        self._up = up
        self.node = config["node"]
        scales = config.get("scales") or {}
        self.launch_scale = float(scales.get("launch") or 60)
        self.watch_scale = float(scales.get("watch") or 10)
        self.serve_scale = float(scales.get("serve") or 1)
        self.seed = config.get("seed", 1)
        self.files: ModelFiles = read_model(plan.model, config.get("binds") or [])
        architecture = (self.files.config.get("architectures") or [""])[0]
        self.shape: ModelShape = find_shape(f"{self.files.slug} {plan.model}", architecture)
        unit = (config.get("labels") or {}).get("fleet.unit", "")
        self.faults = Faults(os.path.join(self.node["dir"], "faults.json"), unit)
        self.workers = Workers(container_dir, self.node["dir"], self._gpus())
        self.link: Link = self._make_link()
        self.phase = "start"
        self.failed_in = ""
        self.main = Voice(log, "APIServer" if self.serves else "", os.getpid())
        # Under data parallelism 0.23 starts as many API servers as engines (LAB.md 4.4).
        self.fronts: list[Voice] = [self.main]
        self.cores: list[Voice] = []
        self.ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def _gpus(self) -> list[int]:
        """Return the node's GPU numbers that the container's processes see, in their order."""
        given = list(self.config.get("gpus") or [])
        wish = self.plan.env.get("CUDA_VISIBLE_DEVICES", "")
        chosen = [int(word) for word in wish.split(",") if word.strip().isdigit()]
        return [given[index] for index in chosen if index < len(given)] if chosen else given

    def _make_link(self) -> Link:
        if self.plan.nnodes == 1:
            return Link()
        if self.plan.is_head:
            return HeadLink(self.plan.nnodes)
        return FollowerLink(self.plan.node_rank)

    @property
    def unit_key(self) -> str:
        """What all nodes of one launch share: seeds communicator ids and sequence numbers."""
        launch = (self.config.get("labels") or {}).get("fleet.launch", "")
        if self.plan.nnodes == 1:
            return str(self.config.get("id", ""))
        return f"{launch}/{self.plan.master_addr}:{self.plan.master_port}"

    @property
    def serves(self) -> bool:
        """Only the head has an API server, an engine core and a port."""
        return not self.plan.headless

    @property
    def is_starting(self) -> bool:
        return self.phase not in ("serving", "draining", "dead")

    def set_phase(self, phase: str) -> None:
        """Enter a phase and tell the monitor, which writes it to state.json."""
        self.phase = phase
        os.write(self._up, json.dumps({"phase": phase}).encode() + b"\n")

    def voice(self, worker: Worker, named: bool = True) -> Voice:
        """Return a worker's voice; before the groups exist it is called plain `Worker`."""
        name = worker.argv0.removeprefix("VLLM::")
        return Voice(self.log, name if named else "Worker", worker.pid)

    def rank_voices(self, named: bool = True) -> list[Voice]:
        return [self.voice(worker, named) for worker in self.workers.ranks()]

    def launch_s(self, nominal_s: float) -> float:
        """Divide a nominal start-up duration by the launch scale."""
        return nominal_s / self.launch_scale

    def watch_s(self, nominal_s: float) -> float:
        """Divide one of the engine's own time-outs by the watch scale."""
        return nominal_s / self.watch_scale

    def end(self, code: int) -> None:
        """End the container with an exit code; the first caller wins."""
        if not self.ended.done():
            self.ended.set_result(code)
