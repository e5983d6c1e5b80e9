"""The numbers of one engine and how Prometheus's client writes them.

Counts come from the scheduler; rendering joins a constant prefix a sample with its value.
"""

import os
import time
from bisect import bisect_left
from dataclasses import replace
from typing import TYPE_CHECKING

from .memory import KvPlan
from .metric_names import COUNTER, FAMILIES, HISTOGRAM, Family, token_buckets
from .models import ModelShape
from .plan import Plan

if TYPE_CHECKING:
    from .generation import Core, Sequence


def spell(value: float) -> str:
    """Spell a number as the Prometheus client does: 0.0, 12.5, 1.7959891203e+09."""
    text = repr(float(value))
    dot = text.find(".")
    if value > 0 and dot > 6 and "e" not in text:
        mantissa = f"{text[0]}.{text[1:dot]}{text[dot + 1 :]}".rstrip("0.")
        return f"{mantissa}e+{dot - 1:02d}"
    return text


class Histogram:
    """Bucket counts of one series."""

    def __init__(self, buckets: tuple[float, ...]) -> None:
        self.buckets = buckets
        self.counts = [0] * (len(buckets) + 1)
        self.sum = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        self.counts[bisect_left(self.buckets, value)] += times
        self.sum += value * times


class Metrics:
    """All series of one API server."""

    def __init__(self, plan: Plan, shape: ModelShape, kv: KvPlan) -> None:
        self.plan = plan
        self.kv = kv
        self.model = plan.served_names[0]
        self.engines = plan.dp
        self.created = time.time()
        self.cores: list[Core] = []
        self.awake = 1.0
        self.acceptance = shape.acceptance
        self.families = [self._with_positions(f) for f in FAMILIES if self._is_served(f)]
        tokens = token_buckets(plan.max_len(shape))
        self.counters: dict[tuple[str, int, str], float] = {}
        self.histograms: dict[tuple[str, int], Histogram] = {}
        for family in self.families:
            for engine in range(self.engines if family.per_engine else 1):
                if family.kind == HISTOGRAM:
                    buckets = tuple(float(b) for b in family.buckets) or tokens
                    self.histograms[family.name, engine] = Histogram(buckets)
                elif family.kind == COUNTER:
                    for value in family.values:
                        self.counters[family.name, engine, value] = 0.0
        self.http: dict[tuple[str, str, str], int] = {}
        self.prompt_seen = 0
        self.generated_seen = 0

    def _is_served(self, family: Family) -> bool:
        if family.speculative and not self.plan.spec_tokens:
            return False
        return self.plan.version_at_least(*family.since)

    def _with_positions(self, family: Family) -> Family:
        """Give the one family that is counted by draft position its positions."""
        if family.label != "position":
            return family
        return replace(family, values=tuple(str(place) for place in range(self.plan.spec_tokens)))

    # -- what the scheduler tells ---------------------------------------------------------------

    def add(self, name: str, engine: int, amount: float, label: str = "") -> None:
        key = (name, engine, label)
        if key in self.counters:
            self.counters[key] += amount

    def observe(self, name: str, engine: int, value: float, times: int = 1) -> None:
        histogram = self.histograms.get((name, engine))
        if histogram is not None:
            histogram.observe(value, times)

    def admitted(self, engine: int, sequence: "Sequence") -> None:
        """Count a request that entered the batch: prompt and prefix cache."""
        length, cached = len(sequence.prompt), sequence.cached_tokens
        if self.plan.prefix_caching:
            self.add("prefix_cache_queries", engine, length)
            self.add("prefix_cache_hits", engine, cached)
        self.add("prompt_tokens_cached", engine, cached)
        self.add("prompt_tokens_by_source", engine, length - cached, "local_compute")
        self.add("prompt_tokens_by_source", engine, cached, "local_cache_hit")
        self.add("prompt_tokens_cached_by_source", engine, cached, "device")

    def tokens(self, engine: int, sequence: "Sequence", count: int, now: float) -> None:
        """Count tokens delivered in one step."""
        if sequence.sent == 0:
            self.add("prompt_tokens", engine, len(sequence.prompt))
            self.prompt_seen += len(sequence.prompt)
            self.observe("time_to_first_token_seconds", engine, now - sequence.arrived_at)
            self.observe("iteration_tokens_total", engine, len(sequence.prompt) + count)
        else:
            between = (now - sequence.last_at) / count
            self.observe("inter_token_latency_seconds", engine, between, count)
            self.observe("iteration_tokens_total", engine, 1, count)
        self.add("generation_tokens", engine, count)
        self.generated_seen += count
        if self.plan.spec_tokens:
            self._speculate(engine)

    def _speculate(self, engine: int) -> None:
        """Derive the draft counters from the tokens made, so that they agree at any time."""
        rates = [self.acceptance ** (place + 1) for place in range(self.plan.spec_tokens)]
        made = self.counters["generation_tokens", engine, ""]
        drafts = int(made / (1 + sum(rates)))
        accepted = [int(drafts * rate) for rate in rates]
        for place, count in enumerate(accepted):
            name = "spec_decode_num_accepted_tokens_per_pos"
            self.counters[name, engine, str(place)] = float(count)
        self.counters["spec_decode_num_drafts", engine, ""] = float(drafts)
        self.counters["spec_decode_num_draft_tokens", engine, ""] = float(drafts * len(rates))
        self.counters["spec_decode_num_accepted_tokens", engine, ""] = float(sum(accepted))

    def finished(self, engine: int, sequence: "Sequence", reason: str, now: float) -> None:
        """Count a request's end; an aborted one only by its reason."""
        self.add("request_success", engine, 1, reason)
        if reason == "abort" or not sequence.sent:
            return
        decode_s = sequence.last_at - sequence.first_at if sequence.sent > 1 else 0.0
        running_s = now - sequence.admitted_at
        values = {
            "request_prompt_tokens": len(sequence.prompt),
            "request_generation_tokens": sequence.sent,
            "request_max_num_generation_tokens": sequence.sent,
            "request_params_n": 1,
            "request_params_max_tokens": sequence.max_tokens,
            "request_num_preemptions": 0,
            "request_prefill_kv_computed_tokens": len(sequence.prompt) - sequence.cached_tokens,
            "e2e_request_latency_seconds": now - sequence.arrived_at,
            "request_queue_time_seconds": sequence.admitted_at - sequence.arrived_at,
            "request_inference_time_seconds": running_s,
            "request_prefill_time_seconds": running_s - decode_s,
            "request_decode_time_seconds": decode_s,
            "request_time_per_output_token_seconds": decode_s / max(1, sequence.sent - 1),
        }
        for name, value in values.items():
            self.observe(name, engine, max(0.0, value))

    def answered(self, handler: str, method: str, status: int) -> None:
        """Count one HTTP answer; health, metrics and the like are not instrumented."""
        if handler not in ("/health", "/metrics", "/ping", "/version", "/load"):
            key = (handler, method, f"{status // 100}xx")
            self.http[key] = self.http.get(key, 0) + 1

    # -- rendering -----------------------------------------------------------------------------

    def render(self) -> str:
        """Write the whole page."""
        lines: list[str] = []
        if self.engines == 1:
            # Several API servers use Prometheus's multi-process mode, which has no process series.
            lines += process_lines()
        for family in self.families:
            self._family(lines, family)
        lines += self._cache_config()
        lines += self._http()
        return "\n".join(lines) + "\n"

    def _family(self, lines: list[str], family: Family) -> None:
        name = f"vllm:{family.name}" + ("_total" if family.kind == COUNTER else "")
        lines.append(f"# HELP {name} {family.help}")
        lines.append(f"# TYPE {name} {family.kind}")
        labels = []
        for engine in range(self.engines if family.per_engine else 1):
            for value in family.values:
                labels.append((engine, value, self._labels(family, engine, value)))
        for engine, value, text in labels:
            if family.kind == HISTOGRAM:
                self._histogram(lines, family, engine)
            elif family.kind == COUNTER:
                amount = self.counters[family.name, engine, value]
                lines.append(f"{name}{{{text}}} {spell(amount)}")
            else:
                lines.append(f"{name}{{{text}}} {spell(self._gauge(family.name, engine, value))}")
        if family.kind != "gauge" and self.engines == 1:
            base = f"vllm:{family.name}_created"
            lines.append(f"# HELP {base} {family.help}")
            lines.append(f"# TYPE {base} gauge")
            lines += [f"{base}{{{text}}} {spell(self.created)}" for _, _, text in labels]

    def _labels(self, family: Family, engine: int, value: str) -> str:
        pairs = {"model_name": self.model}
        if family.per_engine:
            pairs["engine"] = str(engine)
        if family.label:
            pairs[family.label] = value
        return ",".join(f'{key}="{pairs[key]}"' for key in sorted(pairs))

    def _histogram(self, lines: list[str], family: Family, engine: int) -> None:
        histogram = self.histograms[family.name, engine]
        head = f'vllm:{family.name}_bucket{{engine="{engine}",le="'
        tail = f'",model_name="{self.model}"}} '
        total = 0
        for bound, count in zip(histogram.buckets, histogram.counts, strict=False):
            total += count
            lines.append(f"{head}{bound}{tail}{total}.0")
        total += histogram.counts[-1]
        lines.append(f"{head}+Inf{tail}{total}.0")
        labels = f'{{engine="{engine}",model_name="{self.model}"}}'
        lines.append(f"vllm:{family.name}_count{labels} {total}.0")
        lines.append(f"vllm:{family.name}_sum{labels} {spell(histogram.sum)}")

    def _gauge(self, name: str, engine: int, value: str) -> float:
        if name == "engine_sleep_state":
            return self.awake if value == "awake" else 0.0
        core = self.cores[engine] if engine < len(self.cores) else None
        if core is None:
            return 0.0
        if name == "num_requests_running":
            return float(len(core.running))
        if name == "kv_cache_usage_perc":
            return core.used_blocks() / max(1, self.kv.blocks)
        return 0.0 if value == "deferred" else float(len(core.waiting))

    def _cache_config(self) -> list[str]:
        lines = [
            "# HELP vllm:cache_config_info Information of the LLMEngine CacheConfig",
            "# TYPE vllm:cache_config_info gauge",
        ]
        for engine in range(self.engines):
            pairs = self._cache_labels() | {"engine": str(engine)}
            text = ",".join(f'{key}="{pairs[key]}"' for key in sorted(pairs))
            lines.append(f"vllm:cache_config_info{{{text}}} 1.0")
        return lines

    def _cache_labels(self) -> dict[str, object]:
        plan, kv = self.plan, self.kv
        unset = (
            "cache_hit_alignment_tokens hash_block_size kv_cache_layout kv_cache_memory_bytes"
            " kv_offloading_size mamba_block_size mamba_page_size_padded num_cpu_blocks"
            " num_gpu_blocks_override prefix_match_unit skip_page_size_padded sliding_window"
        )
        switches = (
            "enable_mamba_shared_prefix_checkpoint is_attention_free kv_sharing_fast_prefill"
            " use_kda_recoverssm use_replayssm"
        )
        return {
            **dict.fromkeys(unset.split(), "None"), **dict.fromkeys(switches.split(), "False"),
            "_block_size_resolved": "True", "block_size": kv.block_size,
            "cache_dtype": plan.kv_cache_dtype, "effective_attention_block_size": kv.block_size,
            "enable_prefix_caching": plan.prefix_caching,
            "gpu_memory_utilization": plan.memory_utilization, "kv_cache_dtype_skip_layers": "[]",
            "kv_cache_max_concurrency": kv.concurrency, "kv_cache_size_tokens": kv.tokens,
            "kv_offloading_backend": "native", "mamba_cache_dtype": "auto",
            "mamba_cache_mode": "none", "mamba_ssm_cache_dtype": "auto",
            "num_gpu_blocks": kv.blocks, "prefix_cache_retention_interval": 0,
            "prefix_caching_hash_algo": "sha256", "replayssm_buffer_len": 16,
            "swa_bounded_replay": "True", "user_specified_block_size": plan.block_size is not None,
        }  # fmt: skip

    def _http(self) -> list[str]:
        lines = [
            "# HELP http_requests_total Total number of requests by method, status and handler.",
            "# TYPE http_requests_total counter",
        ]
        for (handler, method, status), count in self.http.items():
            labels = f'handler="{handler}",method="{method}",status="{status}"'
            lines.append(f"http_requests_total{{{labels}}} {count}.0")
        return lines


def process_lines() -> list[str]:
    """Write the process series of the Prometheus client from this process itself."""
    times = os.times()
    page = os.sysconf("SC_PAGE_SIZE")
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            virtual, resident = (int(word) * page for word in file.read().split()[:2])
        open_fds = len(os.listdir("/proc/self/fd"))
    except OSError:
        return []
    values = (
        ("virtual_memory_bytes", "gauge", "Virtual memory size in bytes.", virtual),
        ("resident_memory_bytes", "gauge", "Resident memory size in bytes.", resident),
        (
            "start_time_seconds", "gauge",
            "Start time of the process since unix epoch in seconds.", STARTED,
        ),
        (
            "cpu_seconds_total", "counter", "Total user and system CPU time spent in seconds.",
            times.user + times.system,
        ),
        ("open_fds", "gauge", "Number of open file descriptors.", open_fds),
    )  # fmt: skip
    lines = []
    for name, kind, text, value in values:
        lines.append(f"# HELP process_{name} {text}")
        lines.append(f"# TYPE process_{name} {kind}")
        lines.append(f"process_{name} {spell(value)}")
    return lines


STARTED = time.time()
