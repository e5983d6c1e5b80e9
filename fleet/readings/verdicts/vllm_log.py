"""What a pasted engine log says: how far the start came, its numbers, and what broke it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from fleet.readings.nccl_log import NcclReader
from fleet.readings.report import Finding, Report, Verdict
from fleet.readings.text import LINE_CAP_BYTES, clean_line, decode
from fleet.readings.told import tell
from fleet.readings.verdicts.nccl_log import report_read
from fleet.readings.vllm_log import Failure, PhaseReader, phase_rank
from fleet.readings.vllm_log.failures import short_name

# The words for a stage that people use; the reader's own phases are finer.
_STAGES = {
    "config": "config",
    "init": "init_device",
    "rendezvous": "rendezvous",
    "load": "weights",
    "compile": "compile",
    "profile": "profile",
    "kv": "kv_cache",
    "capture": "graph_capture",
    "warmup": "warmup",
    "api": "api",
    "ready": "ready",
}
# Said of the phase in which a start ended, where its name alone says little.
_PHASE_WORDS = {
    "load": tell("weights were being read"),
    "compile": tell("the model was being compiled"),
    "profile": tell(
        "memory profiling and warm-up runs, after compilation and before the graph capture"
    ),
    "kv": tell("the KV cache was being planned"),
    "capture": tell("graphs were being captured"),
    "warmup": tell("warm-up after the graph capture"),
}
_ADVICE = {
    "gpu_not_free": tell("something else holds the GPU; find it before starting again"),
    "kv_too_small": tell("KV cache too small for max-model-len"),
    "kv_none": tell("no memory left for the KV cache"),
    "disk_quota": tell("disk quota exceeded where the compile cache lies"),
    "no_space": tell("no space left, most likely /dev/shm"),
    "bad_arguments": tell("the image does not know these arguments"),
    "port_in_use": tell("the port is in use or the address is not of this node"),
    "nccl_mismatch": tell("images differ: NCCL versions do not match"),
    "follower_not_headless": tell("node rank above 0 was started without --headless"),
    "oom": tell("out of GPU memory"),
    "illegal_access": tell("a kernel crashed (software), no proof of bad hardware"),
    "no_kernel_image": tell("the build does not match this GPU architecture"),
    "cancelled": tell("cancelled by the scheduler, not a crash"),
    "host_oom": tell("out of host memory: the kernel or the cluster ended it"),
    "container_failed": tell("the container could not be started"),
    "vllm_missing": tell("there is no vLLM in this image or environment"),
    "store_timeout": tell("not all nodes joined"),
    "rpc_timeout": tell("a rank did not answer; look for a hung or dead rank"),
    "watchdog": tell("a collective timed out"),
}


def report_vllm_log(batches: Iterable[list[bytes]], *, cut: bool = False) -> Report:
    """Judge the lines of one engine's log; NCCL's lines in it are read as such."""
    reader, hints, nccl = PhaseReader(), _Hints(), NcclReader()
    for batch in batches:
        for line in batch:
            text = clean_line(decode(line[:LINE_CAP_BYTES]))
            reader.feed(text)
            hints.note(text)
        nccl.feed(line for line in batch if b" NCCL " in line or b"ProcessGroupNCCL" in line)
    nccl.finish()
    ready = _is_ready(reader, hints)
    findings = tuple(_findings(reader, ready))
    return Report(
        kind="vllm-log",
        form=hints.form,
        # An excerpt counts as whole when it holds the end that decides.
        complete=(ready or reader.cause is not None) and not _is_error_cut(reader) and not cut,
        verdict=_verdict(reader, ready),
        summary=_summary(reader, ready),
        findings=findings,
        values=_values(reader, hints, ready) | _nccl_values(nccl),
        unread=tuple(reader.unread),
    )


class _Hints:
    """Small things that only the whole text tells."""

    def __init__(self) -> None:
        self.has_routes = False
        self.has_uvicorn = False
        self.has_tqdm = False
        self.engine_error: str | None = None
        self.form = "vllm"

    def note(self, text: str) -> None:
        if "Route: /" in text or "Available routes are" in text:
            self.has_routes = True
        elif "Started server process" in text or "Waiting for application startup" in text:
            self.has_uvicorn = True
        elif "checkpoint shards:" in text:
            self.has_tqdm = True
        if self.engine_error is None and (at := text.find("Worker failed with error")) >= 0:
            self.engine_error = text[at : at + 200]

    @property
    def is_stdout_half(self) -> bool:
        """Progress bars and uvicorn write to stderr; a text without them is the other half."""
        return not self.has_uvicorn and not self.has_tqdm


def _is_ready(reader: PhaseReader, hints: _Hints) -> bool:
    if reader.phase == "ready":
        return True
    # The last thing on stdout is the list of routes; "startup complete" stands on stderr.
    return reader.phase == "api" and hints.has_routes and hints.is_stdout_half


def _verdict(reader: PhaseReader, ready: bool) -> Verdict:
    cause = reader.cause
    if cause is not None and cause.weight != "echo":
        return "fail"
    if cause is not None and reader.shutdown_line is None:
        return "fail"
    return "pass" if ready and not _is_stopped(reader) else "unknown"


def _is_stopped(reader: PhaseReader) -> bool:
    return reader.shutdown_line is not None or reader.stopped_line is not None


def _findings(reader: PhaseReader, ready: bool) -> Iterator[Finding]:
    cause = reader.cause
    for failure in reader.failures:
        echo = failure is not cause
        severity = "info" if echo else "error"
        if reader.shutdown_line is not None and failure.weight == "echo":
            severity = "info"
        text = failure.text[:300]
        if echo:
            text = tell("follows: %(text)s", text=text)
        yield Finding(failure.kind, severity, text, (failure.line,))  # type: ignore[arg-type]
    if reader.refused_requests:
        text = tell("%(count)s requests were refused as wrong", count=len(reader.refused_requests))
        yield Finding("requests_refused", "info", text, tuple(reader.refused_requests))
    yield from _end_findings(reader)
    listen = reader.facts.words.get("listen", "")
    if "//127." in listen or "//localhost" in listen:
        text = tell("%(address)s is reachable from the node only", address=listen)
        yield Finding("listens_on_loopback", "warn", text)
    if (line := reader.shutdown_line or reader.stopped_line) is not None:
        told = reader.shutdown_line is not None
        text = tell("the API server was told to stop") if told else tell("the API server stopped")
        yield Finding("shutdown", "info", text, (line,))
    if ready and reader.phase == "api":
        text = tell("ready by its list of routes; 'Application startup complete' stands on stderr")
        yield Finding("stderr_missing", "info", text)


def _end_findings(reader: PhaseReader) -> Iterator[Finding]:
    """Tell where a start ended, and that its error is missing when only the traceback is there."""
    cause = reader.cause
    if cause is None:
        return
    stage = cause.stage or reader.stage
    if stage is not None and phase_rank(stage) < phase_rank("api"):
        words = _PHASE_WORDS.get(stage)
        text = tell("the last phase of the start in this text is %(phase)s", phase=stage)
        if words:
            text = tell("%(what)s: %(hint)s", what=text, hint=words)
        yield Finding(f"ended_in_{stage}", "info", text, (cause.line,))
    if _is_error_cut(reader):
        text = tell("a traceback is told and its error is not: the cause is missing in this text")
        yield Finding("error_not_shown", "info", text, (cause.line,))


def _is_error_cut(reader: PhaseReader) -> bool:
    """Whether a failure is known by a sign only, while the traceback behind it has no end."""
    cause = reader.cause
    return cause is not None and cause.weight == "sign" and reader.has_traceback


def _summary(reader: PhaseReader, ready: bool) -> str:
    cause = reader.cause
    if cause is not None and not (reader.shutdown_line and cause.weight == "echo"):
        advice = _ADVICE.get(cause.kind)
        why = advice or cause.text[:200]
        return tell("%(what)s: %(why)s.", what=_failed_words(reader, cause), why=why)
    if _is_stopped(reader):
        return tell("Stopped in order.")
    if ready:
        return tell("Healthy: the start is complete.")
    if reader.phase is None:
        return tell("No mark of an engine's start in this text.")
    return tell(
        "In progress, no fault in it: the last phase seen is %(phase)s.", phase=reader.phase
    )


def _failed_words(reader: PhaseReader, cause: Failure) -> str:
    if cause.kind == "cancelled":
        return tell("Ended in %(phase)s", phase=reader.phase or tell("an unknown phase"))
    stage = cause.stage or reader.stage
    if stage == "ready" or phase_rank(stage) >= phase_rank("api"):
        return tell("Engine dead while serving")
    return tell("Start failed in %(phase)s", phase=stage) if stage else tell("Start failed")


def _stage_word(reader: PhaseReader, ready: bool) -> str | None:
    cause = reader.cause
    stage = (cause.stage if cause else None) or reader.stage
    if ready and cause is None:
        return "ready"
    if cause is not None and phase_rank(stage) >= phase_rank("api"):
        return "serving"
    if cause is not None and cause.kind == "gpu_not_free":
        return "init_device"
    return _STAGES.get(stage) if stage else None


def _values(reader: PhaseReader, hints: _Hints, ready: bool) -> dict[str, Any]:
    facts = reader.facts
    values: dict[str, Any] = {
        "stage": _stage_word(reader, ready),
        "phase": reader.phase,
        "phases": [[t.phase, t.line, t.message_at] for t in reader.transitions],
        **{name: facts.value(name) for name in facts.names()},
        **facts.words,
    }
    if facts.shards:
        values["shards"] = f"{facts.shards[0]}/{facts.shards[1]}"
        values["shard_load_elapsed"] = facts.shard_elapsed
        values["seconds_per_shard"] = facts.seconds_per_shard
    if facts.shapes:
        values["shapes"] = f"{facts.shapes[0]}/{facts.shapes[1]}"
    if "kv_tokens" not in values and values.get("gpu_blocks") is not None:
        # The block size of old releases' default (16) where the log does not print another.
        values["kv_tokens"] = values["gpu_blocks"] * int(values.get("block_size") or 16)
    values["c10d_warnings"] = reader.c10d_warnings
    values["ranks_seen"] = sorted({r for r in reader.speakers.values() if r is not None})
    values["ranks_with_cuda_error"] = sorted(reader.cuda_error_ranks)
    values["is_follower"] = facts.is_follower
    return values | _failure_values(reader, hints)


def _failure_values(reader: PhaseReader, hints: _Hints) -> dict[str, Any]:
    cause = reader.cause
    if cause is None:
        return {"error": None}
    died = next((f.worker for f in reader.failures if f.worker), None)
    rest = [f for f in reader.failures if f is not cause]
    cancelled = next((f for f in reader.failures if f.kind == "cancelled"), None)
    core = reader.failed_core_procs
    return {
        "error": _error_text(cause),
        "error_kind": cause.kind,
        "engine_error": hints.engine_error,
        "first_error_worker": reader.first_error_speaker,
        "worker": cause.speaker or None,
        "rank": next(iter(reader.ranks_of(cause.kind)), None),
        "ranks": reader.ranks_of(cause.kind),
        "worker_died": died,
        "secondary": next((_cublas(f.text) for f in rest if f.kind == "cublas"), None),
        "consequences": [short_name(f)[:200] for f in rest if f.weight == "echo"],
        "failed_core_procs": {} if core == "{}" else core,
        "cancelled_at": _after(cancelled, "CANCELLED AT ", 19),
        "host": _between(cancelled, " ON ", " CANCELLED"),
    }


def _nccl_values(nccl: NcclReader) -> dict[str, Any]:
    """Return the part of an NCCL reading that belongs to an engine's start."""
    if not nccl.nccl_lines:
        return {}
    read = report_read(nccl).values
    names = (
        "nranks",
        "hosts",
        "rank_seen",
        "channels",
        "transport",
        "transports",
        "network",
        "gdr",
    )
    return {name: read[name] for name in names} | {"nccl_event": read["event"]}


_ERROR_WORDS = {
    "illegal_access": "illegal memory access",
    "no_kernel_image": "no kernel image is available",
    "kv_none": "No available memory for the cache blocks",
    "disk_quota": "[Errno 122] Disk quota exceeded",
    "engine_fatal": "EngineCore hit an exception",
    "start_failed": "EngineCore failed to start",
}


def _error_text(cause: Failure) -> str:
    said = _ERROR_WORDS.get(cause.kind)
    return said if said and said in cause.text else cause.text


def _cublas(text: str) -> str:
    at = text.find("CUBLAS_STATUS_")
    return text[at:].split(" ", 1)[0][:80]


def _after(failure: Failure | None, mark: str, width: int) -> str | None:
    if failure is None or mark not in failure.text:
        return None
    return failure.text.partition(mark)[2][:width]


def _between(failure: Failure | None, start: str, end: str) -> str | None:
    if failure is None or start not in failure.text:
        return None
    return failure.text.partition(start)[2].partition(end)[0][:64]
