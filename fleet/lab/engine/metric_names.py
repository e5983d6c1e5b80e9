"""The series of vLLM's /metrics: names, kinds, first version, extra label, help, buckets.

From a real 0.32 scrape; the first version of each from ten releases' sources.
"""

from dataclasses import dataclass

COUNTER, GAUGE, HISTOGRAM = "counter", "gauge", "histogram"
REASONS = ("stop", "length", "abort", "error", "repetition")
SOURCES = ("local_compute", "local_cache_hit", "external_kv_transfer")
TIERS = ("device", "host", "p2p", "disk", "external_unspecified")
SECONDS = (
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0,
    240.0, 480.0, 960.0, 1920.0, 7680.0,
)  # fmt: skip
FIRST_TOKEN = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
    20.0, 40.0, 80.0, 160.0, 640.0, 2560.0,
)  # fmt: skip
BETWEEN_TOKENS = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0,
    40.0, 80.0,
)  # fmt: skip
ITERATION = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
FEW = (1, 2, 5, 10, 20)
PREEMPTIONS = (1, 2, 3, 4, 5, 10, 20)


@dataclass(frozen=True)
class Family:
    """One family below `vllm:`; a counter is exposed with `_total`."""

    name: str
    kind: str
    help: str
    since: tuple[int, int] = (0, 10)
    label: str = ""
    values: tuple[str, ...] = ("",)
    buckets: tuple[float, ...] = ()
    per_engine: bool = True
    speculative: bool = False


def _flops(what: str, name: str) -> Family:
    text = f"Estimated number of {what} (for Model Flops Utilization calculations)."
    return Family(f"estimated_{name}_per_gpu", COUNTER, text, (0, 17))


FAMILIES = (
    _flops("floating point operations per GPU", "flops"),
    _flops("bytes read from memory per GPU", "read_bytes"),
    _flops("bytes written to memory per GPU", "write_bytes"),
    Family("num_requests_running", GAUGE, "Number of requests in model execution batches."),
    Family("num_requests_waiting", GAUGE, "Number of requests waiting to be processed."),
    Family(
        "num_requests_waiting_by_reason", GAUGE,
        "Number of waiting requests by reason. Reason labels: 'capacity' = waiting for scheduling"
        " capacity; 'deferred' = deferred by transient constraints (LoRA budget, KV transfer,"
        " blocked status). Sum of all reasons equals vllm:num_requests_waiting.",
        (0, 20), "reason", ("capacity", "deferred"),
    ),
    Family(
        "engine_sleep_state", GAUGE,
        "Engine sleep state; awake = 0 means engine is sleeping; awake = 1 means engine is awake;"
        " weights_offloaded = 1 means sleep level 1; discard_all = 1 means sleep level 2.",
        (0, 12), "sleep_state", ("awake", "weights_offloaded", "discard_all"),
    ),
    Family("kv_cache_usage_perc", GAUGE, "KV-cache usage. 1 means 100 percent usage."),
    Family(
        "prefix_cache_queries", COUNTER,
        "Prefix cache queries, in terms of number of queried tokens.",
    ),
    Family(
        "prefix_cache_hits", COUNTER, "Prefix cache hits, in terms of number of cached tokens."
    ),
    Family(
        "external_prefix_cache_queries", COUNTER,
        "External prefix cache queries from KV connector cross-instance cache sharing, in terms of"
        " number of queried tokens.", (0, 12),
    ),
    Family(
        "external_prefix_cache_hits", COUNTER,
        "External prefix cache hits from KV connector cross-instance cache sharing, in terms of"
        " number of cached tokens.", (0, 12),
    ),
    Family(
        "mm_cache_queries", COUNTER,
        "Multi-modal cache queries, in terms of number of queried items.", (0, 12),
    ),
    Family(
        "mm_cache_hits", COUNTER,
        "Multi-modal cache hits, in terms of number of cached items.", (0, 12),
    ),
    Family("num_preemptions", COUNTER, "Cumulative number of preemption from the engine."),
    Family("prompt_tokens", COUNTER, "Number of prefill tokens processed."),
    Family(
        "prompt_tokens_by_source", COUNTER, "Number of prompt tokens by source.", (0, 17),
        "source", SOURCES,
    ),
    Family(
        "prompt_tokens_cached", COUNTER, "Number of cached prompt tokens (local + external).",
        (0, 17),
    ),
    Family(
        "prompt_tokens_cached_by_source", COUNTER,
        "Prefix-cache hit tokens by the cache tier that supplied them: device (local HBM), host"
        " (offloaded to DRAM), disk, p2p (transferred from another vLLM instance) or"
        " external_unspecified. Counted at admission; sums to vllm:prefix_cache_hits +"
        " vllm:external_prefix_cache_hits.", (0, 32), "source", TIERS,
    ),
    Family("generation_tokens", COUNTER, "Number of generation tokens processed."),
    Family(
        "request_success", COUNTER, "Count of successfully processed requests.",
        label="finished_reason", values=REASONS,
    ),
    Family(
        "admission_rejections", COUNTER,
        "Number of admission attempts rejected by a queue limit, by reason.", (0, 32), "reason",
        ("max_num_queued_reqs", "max_num_queued_tokens"), per_engine=False,
    ),
    Family("request_prompt_tokens", HISTOGRAM, "Number of prefill tokens processed."),
    Family("request_generation_tokens", HISTOGRAM, "Number of generation tokens processed."),
    Family(
        "iteration_tokens_total", HISTOGRAM, "Histogram of number of tokens per engine_step.",
        buckets=ITERATION,
    ),
    Family(
        "request_max_num_generation_tokens", HISTOGRAM,
        "Histogram of maximum number of requested generation tokens.",
    ),
    Family(
        "request_params_n", HISTOGRAM, "Histogram of the n request parameter.", buckets=FEW
    ),
    Family(
        "request_params_max_tokens", HISTOGRAM, "Histogram of the max_tokens request parameter."
    ),
    Family(
        "time_to_first_token_seconds", HISTOGRAM, "Histogram of time to first token in seconds.",
        buckets=FIRST_TOKEN,
    ),
    Family(
        "inter_token_latency_seconds", HISTOGRAM, "Histogram of inter-token latency in seconds.",
        (0, 12), buckets=BETWEEN_TOKENS,
    ),
    Family(
        "request_time_per_output_token_seconds", HISTOGRAM,
        "Histogram of time_per_output_token_seconds per request.", (0, 12),
        buckets=BETWEEN_TOKENS,
    ),
    Family(
        "e2e_request_latency_seconds", HISTOGRAM, "Histogram of e2e request latency in seconds.",
        buckets=SECONDS,
    ),
    Family(
        "request_queue_time_seconds", HISTOGRAM,
        "Histogram of time spent in WAITING phase for request.", buckets=SECONDS,
    ),
    Family(
        "request_inference_time_seconds", HISTOGRAM,
        "Histogram of time spent in RUNNING phase for request.", buckets=SECONDS,
    ),
    Family(
        "request_prefill_time_seconds", HISTOGRAM,
        "Histogram of time spent in PREFILL phase for request.", buckets=SECONDS,
    ),
    Family(
        "request_decode_time_seconds", HISTOGRAM,
        "Histogram of time spent in DECODE phase for request.", buckets=SECONDS,
    ),
    Family(
        "request_num_preemptions", HISTOGRAM,
        "Histogram of the number of times a request was preempted.", (0, 30),
        buckets=PREEMPTIONS,
    ),
    Family(
        "request_prefill_kv_computed_tokens", HISTOGRAM,
        "Histogram of new KV tokens computed during prefill (excluding cached tokens).", (0, 15),
    ),
    Family(
        "spec_decode_num_drafts", COUNTER, "Number of spec decoding drafts.", speculative=True
    ),
    Family(
        "spec_decode_num_draft_tokens", COUNTER, "Number of draft tokens.", speculative=True
    ),
    Family(
        "spec_decode_num_accepted_tokens_per_pos", COUNTER, "Accepted tokens per draft position.",
        label="position", speculative=True,
    ),
    Family(
        "spec_decode_num_accepted_tokens", COUNTER, "Number of accepted tokens.",
        speculative=True,
    ),
)  # fmt: skip


def token_buckets(max_model_len: int) -> tuple[float, ...]:
    """Return 1, 2, 5, 10, 20, 50 ... up to the longest request."""
    found: list[float] = []
    power = 1
    while True:
        for factor in (1, 2, 5):
            if factor * power > max_model_len:
                return tuple(found)
            found.append(float(factor * power))
        power *= 10
