"""The numbers and words that an engine prints about itself while it starts.

Ranks print their own numbers. A number of the unit is the largest for times and memory, the
smallest for what all ranks must share, as the engine itself reduces them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

_N = r"(\d{1,12}(?:\.\d{1,12})?)"
_COUNT = r"(\d{1,3}(?:,\d{3}){1,5}|\d{1,15})"
_SPEAKERS_CAP = 1024

# needle, pattern, names of its groups in order
_NUMBERS: tuple[tuple[str, re.Pattern[str], tuple[str, ...]], ...] = tuple(
    (needle, re.compile(pattern), tuple(names.split()))
    for needle, pattern, names in (
        ("Loading weights took", rf"Loading weights took {_N} seconds", "weights_load_s"),
        (
            "Model loading took",
            rf"Model loading took {_N} GiB (?:memory )?and {_N} seconds",
            "model_load_gib model_load_s",
        ),
        (
            "Model loading took",
            rf"Model loading took {_N} GB (?:memory )?and {_N} seconds",
            "model_load_gb model_load_s",
        ),
        ("model weights took", rf"Loading model weights took {_N} GB", "weights_gb"),
        ("model weights take", rf"model weights take {_N}GiB", "weights_gib"),
        ("for KV Cache is", rf"reserved for KV Cache is {_N}GiB", "kv_gib"),
        ("kv_cache_size=", rf"kv_cache_size={_N}GiB", "kv_gib"),
        ("bytecode transform", rf"Dynamo bytecode transform time: {_N} s", "dynamo_s"),
        ("torch.compile t", rf"torch\.compile (?:took|takes) {_N} s in total", "torch_compile_s"),
        ("profiling/warmup run", rf"profiling/warmup run took {_N} s", "profile_s"),
        ("CUDA graph memory:", rf"Estimated CUDA graph memory: {_N} GiB", "graph_estimate_gib"),
        ("Available KV", rf"Available KV cache memory: {_N} GiB", "kv_available_gib"),
        ("KV cache size:", rf"KV cache size: {_COUNT} tokens", "kv_tokens"),
        (
            "Maximum concurrency",
            rf"Maximum concurrency for {_COUNT} tokens per request: {_N}x",
            "concurrency_tokens max_concurrency",
        ),
        ("# GPU blocks:", rf"# GPU blocks: {_COUNT}", "gpu_blocks"),
        (
            "Graph capturing finished",
            rf"Graph capturing finished in {_N} secs?, took {_N} GiB",
            "graph_capture_s graph_gib",
        ),
        ("init engine (", rf"warmup model\) took {_N} s", "init_engine_s"),
        ("(compilation:", rf"\(compilation: {_N} s\)", "compilation_s"),
        ("max model len", rf"Using max model len {_COUNT}", "max_model_len"),
        ("max_seq_len=", rf"max_seq_len={_COUNT}", "max_seq_len"),
        ("max seq len (", rf"max seq len \({_COUNT}\)", "max_seq_len"),
        ("stored in KV cache (", rf"stored in KV cache \({_COUNT}\)", "kv_tokens"),
        (
            "Free memory on device (",
            rf"Free memory on device \({_N}/{_N} GiB\)",
            "free_gib total_gib",
        ),
        (
            "desired GPU memory utilization",
            rf"utilization \(0?\.?\d{{0,3}}, {_N} GiB\)",
            "wanted_gib",
        ),
        (
            "Desired GPU memory utilization",
            rf"utilization \(0?\.?\d{{0,3}}, {_N} GiB\)",
            "wanted_gib",
        ),
        ("world_size=", r"\bworld_size=(\d{1,6})\b", "world_size"),
        ("block_size=", r"\bblock_size=(\d{1,6})\b", "block_size"),
    )
)
_LEAST = frozenset(
    {"kv_available_gib", "kv_tokens", "max_concurrency", "gpu_blocks", "free_gib", "kv_gib"}
)
_WHOLE = frozenset(
    {"kv_tokens", "concurrency_tokens", "gpu_blocks", "max_model_len", "max_seq_len",
     "world_size", "block_size"}
)  # fmt: skip

_WORDS: tuple[tuple[str, re.Pattern[str], str], ...] = (
    ("LLM engine (v", re.compile(r"LLM engine \(v([\w.+-]{1,64})\)"), "version"),
    ("Launching vLLM (v", re.compile(r"Launching vLLM \(v([\w.+-]{1,64})\)"), "version"),
    ("version ", re.compile(r"\bversion (\d{1,3}\.\d{1,3}\.[\w.+-]{1,48})"), "version"),
    ("Resolved architecture", re.compile(r"Resolved architecture: (\S{1,128})"), "architecture"),
    ("server on", re.compile(r"server(?: \d{1,4})? on (https?://\S{1,200})"), "listen"),
    ("nccl==", re.compile(r"using nccl==([\w.+-]{1,32})"), "nccl"),
)
_SHARDS = re.compile(
    rf"checkpoint shards:\s+\d{{1,3}}% Completed \| (\d{{1,6}})/(\d{{1,6}}) "
    rf"\[([\d:]{{4,12}})<[^,\]]{{0,16}},\s*(?:{_N}(s/it|it/s)|\?)"
)
_SHAPES = re.compile(r"(?:graph shapes|\)): +\d{1,3}%\|[^|]{0,600}\| (\d{1,6})/(\d{1,6}) \[")


class FactTaker:
    """Collects numbers by speaker and words by name; memory does not grow with the log."""

    def __init__(self) -> None:
        self.words: dict[str, str] = {}
        self.shards: tuple[int, int] | None = None
        self.shard_elapsed: str | None = None
        self.seconds_per_shard: float | None = None
        self.shapes: tuple[int, int] | None = None
        self.is_follower = False
        self._numbers: dict[str, dict[str, float]] = {}

    def take(self, message: str, speaker: str) -> bool:
        """Take what one line tells and return whether it told anything; `speaker` wrote it."""
        told = False
        for needle, pattern, names in _NUMBERS:
            if needle in message and (found := pattern.search(message)):
                told = True
                for name, text in zip(names, found.groups(), strict=True):
                    self._put(name, speaker, float(text.replace(",", "")))
        for needle, pattern, name in _WORDS:
            if needle in message and name not in self.words and (found := pattern.search(message)):
                self.words[name] = found[1]
                told = True
        if "% Completed |" in message and (found := _SHARDS.search(message)):
            self._take_shards(found)
        elif "%|" in message and (found := _SHAPES.search(message)):
            self.shapes = int(found[1]), int(found[2])
        if "headless multiproc executor" in message:
            self.is_follower = True
        return told

    def value(self, name: str) -> int | float | None:
        """Return the number of the unit, or None when nobody printed it."""
        told = self._numbers.get(name)
        if not told:
            return None
        reduce: Callable[[Iterable[float]], float] = min if name in _LEAST else max
        number = reduce(told.values())
        return int(number) if name in _WHOLE else number

    def by_speaker(self, name: str) -> dict[str, float]:
        """Return the number that each process printed."""
        return dict(self._numbers.get(name, {}))

    def names(self) -> list[str]:
        """Return the names of all numbers that were printed, in the order of the table."""
        return list(self._numbers)

    def _put(self, name: str, speaker: str, number: float) -> None:
        told = self._numbers.setdefault(name, {})
        if speaker in told or len(told) < _SPEAKERS_CAP:
            told[speaker] = number

    def _take_shards(self, found: re.Match[str]) -> None:
        self.shards = int(found[1]), int(found[2])
        self.shard_elapsed = found[3]
        if found[4] is not None and float(found[4]) > 0:
            pace = float(found[4])
            self.seconds_per_shard = pace if found[5] == "s/it" else 1 / pace
