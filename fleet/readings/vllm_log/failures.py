"""What goes wrong in an engine's log, and whether a line is a cause or the echo of one.

The last exception is rarely the cause: KeyError and EngineDeadError come after it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Weight = Literal["cause", "exception", "sign", "echo"]


@dataclass(frozen=True)
class Failure:
    """One kind of failure where it was first seen; `count` lines said the same.

    `weight` orders candidates: a known cause, any exception, a sign that something failed, an
    echo that never is the cause. `stage` is the phase in which it happened.
    """

    kind: str
    weight: Weight
    stage: str | None
    text: str
    line: int
    speaker: str
    worker: str | None = None
    count: int = 1


# kind, weight, needles: any of them tells
_KINDS: tuple[tuple[str, Weight, tuple[str, ...]], ...] = (
    ("gpu_not_free", "cause", ("on startup is less than desired GPU memory utilization",)),
    (
        "kv_too_small",
        "cause",
        ("that can be stored in KV cache", "larger than the available KV cache memory"),
    ),
    ("kv_none", "cause", ("No available memory for the cache blocks",)),
    ("disk_quota", "cause", ("Errno 122", "Disk quota exceeded")),
    ("no_space", "cause", ("Errno 28", "No space left on device", "errno: 28")),
    (
        "bad_arguments",
        "cause",
        ("error: unrecognized arguments", "error: argument ", "error: the following arguments"),
    ),
    (
        "port_in_use",
        "cause",
        ("EADDRINUSE", "ddress already in use", "Errno 98", "Cannot assign requested address"),
    ),
    ("nccl_mismatch", "cause", ("Mismatched NCCL version",)),
    ("follower_not_headless", "cause", ("should not be called on follower node",)),
    (
        "oom",
        "cause",
        ("CUDA out of memory", "OutOfMemoryError", "CUDA error: out of memory",
         "cudaErrorMemoryAllocation", "Tried to allocate"),
    ),
    ("illegal_access", "cause", ("illegal memory access",)),
    ("no_kernel_image", "cause", ("no kernel image is available",)),
    ("unsupported_model", "cause", ("are not supported for now", "architectures are not supported")),
    (
        "cuda_error",
        "cause",
        ("unspecified launch failure", "uncorrectable ECC", "CUDA error: device", "CUDA driver error"),
    ),
    ("store_timeout", "cause", ("DistStoreError", "seconds waiting for clients")),
    ("watchdog", "cause", ("Watchdog caught collective operation timeout",)),
    ("rpc_timeout", "cause", (" timed out.",)),
    (
        "host_oom",
        "cause",
        ("OOMKilled", "killed due to memory pressure", "exited with code 137", "exit code 137"),
    ),
    (
        "container_failed",
        "cause",
        ("Error response from daemon", "nvidia-container-cli: ", "OCI runtime create failed"),
    ),
    ("vllm_missing", "cause", ("vllm: command not found", "No module named vllm", "No module named 'vllm'")),
    ("cancelled", "sign", ("CANCELLED AT ", "DUE TO TIME LIMIT", "CANCELLED DUE TO")),
    ("nccl_error", "exception", ("NCCL error", "DistBackendError", "unhandled system error")),
    ("after_shutdown", "echo", ("cannot schedule new futures after shutdown",)),
    ("cublas", "echo", ("CUBLAS_STATUS_",)),
    ("engine_dead", "echo", ("EngineDeadError",)),
    # Who waits on the executor's queue when it is shut down for another's death.
    ("queue_cancelled", "echo", ("RuntimeError: cancelled",)),
    ("worker_died", "sign", ("died unexpectedly",)),
    ("start_failed", "sign", ("failed to start.", "Engine core initialization failed")),
    (
        "engine_fatal",
        "sign",
        ("EngineCore encountered a fatal error", "EngineCore hit an exception",
         "engine core exited unexpectedly", "Engine core proc "),
    ),
    ("worker_exception", "sign", ("WorkerProc hit an exception", "WorkerProc initialization failed")),
    ("output_handler", "sign", ("AsyncLLM output_handler failed",)),
    ("killed", "sign", ("Segmentation fault", "core dumped", "Killed")),
)  # fmt: skip
_RPC = re.compile(r"RPC call to \S{1,80} timed out")
# What a shell says of a program that the kernel or somebody ended.
_KILLED = re.compile(r"(?:^|[\d:] {1,8})Killed(?:$|  )")
_WORKER = re.compile(r"Worker proc (\S{1,64}) died unexpectedly")
_EXCEPTION = re.compile(
    r"^(?:[A-Za-z_]\w{0,60}\.){0,8}((?:[A-Za-z]\w{0,60})?(?:Error|Exception))(?:: ?(.*)|$)"
)
# Exceptions that the API server or the scheduler throws because the engine is gone.
_ECHOES = frozenset({"KeyError", "EngineDeadError", "CancelledError", "EngineGenerateError"})


def read_failure(message: str) -> tuple[str, Weight, str | None] | None:
    """Return kind, weight and named worker when a line tells of a failure, else None.

    The caller leaves out lines that the program itself calls INFO or WARNING: advice on memory
    speaks of out-of-memory errors in healthy starts.
    """
    for kind, weight, needles in _KINDS:
        if not any(needle in message for needle in needles):
            continue
        if kind == "rpc_timeout" and not _RPC.search(message):
            continue
        if kind == "killed" and "Killed" in message and not _KILLED.search(message.strip()):
            continue
        worker = _WORKER.search(message) if kind == "worker_died" else None
        if kind == "worker_died" and worker is None:
            continue
        return kind, weight, worker[1] if worker else None
    if thrown := _EXCEPTION.match(message):
        weight = "echo" if thrown[1] in _ECHOES else "exception"
        return f"exception:{thrown[1]}", weight, None
    return None


def pick_cause(failures: tuple[Failure, ...]) -> Failure | None:
    """Return the likeliest cause: the first known one, else the first exception, else a sign."""
    for weight in ("cause", "exception", "sign", "echo"):
        for failure in failures:
            if failure.weight == weight:
                return failure
    return None


def short_name(failure: Failure) -> str:
    """Name a failure in a list: `KeyError 'x'`, `EngineDeadError`, or its text."""
    if failure.kind == "engine_dead":
        return "EngineDeadError"
    name, _, rest = failure.text.partition(": ")
    return f"{name} {rest}" if rest.startswith("'") and " " not in name else failure.text
