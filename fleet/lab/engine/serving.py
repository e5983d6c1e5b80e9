"""The serving half of a head: opens HTTP when the start is over, and reports every ten seconds.

Holds generation, metrics, routes and hang model together; decides nothing of their own.
"""

import asyncio
import socket
from dataclasses import replace

from .api import Api
from .death import Death
from .engine import Engine
from .generation import Core, Generation
from .hang import Hang
from .http import Server
from .memory import KvPlan
from .metrics import Metrics
from .models import ModelShape
from .serving_state import ServingState
from .startup_lines import api_ready

STATS_S = 10.0


class Serving:
    """Everything behind the port of one head."""

    def __init__(self, engine: Engine, kv: KvPlan, death: Death) -> None:
        self.engine = engine
        self.state = ServingState(engine)
        self.metrics = Metrics(engine.plan, engine.shape, kv)
        shape = paced(engine.shape, engine.serve_scale)
        cores = [
            Core(index, engine.plan, shape, kv, self.metrics) for index in range(engine.plan.dp)
        ]
        self.metrics.cores = cores
        self.generation = Generation(cores)
        self.hang = Hang(engine, death, self)
        self.generation.on_step_begun = self._work_begun
        self.api = Api(self.state, self.generation, self.metrics)
        self.server = Server(self.api.handle, self.api.on_answer)
        self._stats_timer: asyncio.TimerHandle | None = None
        self._last = [(0.0, 0.0)] * engine.plan.dp

    async def open(self, sock: socket.socket) -> None:
        """Accept connections; until now they were refused."""
        await self.server.listen(sock)
        api_ready(self.engine)
        self.engine.set_phase("serving")

    def freeze(self, wanted: bool) -> None:
        """Stop or resume the generation loop; HTTP goes on as if nothing were wrong."""
        if wanted != self.generation.frozen:
            self.generation.hold(frozen=wanted)

    def _work_begun(self) -> None:
        self.hang.step_begun()
        if self._stats_timer is None:
            self._stats_later()

    def _stats_later(self) -> None:
        loop = asyncio.get_running_loop()
        self._stats_timer = loop.call_later(STATS_S, self._report)

    def _report(self) -> None:
        """Print vLLM's line for each engine; go on while there is or was work."""
        self._stats_timer = None
        if self.state.is_dead:
            return
        any_work = False
        for core in self.generation.cores:
            prompt = self.metrics.counters.get(("prompt_tokens", core.index, ""), 0.0)
            made = self.metrics.counters.get(("generation_tokens", core.index, ""), 0.0)
            before_prompt, before_made = self._last[core.index]
            self._last[core.index] = (prompt, made)
            rates = ((prompt - before_prompt) / STATS_S, (made - before_made) / STATS_S)
            busy = bool(core.running or core.waiting or any(rates))
            any_work = any_work or busy
            if busy or len(self.generation.cores) == 1:
                self._line(core, *rates)
            if busy and self.engine.plan.spec_tokens:
                self._speculation_line(core.index)
        if any_work:
            self._stats_later()

    def _line(self, core: Core, prompt_rate: float, made_rate: float) -> None:
        queries = self.metrics.counters.get(("prefix_cache_queries", core.index, ""), 0.0)
        hits = self.metrics.counters.get(("prefix_cache_hits", core.index, ""), 0.0)
        usage = core.used_blocks() / max(1, core.kv.blocks)
        front = self.engine.fronts[core.index % len(self.engine.fronts)]
        front.info(
            "loggers.py:257",
            f"Engine {core.index:03d}: Avg prompt throughput: {prompt_rate:.1f} tokens/s,"
            f" Avg generation throughput: {made_rate:.1f} tokens/s, Running: {len(core.running)}"
            f" reqs, Waiting: {len(core.waiting)} reqs, GPU KV cache usage: {usage:.1%},"
            f" Prefix cache hit rate: {hits / queries if queries else 0:.1%}",
        )

    def _speculation_line(self, index: int) -> None:
        plan, counters = self.engine.plan, self.metrics.counters
        name = "spec_decode_num_"
        drafts = counters[f"{name}drafts", index, ""]
        accepted = counters[f"{name}accepted_tokens", index, ""]
        if not drafts:
            return
        places = [
            counters[f"{name}accepted_tokens_per_pos", index, str(place)] / drafts
            for place in range(plan.spec_tokens)
        ]
        drafted = drafts * plan.spec_tokens
        self.engine.fronts[index % len(self.engine.fronts)].info(
            "metrics.py:101",
            f"SpecDecoding metrics: Mean acceptance length: {1 + accepted / drafts:.2f}, Accepted"
            f" throughput: {accepted / STATS_S:.2f} tokens/s, Drafted throughput:"
            f" {drafted / STATS_S:.2f} tokens/s, Accepted: {accepted:.0f} tokens, Drafted:"
            f" {drafted:.0f} tokens, Per-position acceptance rate:"
            f" {', '.join(f'{rate:.3f}' for rate in places)}, Avg Draft acceptance rate:"
            f" {accepted / drafted:.1%}",
        )

    def close(self) -> None:
        self.server.close()
        if self._stats_timer is not None:
            self._stats_timer.cancel()


def paced(shape: ModelShape, scale: float) -> ModelShape:
    """Return a shape that serves `scale` times faster; 1 in every lab, more only in tests."""
    return replace(
        shape,
        front_s=shape.front_s / scale,
        prefill_token_s=shape.prefill_token_s / scale,
        token_s=shape.token_s / scale,
    )


def bind_early(engine: Engine) -> socket.socket:
    """Bind the port before anything is started, without listening: connections are refused.

    The container's host 0.0.0.0 means this node's address: the lab's nodes share one machine.
    """
    plan = engine.plan
    address = engine.node["addr"] if plan.host in ("0.0.0.0", "::", "") else plan.host
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        if address not in (engine.node["addr"], "127.0.0.1", "localhost"):
            raise OSError(99, "Cannot assign requested address")
        sock.bind((address, plan.port))
    except OSError:
        sock.close()
        raise
    return sock
