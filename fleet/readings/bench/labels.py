"""The labels of serving summaries and the names of their values.

Units are those of the label: ms, s, tok/s, req/s. Source: vLLM `benchmarks/serve.py`, sglang
`bench_serving.py`, vllm-omni `benchmarks/metrics`; versions differ in capitals and in lines left out.
"""

from __future__ import annotations

import re

_NAMES = {
    "successful requests": "successful",
    "failed requests": "failed",
    "request rate configured (rps)": "rate_configured",
    "traffic request rate": "request_rate",
    "burstiness factor": "burstiness",
    "maximum request concurrency": "max_concurrency",
    "max request concurrency": "max_concurrency",
    "benchmark duration (s)": "duration_s",
    "total input tokens": "input_tokens",
    "total input text tokens": "input_text_tokens",
    "total input vision tokens": "input_vision_tokens",
    "total generated tokens": "output_tokens",
    "total generated tokens (retokenized)": "generated_tokens_retokenized",
    "request throughput (req/s)": "req_s",
    "request goodput (req/s)": "goodput_req_s",
    "input token throughput (tok/s)": "in_tok_s",
    "output token throughput (tok/s)": "out_tok_s",
    "peak output token throughput (tok/s)": "peak_out_tok_s",
    "peak concurrent requests": "peak_concurrent",
    "total token throughput (tok/s)": "total_tok_s",
    "concurrency": "concurrency",
    "accept length": "accept_length",
    "acceptance rate (%)": "acceptance_rate_percent",
    "acceptance length": "acceptance_length",
    "backend": "backend",
}
_STATISTIC = re.compile(
    r"(Mean|Median|Std|Min|Max|P\d{1,2}(?:\.\d{1,3})?) ([A-Za-z][\w -]{0,40}?)(?: ?\((ms|s)\))?"
)
_METRICS = {
    "ttft": "ttft", "tpot": "tpot", "itl": "itl", "e2el": "e2el", "e2e latency": "e2el",
    "e2e_latency": "e2el", "tpft": "tpft",
}  # fmt: skip
_SLUG = re.compile(r"[^a-z0-9.]{1,64}")
LATENCIES = ("ttft", "tpot", "itl", "e2el")


def name_label(label: str) -> str | None:
    """Return the name of the value behind a label; None for a label that is not known.

    The first letter must be a capital: `output token throughput` is a torn `Peak output ...`.
    """
    if not label[:1].isupper():
        return None
    known = _NAMES.get(label.lower())
    if known is not None:
        return known
    found = _STATISTIC.fullmatch(label)
    if found is None:
        return None
    metric = _METRICS.get(found[2].lower(), slug(found[2]))
    return f"{found[1].lower()}_{metric}" + (f"_{found[3]}" if found[3] else "")


def slug(label: str) -> str:
    """Return a label as a name: small letters, underscores."""
    return _SLUG.sub("_", label.lower()).strip("_")[:80]
