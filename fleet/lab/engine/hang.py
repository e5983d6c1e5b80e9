"""A unit whose step never ends: the silence, the notices, and the two ways it is noticed.

`rpc` is what 0.23 does (its collectives bypass torch's watchdog); `watchdog` is the rarer picture
of an operation that torch watches. Clearing the cause does not heal a communicator.
"""

import asyncio
import signal
import time
from typing import TYPE_CHECKING

from .clock import draw
from .engine import Engine
from .log import glog_stamp
from .texts import shm_notice

if TYPE_CHECKING:
    from .death import Death
    from .serving import Serving

NOTICE_S = 60
EXECUTE_TIMEOUT_S = 300


class Hang:
    """The head's side: stalls the cores and, once a step waits, runs the time-outs."""

    def __init__(self, engine: Engine, death: "Death", serving: "Serving") -> None:
        self.engine = engine
        self.death = death
        self.serving = serving
        self.signature = ""
        self.culprit: int | None = None
        self.task: asyncio.Task | None = None

    def stall(self, signature: str, culprit: int | None = None) -> None:
        """No step will end from here on."""
        if not self.signature:
            self.signature = signature
            self.culprit = culprit
        self.serving.generation.hold(stalled=True)
        self.step_begun()

    def step_begun(self) -> None:
        """A step is in flight: if it can never end, its time-outs run from now."""
        if not self.signature or self.task is not None or not self.serving.generation.running():
            return
        loop = asyncio.get_running_loop()
        if self.signature == "watchdog":
            self.engine.link.tell(watchdog=self.culprit)
            self.task = loop.create_task(watchdog_fires(self.engine, self.culprit))
        else:
            self.task = loop.create_task(self._wait_for_rpc())

    async def _wait_for_rpc(self) -> None:
        engine = self.engine
        core = engine.cores[0]
        wish = engine.plan.env.get("VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS", "")
        limit_s = engine.watch_s(float(wish) if wish else EXECUTE_TIMEOUT_S)
        notice_s = engine.watch_s(NOTICE_S)
        waited = 0.0
        while waited + notice_s < limit_s:
            await asyncio.sleep(notice_s)
            waited += notice_s
            core.info("shm_broadcast.py:705", shm_notice(notice_s))
        await asyncio.sleep(limit_s - waited)
        core.error(
            "dump_input.py:72",
            f"Dumping input data for V1 LLM engine (v{engine.plan.version}) with config:"
            f" model={engine.plan.model!r}, tensor_parallel_size={engine.plan.tp},"
            f" pipeline_parallel_size={engine.plan.pp}",
        )
        core.error(
            "dump_input.py:79",
            "Dumping scheduler output for model execution: SchedulerOutput("
            f"num_running_reqs={self.serving.generation.running()})",
        )
        self.death.fatal(core, "TimeoutError: RPC call to sample_tokens timed out.")


async def watchdog_fires(engine: Engine, culprit: int | None) -> None:
    """Let every waiting rank of this node report the time-out and abort; the culprit is silent."""
    timeout_s = engine.watch_s(float(engine.plan.distributed_timeout_s or 600))
    began = time.monotonic()
    await asyncio.sleep(timeout_s)
    waiting = [w for w in engine.workers.ranks() if w.rank and w.rank.world_rank != culprit]
    sequence = 1_800_000 + int(draw(engine.seed, engine.unit_key) * 90_000)
    for worker in waiting:
        assert worker.rank is not None
        rank = worker.rank.world_rank
        spent = int((time.monotonic() - began) * 1000)
        size = 7340032
        head = f"[rank{rank}]:[E{glog_stamp(time.time())} ProcessGroupNCCL.cpp"
        engine.log.err(
            f"{head}:632] [Rank {rank}] Watchdog caught collective operation timeout:"
            f" WorkNCCL(SeqNum={sequence}, OpType=ALLREDUCE, NumelIn={size}, NumelOut={size},"
            f" Timeout(ms)={int(timeout_s * 1000)}) ran for {spent} milliseconds before timing out."
        )
        engine.log.err(
            f"{head}:2268] [PG ID 2 PG GUID 3 Rank {rank}] failure detected by watchdog at work"
            f" sequence id: {sequence} PG status: last enqueued work: {sequence + 3},"
            f" last completed work: {sequence - 1}"
        )
    for worker in waiting:
        engine.log.err("terminate called after throwing an instance of 'c10::DistBackendError'")
        engine.workers.signal(worker, signal.SIGABRT)


class HangFaults:
    """Applies rank.hang of this node's faults.json: stops the worker and tells the unit."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.stopped: dict[int, int] = {}

    def apply(self) -> list[tuple[str, int]]:
        """Stop and continue workers as the faults say; return new hangs as (signature, rank)."""
        wanted = {
            int(args.get("gpu", 0)): str(args.get("signature") or "rpc")
            for args in self.engine.faults.find("rank.hang")
        }
        new = []
        for gpu, signature in wanted.items():
            worker = self.engine.workers.of_gpu(gpu)
            if gpu in self.stopped or worker is None or worker.rank is None:
                continue
            self.engine.workers.signal(worker, signal.SIGSTOP)
            self.stopped[gpu] = worker.pid
            new.append((signature, worker.rank.world_rank))
        for gpu in [gpu for gpu in self.stopped if gpu not in wanted]:
            worker = self.engine.workers.of_gpu(gpu)
            if worker is not None:
                self.engine.workers.signal(worker, signal.SIGCONT)
            del self.stopped[gpu]
        return new
