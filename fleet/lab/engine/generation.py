"""The engine cores' queues: who runs, who waits, which tokens are due, how full the KV is.

Simple pacing: a first token after the front and the prefill, then one every `token_s`. Nothing
runs while nothing is queued. A frozen or hung core accepts requests and delivers nothing.
"""

import asyncio
import time
from collections import deque
from dataclasses import dataclass, field
from zlib import crc32

from .memory import KvPlan
from .metrics import Metrics
from .models import ModelShape
from .plan import Plan

STEP_S = 0.02
PREFIX_BLOCK = 64
PREFIX_ENTRIES = 4096


class Aborted(Exception):
    """The engine cut the request (shutdown or death)."""


@dataclass(eq=False)
class Sequence:
    """One answer being written."""

    prompt: list[str]
    pieces: list[str]
    max_tokens: int
    finish_reason: str
    core: int = 0
    arrived_at: float = 0.0
    admitted_at: float = 0.0
    first_at: float = 0.0
    last_at: float = 0.0
    sent: int = 0
    cached_tokens: int = 0
    news: asyncio.Queue = field(default_factory=asyncio.Queue)

    @property
    def tokens(self) -> int:
        return len(self.prompt) + self.sent


class PrefixCache:
    """Which prompt openings were seen: chained hashes of full blocks, oldest dropped first."""

    def __init__(self) -> None:
        self.seen: dict[int, None] = {}

    def hit(self, prompt: list[str]) -> int:
        """Return the cached tokens of a prompt and remember its blocks."""
        chain = 0
        hits = 0
        unbroken = True
        for start in range(0, len(prompt) - PREFIX_BLOCK + 1, PREFIX_BLOCK):
            block = "\x1f".join(prompt[start : start + PREFIX_BLOCK])
            chain = crc32(block.encode("utf-8", "replace"), chain) | chain << 32 & (1 << 64) - 1
            unbroken = unbroken and chain in self.seen
            hits += PREFIX_BLOCK if unbroken else 0
            self.seen.pop(chain, None)
            self.seen[chain] = None
        while len(self.seen) > PREFIX_ENTRIES:
            del self.seen[next(iter(self.seen))]
        # The last token is always computed, or there would be nothing to sample from.
        return min(hits, max(0, len(prompt) - 1) // PREFIX_BLOCK * PREFIX_BLOCK)


class Core:
    """One engine core's scheduler."""

    def __init__(self, index: int, plan: Plan, shape: ModelShape, kv: KvPlan, metrics: Metrics):
        self.index = index
        self.plan = plan
        self.shape = shape
        self.kv = kv
        self.metrics = metrics
        self.waiting: deque[Sequence] = deque()
        self.running: list[Sequence] = []
        self.prefixes = PrefixCache()

    def blocks(self, sequence: Sequence) -> int:
        return -(-sequence.tokens // self.kv.block_size)

    def used_blocks(self) -> int:
        return sum(self.blocks(sequence) for sequence in self.running)

    def admit(self, now: float) -> None:
        """Move waiting requests into the batch while seats and KV blocks suffice."""
        used = self.used_blocks()
        while self.waiting and len(self.running) < self.plan.max_num_seqs:
            sequence = self.waiting[0]
            need = -(-len(sequence.prompt) // self.kv.block_size) + 1
            if used + need > self.kv.blocks and self.running:
                break
            self.waiting.popleft()
            used += need
            if self.plan.prefix_caching:
                sequence.cached_tokens = self.prefixes.hit(sequence.prompt)
            computed = len(sequence.prompt) - sequence.cached_tokens
            sequence.admitted_at = now
            prefill_s = computed * self.shape.prefill_token_s
            sequence.first_at = now + self.shape.front_s + prefill_s + self.shape.token_s
            self.running.append(sequence)
            self.metrics.admitted(self.index, sequence)

    def step(self, now: float) -> None:
        """Deliver every token that is due."""
        self.admit(now)
        for sequence in list(self.running):
            if now < sequence.first_at:
                continue
            due = 1 + int((now - sequence.first_at) / self.shape.token_s)
            new = sequence.pieces[sequence.sent : due]
            if new:
                self.metrics.tokens(self.index, sequence, len(new), now)
                sequence.sent += len(new)
                sequence.last_at = now
                sequence.news.put_nowait("".join(new))
            if sequence.sent >= len(sequence.pieces):
                self.finish(sequence, sequence.finish_reason, now)
        self.admit(now)

    def finish(self, sequence: Sequence, reason: str, now: float) -> None:
        self.running.remove(sequence)
        self.metrics.finished(self.index, sequence, reason, now)
        sequence.news.put_nowait(None)


class Generation:
    """All engine cores of one API server, driven by one timer that exists only under load."""

    def __init__(self, cores: list[Core]) -> None:
        self.cores = cores
        self.frozen = False
        self.stalled = False
        self.on_step_begun = lambda: None
        self.on_idle = lambda: None
        self._offset = 0.0
        self._stood_since: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    def now(self) -> float:
        """The cores' own time, which stands still while they do."""
        real = self._stood_since if self._stood_since is not None else time.monotonic()
        return real - self._offset

    @property
    def stands_still(self) -> bool:
        return self.frozen or self.stalled

    def hold(self, *, frozen: bool | None = None, stalled: bool | None = None) -> None:
        """Freeze or stall the cores, or let them go on where they stood."""
        self.frozen = self.frozen if frozen is None else frozen
        self.stalled = self.stalled if stalled is None else stalled
        if self.stands_still and self._stood_since is None:
            self._stood_since = time.monotonic()
        elif not self.stands_still and self._stood_since is not None:
            self._offset += time.monotonic() - self._stood_since
            self._stood_since = None
            self._wake()

    def submit(self, sequence: Sequence) -> None:
        """Queue a request at the least loaded core."""
        core = min(self.cores, key=lambda core: len(core.running) + len(core.waiting))
        sequence.core = core.index
        sequence.arrived_at = self.now()
        core.waiting.append(sequence)
        core.admit(self.now())
        self.on_step_begun()
        self._wake()

    def abort(self, sequence: Sequence) -> None:
        """Take a request out; its KV is free at once."""
        core = self.cores[sequence.core]
        if sequence in core.waiting:
            core.waiting.remove(sequence)
            core.metrics.finished(core.index, sequence, "abort", self.now())
        elif sequence in core.running:
            core.finish(sequence, "abort", self.now())
        core.admit(self.now())

    def fail_all(self, error: Exception) -> None:
        """End every request with an error (death or abort)."""
        for core in self.cores:
            for sequence in [*core.running, *core.waiting]:
                sequence.news.put_nowait(error)
            core.running.clear()
            core.waiting.clear()

    def running(self) -> int:
        return sum(len(core.running) for core in self.cores)

    def unfinished(self) -> int:
        return sum(len(core.running) + len(core.waiting) for core in self.cores)

    def _wake(self) -> None:
        if self._timer is None and not self.stands_still and self.unfinished():
            self._timer = asyncio.get_running_loop().call_later(STEP_S, self._step)

    def _step(self) -> None:
        self._timer = None
        if self.stands_still:
            return
        now = self.now()
        for core in self.cores:
            if core.running or core.waiting:
                core.step(now)
        if self.unfinished():
            self._wake()
        else:
            self.on_idle()
