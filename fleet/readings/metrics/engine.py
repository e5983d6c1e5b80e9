"""Reads an engine's metrics under the names of all its releases.

Engines of one model are summed; two models on one endpoint are two subjects and stay apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fleet.readings.metrics.exposition import Exposition, Sample, read_value, total

# What we call it: the names that releases used, without `vllm:` or `vllm_`.
_COUNTS = {
    "running": ("num_requests_running",),
    "waiting": ("num_requests_waiting",),
    "swapped": ("num_requests_swapped",),
    "prompt_tokens": ("prompt_tokens_total",),
    "generation_tokens": ("generation_tokens_total",),
    "preemptions": ("num_preemptions_total",),
    "prefix_queries": ("prefix_cache_queries_total", "gpu_prefix_cache_queries_total"),
    "prefix_hits": ("prefix_cache_hits_total", "gpu_prefix_cache_hits_total"),
    "ttft_count": ("time_to_first_token_seconds_count",),
    "ttft_sum_s": ("time_to_first_token_seconds_sum",),
    "itl_count": ("inter_token_latency_seconds_count",),
    "itl_sum_s": ("inter_token_latency_seconds_sum",),
    "tpot_count": ("time_per_output_token_seconds_count",),
    "tpot_sum_s": ("time_per_output_token_seconds_sum",),
    "e2e_count": ("e2e_request_latency_seconds_count",),
    "e2e_sum_s": ("e2e_request_latency_seconds_sum",),
    "steps": ("iteration_tokens_total_count",),
}
_SPEC = {
    "drafts": "spec_decode_num_drafts_total",
    "draft_tokens": "spec_decode_num_draft_tokens_total",
    "accepted": "spec_decode_num_accepted_tokens_total",
}
_PER_POSITION = "spec_decode_num_accepted_tokens_per_pos_total"
_CONFIG = {
    "kv_cache_size_tokens": "kv_cache_size_tokens",
    "num_gpu_blocks": "num_gpu_blocks",
    "block_size": "block_size",
    "gpu_memory_utilization": "gpu_memory_utilization",
    "max_concurrency": "kv_cache_max_concurrency",
}
_PREFIXES = ("vllm:", "vllm_")


@dataclass(frozen=True)
class EngineMetrics:
    """One model's numbers; a name that is absent was not exported.

    `partial`: names that not every engine of the model exports here; no sum of them is taken.
    """

    model: str
    numbers: Mapping[str, float]
    success: Mapping[str, float]
    waiting_by_reason: Mapping[str, float]
    kv_usage: float | None
    kv_usage_name: str | None
    spec: Mapping[str, float] | None
    accepted_per_position: tuple[float, ...]
    config: Mapping[str, float]
    partial: tuple[str, ...] = ()


def read_engines(exposition: Exposition) -> tuple[EngineMetrics, ...]:
    """Return the numbers of each model in the order of the text."""
    by_model: dict[str, dict[str, list[Sample]]] = {}
    for sample in exposition.samples:
        name = _bare(sample.series.name)
        if name is not None:
            model = sample.series.labels.get("model_name", "")
            by_model.setdefault(model, {}).setdefault(name, []).append(sample)
    # The configuration carries no model name; it belongs to the only model there is.
    shared = by_model.pop("", {})
    if not by_model and shared:
        by_model[""] = {}
    return tuple(_engine(model, {**shared, **named}) for model, named in by_model.items())


def _bare(name: str) -> str | None:
    for prefix in _PREFIXES:
        if name.startswith(prefix):
            return name[len(prefix) :]
    return None


def _engine(model: str, all_named: Mapping[str, list[Sample]]) -> EngineMetrics:
    named, partial = _of_all_engines(all_named)
    numbers = {}
    for ours, theirs in _COUNTS.items():
        found = next((total(named[n]) for n in theirs if n in named), None)
        if found is not None:
            numbers[ours] = found
    usage, usage_name = _kv_usage(named)
    spec = {ours: t for ours, n in _SPEC.items() if (t := total(named.get(n, ()))) is not None}
    return EngineMetrics(
        model,
        numbers,
        _by_label(named.get("request_success_total", ()), "finished_reason"),
        _by_label(named.get("num_requests_waiting_by_reason", ()), "reason"),
        usage,
        usage_name,
        spec or None,
        tuple(_by_label(named.get(_PER_POSITION, ()), "position").values()),
        _config(all_named),
        partial,
    )


def _of_all_engines(
    named: Mapping[str, list[Sample]],
) -> tuple[dict[str, list[Sample]], tuple[str, ...]]:
    """Leave out the names that some engine lacks: the text may be cut between two engines."""
    engines = {name: _engine_labels(samples) for name, samples in named.items()}
    everyone = set().union(*engines.values())
    partial = tuple(n for n, told in engines.items() if told and told != everyone)
    return {n: s for n, s in named.items() if n not in partial}, partial


def _engine_labels(samples: list[Sample]) -> set[str]:
    return {s.series.labels["engine"] for s in samples if "engine" in s.series.labels}


def _kv_usage(named: Mapping[str, list[Sample]]) -> tuple[float | None, str | None]:
    """Return the largest usage of any engine: a mean would hide the full one."""
    for name in ("kv_cache_usage_perc", "gpu_cache_usage_perc"):
        values = [v for s in named.get(name, ()) if (v := read_value(s.value)) is not None]
        if values:
            return max(values), name
    return None, None


def _by_label(samples: list[Sample] | tuple[()], label: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for sample in samples:
        key = sample.series.labels.get(label, "")
        if (value := read_value(sample.value)) is not None:
            found[key] = found.get(key, 0.0) + value
    return {key: value for key, value in found.items() if read_value(value) is not None}


def _config(named: Mapping[str, list[Sample]]) -> dict[str, float]:
    """Read `cache_config_info`: its value is always 1, what it says stands in its labels."""
    for sample in named.get("cache_config_info", ()):
        found = {}
        for ours, theirs in _CONFIG.items():
            value = _number(sample.series.labels.get(theirs, ""))
            if value is not None:
                found[ours] = value
        return found
    return {}


def _number(word: str) -> float | None:
    try:
        return read_value(float(word)) if word.isascii() and "_" not in word else None
    except ValueError:
        return None
