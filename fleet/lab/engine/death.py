"""How a unit dies, and who says what in which order (LAB.md 4.6).

Not in charge of noticing (workers and link do) or of ordinary stops (shutdown).
"""

import asyncio
import time
from typing import TYPE_CHECKING

from .completions import DEAD
from .engine import Engine
from .generation import Aborted
from .log import Voice, glog_stamp
from .texts import traceback, uvicorn_info
from .workers import Worker

if TYPE_CHECKING:
    from .serving import Serving

WATCHDOG_S = 5.0
EXECUTOR = "v1/executor/multiproc_executor.py"
INIT_DEVICE = (
    ("v1/worker/gpu_worker.py", 251, "init_device", "init_worker_distributed_environment(...)"),
    ("distributed/parallel_state.py", 1402, "init_distributed_environment", "init_process_group()"),
)
# Which frames lie under a worker's failure, by the phase it happened in.
WORKER_FRAMES = {
    "spawn": INIT_DEVICE,
    "nccl": INIT_DEVICE,
    "load": (
        ("v1/worker/gpu_worker.py", 356, "load_model", "self.model_runner.load_model()"),
        ("model_executor/model_loader/base_loader.py", 64, "load_model", "load_weights(...)"),
    ),
    "capture": (
        ("v1/worker/gpu_worker.py", 588, "compile_or_warm_up_model", "capture_model()"),
        ("v1/worker/gpu_model_runner.py", 6740, "capture_model", "self._capture_cudagraphs(...)"),
    ),
}
EXECUTOR_FRAME = ("v1/engine/core.py", 118, "__init__", "executor_class(vllm_config)")
CORE_FRAMES = {
    "kv": ("v1/engine/core.py", 136, "__init__", "self._initialize_kv_caches(vllm_config)"),
}


class StartFailed(Exception):
    """The start cannot go on: the error text, and the worker it happened in (None: the core)."""

    def __init__(self, error: str, worker: Worker | None) -> None:
        super().__init__(error)
        self.error = error
        self.worker = worker


def oom_in_load(worker: Worker) -> StartFailed:
    """Return the failure of a rank whose weights do not fit."""
    assert worker.rank is not None
    free = 0.02 + worker.rank.local * 0.01
    return StartFailed(
        f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.25 GiB. GPU"
        f" {worker.rank.local} has a total capacity of 79.11 GiB of which {free:.2f} GiB is free."
        " Including non-PyTorch memory, this process has 79.08 GiB memory in use. Of the allocated"
        " memory 76.90 GiB is allocated by PyTorch, and 312.44 MiB is reserved by PyTorch but"
        " unallocated. If reserved but unallocated memory is large try setting"
        " PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.",
        worker,
    )


def report_start_failure(engine: Engine, failure: StartFailed) -> None:
    """Print a failed start from the worker up to the API server."""
    inner = failure.error
    if failure.worker is not None:
        stack = traceback(
            (EXECUTOR, 812, "worker_main", "worker = WorkerProc(*args, **kwargs)"),
            *WORKER_FRAMES.get(engine.failed_in, ()),
            error=failure.error,
        )
        voice = engine.voice(failure.worker, named=engine.failed_in not in ("spawn", "nccl"))
        voice.error("multiproc_executor.py:851", f"WorkerProc failed to start.\n{stack}")
        inner = (
            "Exception: WorkerProc initialization failed due to an exception in a background"
            " process. See stack trace for root cause."
        )
    core_stack = traceback(
        ("v1/engine/core.py", 1299, "run_engine_core", "engine_core = EngineCoreProc(...)"),
        CORE_FRAMES.get(engine.failed_in, EXECUTOR_FRAME),
        error=inner,
    )
    for core in engine.cores[:1]:
        core.error("core.py:1330", f"EngineCore failed to start.\n{core_stack}")
    if engine.cores:
        inner = (
            "RuntimeError: Engine core initialization failed. See root cause above."
            " Failed core proc(s): {}"
        )
    frame = ("entrypoints/cli/main.py", 75, "main", "args.dispatch_function(args)")
    engine.main.raw(traceback(frame, error=inner))


class Death:
    """Turns the loss of a process or a peer into what the real engine would do."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.serving: Serving | None = None
        self.start_task: asyncio.Task | None = None
        self.start_failure: StartFailed | None = None
        # Torch's watchdog runs in this follower: its ranks report before they miss the store.
        self.watchdog_runs = False

    # -- what happened -------------------------------------------------------------------------

    def worker_died(self, worker: Worker) -> None:
        """A process ended that nobody here ended."""
        engine = self.engine
        if engine.ended.done() or engine.phase == "dead":
            return
        engine.workers.publish()
        if worker.rank is None and not worker.is_core:
            engine.main.error("utils.py:301", f"API server process {worker.argv0} died with exit")
            engine.end(1)
        elif engine.is_starting:
            self.died_in_start(worker)
        elif worker.is_core:
            self.core_died(worker)
        else:
            self.rank_died(worker)

    def died_in_start(self, worker: Worker) -> None:
        speaker = self.core_voice(worker.dp) or self.engine.main
        if worker.rank is not None:
            speaker.error("multiproc_executor.py:285", died_line(worker))
        self.fail_start(StartFailed("RuntimeError: cancelled", None))

    def fail_start(self, failure: StartFailed) -> None:
        """Break the start off from outside its own flow."""
        self.start_failure = self.start_failure or failure
        if self.start_task is not None:
            self.start_task.cancel()

    def rank_died(self, worker: Worker) -> None:
        core = self.core_voice(worker.dp)
        (core or self.engine.main).error("multiproc_executor.py:285", died_line(worker))
        if core is None:
            # A follower: its executor ends, quietly and with success.
            self.engine.set_phase("dead")
            self.engine.link.close(graceful=False)
            self.engine.end(0)
        else:
            self.fatal(core, "RuntimeError: Executor failed.")

    def core_died(self, worker: Worker) -> None:
        """The API server finds its engine core gone."""
        for rank in self.engine.workers.ranks():
            if rank.dp == worker.dp:
                self.engine.voice(rank).info(
                    "multiproc_executor.py:843", "Parent process exited, terminating worker queues"
                )
        front = self.engine.fronts[0]
        front.warning(
            "core_client.py:817",
            "[shutdown] MPClient: engine core exited unexpectedly; starting cleanup",
        )
        client_lines(front, "default")
        self.engine_dead()

    def fatal(self, core: Voice, error: str) -> None:
        """The engine core ends by an error of its own."""
        stack = traceback(
            ("v1/engine/core.py", 1321, "run_engine_core", "engine_core.run_busy_loop()"),
            ("v1/engine/core.py", 1410, "_process_engine_step", "outputs, _ = self.step_fn()"),
            (EXECUTOR, 412, "collective_rpc", "return future.result()"),
            error=error,
        )
        core.error("core.py:1339", f"EngineCore encountered a fatal error.\n{stack}")
        self.engine_dead()

    def engine_dead(self) -> None:
        """The API server's half: streams break, health turns 503, the watchdog ends the server."""
        engine, serving = self.engine, self.serving
        if serving is None or serving.state.is_dead:
            return
        engine.set_phase("dead")
        stack = traceback(
            (
                "v1/engine/async_llm.py",
                693,
                "output_handler",
                "await engine_core.get_output_async()",
            ),
            (
                "v1/engine/core_client.py",
                1001,
                "get_output_async",
                "raise self._format_exception()",
            ),
            error=f"vllm.v1.engine.exceptions.EngineDeadError: {DEAD}",
        )
        for front in engine.fronts:
            front.error("async_llm.py:704", f"AsyncLLM output_handler failed.\n{stack}")
        serving.state.is_dead = True
        serving.generation.fail_all(Aborted(DEAD))
        engine.link.close(graceful=False)
        engine.workers.end_all()
        if engine.plan.env.get("VLLM_KEEP_ALIVE_ON_ENGINE_DEATH", "0") != "1":
            # The server's own look at its engine; stretched by no scale below the default watch.
            wait = WATCHDOG_S * min(1.0, 10 / engine.watch_scale)
            asyncio.get_running_loop().call_later(wait, self.close_server)

    def close_server(self) -> None:
        log = self.engine.log
        uvicorn_info(log, "Shutting down")
        uvicorn_info(log, "Waiting for application shutdown.")
        uvicorn_info(log, "Application shutdown complete.")
        uvicorn_info(log, f"Finished server process [\x1b[36m{self.engine.main.pid}\x1b[0m]")
        self.engine.end(0)

    def peer_lost(self, node_rank: int, graceful: bool) -> None:
        """The connection to another node of the unit ended."""
        engine = self.engine
        if engine.ended.done() or engine.phase == "dead" or self.watchdog_runs:
            return
        if engine.is_starting:
            self.store_lost_lines()
            self.fail_start(
                StartFailed(
                    "torch.distributed.DistBackendError: NCCL error in: /pytorch/torch/csrc/"
                    "distributed/c10d/ProcessGroupNCCL.cpp:3690, remote process exited or there"
                    " was a network error",
                    engine.workers.ranks()[0] if engine.workers.ranks() else None,
                )
            )
        elif engine.plan.headless:
            self.store_lost_lines()
            engine.set_phase("dead")
            engine.end(0 if graceful else 1)
        elif self.serving is not None and not self.serving.state.is_draining:
            # The head prints nothing at all: its next step waits for a rank that is gone.
            self.serving.hang.stall("rpc")

    def store_lost_lines(self) -> None:
        """c10d's complaints of a follower's workers when the head's store is gone."""
        plan = self.engine.plan
        if plan.is_head:
            return
        for worker in self.engine.workers.ranks():
            assert worker.rank is not None
            rank = worker.rank.world_rank
            self.engine.log.err(
                f"[rank{rank}]:[W{glog_stamp(time.time())} TCPStore.cpp:125] [c10d] recvValue failed"
                f" on SocketImpl(fd=89, addr=[{self.engine.node['addr']}]:{40000 + rank},"
                f" remote=[{plan.master_addr}]:{plan.master_port}): Broken pipe"
            )

    def core_voice(self, dp: int) -> Voice | None:
        return self.engine.cores[dp] if dp < len(self.engine.cores) else None


def died_line(worker: Worker) -> str:
    """Return what the executor logs about a worker that is gone."""
    number = worker.rank.rank if worker.rank is not None else 0
    return f"Worker proc VllmWorker-{number} died unexpectedly, shutting down executor."


def client_lines(front: Voice, timeout: str) -> None:
    """The engine client's clean-up, printed in every kind of end."""
    for source, text in (
        ("core_client.py:770", f"start timeout={timeout}"),
        ("core_client.py:772", "stopping engine manager"),
        ("core_client.py:774", "engine manager stopped"),
        ("core_client.py:775", "cleaning up background resources"),
        ("core_client.py:777", "complete"),
    ):
        front.info(source, f"[shutdown] MPClient: {text}")
