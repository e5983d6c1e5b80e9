"""The start-up of one node: phases, their seeded durations, barriers with the other nodes.

What is printed lies in startup_lines and nccl_lines; here is only the order and the time.
"""

import asyncio
import os
import time

from . import memory, nccl_lines, startup_lines
from .clock import jitter
from .death import StartFailed, oom_in_load
from .engine import Engine
from .joining import join_unit, listen_early
from .memory import KvPlan
from .texts import shm_notice

TICK_S = 0.1
NCCL_SYSTEM_ERROR = (
    "RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)"
)


class StartUp:
    """Bring one container from nothing to ready; raises StartFailed."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.plan = engine.plan
        self.began = time.monotonic()
        self.compile_s = 0.0
        self.capture_s = 0.0
        self.init_began = 0.0
        self.kv: KvPlan | None = None

    async def run(self) -> KvPlan:
        """Walk through all phases; return the KV plan of the unit."""
        await self.configure()
        await self.spawn()
        await self.connect()
        await self.load()
        self.init_began = time.monotonic()
        await self.compile()
        await self.profile()
        await self.allocate()
        await self.capture()
        await self.warm_up()
        if self.engine.serves:
            await self.open_api()
        assert self.kv is not None
        return self.kv

    # -- time ---------------------------------------------------------------------------------

    def duration(self, phase: str, nominal_key: str = "") -> list[float]:
        """Return the seconds of a phase for each rank of this node, faults included."""
        nominal = self.engine.shape.phases_s[nominal_key or phase]
        self.engine.faults.read()
        for args in self.engine.faults.find("launch.slow"):
            if args.get("phase") == phase:
                nominal *= float(args.get("factor", 3))
        base = self.engine.launch_s(nominal)
        node = self.engine.node["name"]
        return [
            base * jitter(self.engine.seed, node, phase, rank.local) for rank in self.plan.ranks()
        ]

    def is_stuck(self, phase: str) -> bool:
        self.engine.faults.read()
        return any(args.get("phase") == phase for args in self.engine.faults.find("launch.stuck"))

    async def spend(self, seconds: float) -> None:
        if seconds > 0:
            await asyncio.sleep(seconds)

    async def wait_while_stuck(self, phase: str) -> None:
        """Stay in a phase as long as launch.stuck says so; only the shm notice goes on."""
        notice_s = max(1.0, self.engine.launch_s(60))
        next_notice = time.monotonic() + notice_s
        while self.is_stuck(phase):
            await asyncio.sleep(TICK_S)
            if time.monotonic() >= next_notice and self.engine.cores:
                next_notice += notice_s
                self.engine.cores[0].info("shm_broadcast.py:705", shm_notice(notice_s))

    async def finish(self, phase: str, value: object = None) -> list:
        """End a phase: this node may be stuck in it; then all nodes wait for the slowest."""
        await self.wait_while_stuck(phase)
        return await self.engine.link.barrier(phase, value)

    # -- phases -------------------------------------------------------------------------------

    async def configure(self) -> None:
        self.engine.set_phase("config")
        seconds = max(self.duration("config"))
        startup_lines.banner(self.engine)
        await self.spend(seconds * 0.6)
        startup_lines.model_config(self.engine)
        await self.spend(seconds * 0.4)
        await self.wait_while_stuck("config")

    async def spawn(self) -> None:
        """Start the cores, then the workers; the head's store listens from here on."""
        self.engine.set_phase("spawn")
        await listen_early(self.engine)
        seconds = max(self.duration("spawn"))
        startup_lines.start_cores(self.engine)
        await self.spend(seconds * 0.4)
        startup_lines.core_init(self.engine)
        for rank in self.plan.ranks():
            self.engine.workers.start(rank.name, rank, rank.dp)
        self.engine.workers.publish()
        await self.spend(seconds * 0.6)
        await self.wait_while_stuck("spawn")

    async def connect(self) -> None:
        self.engine.set_phase("nccl")
        seconds = max(self.duration("nccl"))
        startup_lines.init_process_group(self.engine)
        await join_unit(self.engine)
        await self.engine.link.barrier("join")
        startup_lines.nccl_version(self.engine)
        if self.plan.nccl_info:
            nccl_lines.write_block(self.engine, seconds)
        await self.spend(seconds)
        warning = nccl_lines.wrong_gid(self.engine)
        if warning:
            # Both ends of a queue pair see their own error; neither is told of the other's.
            await self.engine.link.barrier("queue pairs")
            self.engine.log.out(warning)
            raise StartFailed(NCCL_SYSTEM_ERROR, self.engine.workers.ranks()[0])
        await self.finish("nccl")
        startup_lines.groups_exist(self.engine)

    async def load(self) -> None:
        self.engine.set_phase("load")
        seconds = self.duration("load")
        if self.engine_has_page_cache():
            seconds = [value / 2 for value in seconds]
        startup_lines.load_begins(self.engine)
        self.check_weights()
        await self.load_shards(max(seconds))
        startup_lines.load_ends(self.engine, seconds)
        await self.finish("load")

    async def load_shards(self, seconds: float) -> None:
        steps = 8
        began = time.monotonic()
        for step in range(steps + 1):
            if step:
                await self.spend(seconds / steps)
                self.fail_by_fault()
            if step == steps // 2:
                await self.wait_while_stuck("load")
            startup_lines.shard_progress(self.engine, step, steps, time.monotonic() - began)

    def check_weights(self) -> None:
        """Refuse weights that cannot fit, or a directory without any (a wrong bind)."""
        missing = startup_lines.missing_model(self.engine)
        if missing:
            raise StartFailed(missing, self.engine.workers.ranks()[0])
        for worker in self.engine.workers.ranks():
            assert worker.rank is not None
            need = memory.rank_memory(
                self.engine.shape, self.plan, worker.rank.pp, self.engine.files.nominal_gib
            )
            if not memory.fits_in_card(need):
                raise oom_in_load(worker)

    def fail_by_fault(self) -> None:
        """Let a rank run out of memory in the middle of loading when oom.load says so."""
        self.engine.faults.read()
        for args in self.engine.faults.find("oom.load"):
            for worker in self.engine.workers.ranks():
                assert worker.rank is not None
                wanted = args.get("rank")
                hit = (
                    worker.rank.world_rank == int(wanted)
                    if wanted is not None
                    else worker.rank.local == int(args.get("gpu", 0))
                )
                if hit:
                    raise oom_in_load(worker)

    async def compile(self) -> None:
        self.engine.set_phase("compile")
        if self.plan.enforce_eager:
            await self.finish("compile")
            return
        cold = not os.path.isdir(self.compile_cache())
        seconds = max(self.duration("compile", "compile" if cold else "compile_warm"))
        notice_s = self.engine.launch_s(60)
        startup_lines.compile_begins(self.engine, self.compile_cache(), seconds * 0.25)
        await self.spend(min(seconds, notice_s))
        if seconds > notice_s and self.engine.cores:
            self.engine.cores[0].info("shm_broadcast.py:705", shm_notice(notice_s))
        await self.spend(seconds - notice_s)
        self.compile_s = seconds
        os.makedirs(self.compile_cache(), exist_ok=True)
        startup_lines.compile_ends(self.engine, seconds)
        await self.finish("compile")

    async def profile(self) -> None:
        self.engine.set_phase("profile")
        seconds = max(self.duration("profile"))
        await self.spend(seconds)
        startup_lines.profile_ends(self.engine, seconds)
        await self.finish("profile")

    async def allocate(self) -> None:
        """Agree on the poorest rank's blocks over all nodes; refuse what cannot hold a request."""
        self.engine.set_phase("kv")
        await self.spend(max(self.duration("kv")))
        startup_lines.available_kv(self.engine)
        gathered = await self.finish("kv", startup_lines.node_blocks(self.engine))
        self.kv = memory.kv_plan(self.engine.shape, self.plan, min(gathered))
        reason = startup_lines.kv_refusal(self.engine, self.kv)
        if reason:
            raise StartFailed(reason, None)
        startup_lines.kv_size(self.engine, self.kv)

    async def capture(self) -> None:
        self.engine.set_phase("capture")
        if not self.plan.enforce_eager:
            factor = 1.3 if self.plan.spec_tokens else 1.0
            self.capture_s = max(self.duration("capture")) * factor
            startup_lines.capture_progress(self.engine, 0, 0.0)
            await self.spend(self.capture_s / 2)
            await self.wait_while_stuck("capture")
            await self.spend(self.capture_s / 2)
            startup_lines.capture_ends(self.engine, self.capture_s)
        await self.finish("capture")

    async def warm_up(self) -> None:
        self.engine.set_phase("warmup")
        await self.spend(max(self.duration("warmup")))
        startup_lines.warm_up_ends(self.engine)
        await self.finish("warmup")
        spent = time.monotonic() - self.init_began
        startup_lines.init_took(self.engine, spent, self.compile_s)

    async def open_api(self) -> None:
        self.engine.set_phase("api")
        seconds = max(self.duration("api"))
        startup_lines.api_begins(self.engine)
        await self.spend(seconds)
        await self.wait_while_stuck("api")

    # -- caches on the node -------------------------------------------------------------------

    def cache_dir(self) -> str:
        return os.path.join(self.engine.node["dir"], "root", "var", "cache", "vllm")

    def compile_cache(self) -> str:
        files = self.engine.files
        name = f"{files.slug}-{files.revision[:8]}-{self.plan.version}"
        return os.path.join(self.cache_dir(), name)

    def engine_has_page_cache(self) -> bool:
        """Tell whether this model was loaded before within this boot; remember that it is now."""
        root = os.path.join(self.engine.node["dir"], "root")
        try:
            with open(f"{root}/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
                boot = file.read().strip()
        except OSError:
            return False
        files = self.engine.files
        marker = os.path.join(self.cache_dir(), f"page-{files.slug}-{files.revision[:8]}-{boot}")
        if os.path.exists(marker):
            return True
        os.makedirs(self.cache_dir(), exist_ok=True)
        with open(marker, "w", encoding="ascii"):
            return False
