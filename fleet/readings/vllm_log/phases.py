"""The phases of an engine's start and the lines that open them.

Texts of vLLM 0.2 to 0.33 as collected from real logs. A follower prints no line after capture: it
never says that it is ready.
"""

from __future__ import annotations

import re

PHASES = (
    "config",
    "init",
    "rendezvous",
    "load",
    "compile",
    "profile",
    "kv",
    "capture",
    "warmup",
    "api",
    "ready",
)
_RANKS = {name: number for number, name in enumerate(PHASES)}

# A line opens a phase by what it says; the first needle that is found decides.
_OPENERS: tuple[tuple[str, str], ...] = (
    ("Application startup complete", "ready"),
    ("Starting vLLM server on", "api"),
    ("Starting vLLM API server", "api"),
    ("init engine (profile, create kv cache", "api"),
    ("Graph capturing finished", "warmup"),
    ("Capturing CUDA graph", "capture"),
    ("Capturing cudagraphs", "capture"),
    ("Available KV cache memory", "kv"),
    ("KV cache size: ", "kv"),
    ("# GPU blocks: ", "kv"),
    ("Initial profiling/warmup run", "profile"),
    ("Profiling CUDA graph memory", "profile"),
    ("Memory profiling ", "profile"),
    ("torch.compile took", "profile"),
    ("torch.compile takes", "profile"),
    ("Dynamo bytecode transform time", "compile"),
    ("for vLLM's torch.compile", "compile"),
    ("Compiling a graph for", "compile"),
    ("Warming up model for the compilation", "compile"),
    ("Starting to load model", "load"),
    ("checkpoint shards:", "load"),
    ("Loading weights took", "load"),
    ("Model loading took", "load"),
    ("Loading model weights", "load"),
    ("distributed_init_method=", "rendezvous"),
    ("is assigned as DP rank", "rendezvous"),
    ("vLLM is using nccl==", "rendezvous"),
    ("Initializing a V1 LLM engine", "init"),
    ("Initializing an LLM engine", "init"),
    ("headless multiproc executor", "init"),
    ("non-default args", "config"),
    ("Resolved architecture: ", "config"),
    ("Using max model len", "config"),
)
_BANNER = re.compile(r"\bversion \d{1,3}\.\d{1,3}\.\d")

# A frame of a traceback tells the stage when the lines before it are missing; the deepest wins.
_FRAMES: tuple[tuple[str, str], ...] = (
    ("capture_model", "capture"),
    ("_capture_cudagraphs", "capture"),
    ("profile_cudagraph_memory", "profile"),
    ("_cleanup_profiling_kv_cache", "profile"),
    ("determine_available_memory", "profile"),
    ("profile_run", "profile"),
    ("_initialize_kv_caches", "kv"),
    ("get_kv_cache_configs", "kv"),
    ("torch_aot_compile", "compile"),
    ("triton_heuristics", "compile"),
    ("step_with_batch_queue", "ready"),
    ("update_from_output", "ready"),
    ("output_handler", "ready"),
    ("init_device", "init"),
    ("load_model", "load"),
)


def phase_rank(phase: str | None) -> int:
    """Return the place of a phase in the order of a start, -1 before any."""
    return -1 if phase is None else _RANKS[phase]


def opened_phase(message: str) -> str | None:
    """Return the phase that a line opens or proves to run, or None."""
    for needle, phase in _OPENERS:
        if needle in message:
            return phase
    return "config" if _BANNER.search(message) else None


def framed_phase(message: str) -> str | None:
    """Return the phase that a traceback's frame belongs to, or None."""
    for needle, phase in _FRAMES:
        if needle in message:
            return phase
    return None
