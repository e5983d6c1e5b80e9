# ruff: noqa: E501
"""Small results of load generators, of our own, in the forms of their versions."""

from __future__ import annotations

import json

from tests.readings.variant_texts import Variant


def serve(successful: int = 1000, failed: int | None = 0, more: str = "", head: str = "") -> str:
    rate = successful / 50
    out = successful * 128
    return (
        f"{head}============ Serving Benchmark Result ============\n"
        f"Successful requests:                     {successful:<10}\n"
        + (f"Failed requests:                         {failed:<10}\n" if failed is not None else "")
        + "Maximum request concurrency:             64        \n"
        "Benchmark duration (s):                  50.00     \n"
        f"Total input tokens:                      {successful * 1024:<10}\n"
        f"Total generated tokens:                  {out:<10}\n"
        f"Request throughput (req/s):              {rate:<10.2f}\n"
        + more
        + f"Output token throughput (tok/s):         {out / 50:<10.2f}\n"
        f"Total Token throughput (tok/s):          {(out + successful * 1024) / 50:<10.2f}\n"
        "---------------Time to First Token----------------\n"
        "Mean TTFT (ms):                          210.11    \n"
        "Median TTFT (ms):                        199.50    \n"
        "P99 TTFT (ms):                           512.34    \n"
        "-----Time per Output Token (excl. 1st token)------\n"
        "Mean TPOT (ms):                          21.50     \n"
        "Median TPOT (ms):                        21.10     \n"
        "P99 TPOT (ms):                           30.90     \n"
        "---------------Inter-token Latency----------------\n"
        "Mean ITL (ms):                           21.40     \n"
        "Median ITL (ms):                         20.90     \n"
        "P99 ITL (ms):                            60.25     \n"
        "==================================================\n"
    )


SPEC = (
    "---------------Speculative Decoding---------------\n"
    "Acceptance rate (%):                     61.20     \n"
    "Acceptance length:                       2.84      \n"
)
JSON_RESULT = {
    "date": "20261130-200000", "endpoint_type": "openai-chat", "backend": "openai-chat", "model_id": "m",
    "tokenizer_id": "m", "num_prompts": 1000, "request_rate": "inf", "burstiness": 1.0, "max_concurrency": 64,
    "duration": 50.0, "completed": 1000, "failed": 0, "total_input_tokens": 1024000, "total_output_tokens": 128000,
    "request_throughput": 20.0, "request_goodput": None, "output_throughput": 2560.0,
    "total_token_throughput": 23040.0, "mean_ttft_ms": 210.11, "median_ttft_ms": 199.5, "p99_ttft_ms": 512.34,
    "mean_tpot_ms": 21.5, "p99_tpot_ms": 30.9, "mean_itl_ms": 21.4, "p99_itl_ms": 60.25,
}  # fmt: skip
BROKEN = {**JSON_RESULT, "completed": 0, "failed": 1000, "request_throughput": 0.0, "output_throughput": 0.0,
          "total_token_throughput": 0.0, "total_output_tokens": 0, "mean_ttft_ms": 0.0}  # fmt: skip
SOME = {**JSON_RESULT, "completed": 990, "failed": 10, "request_throughput": 19.8}
GUIDELLM = {
    "benchmarks": [
        {
            "config": {"strategy": {"type_": "concurrent", "streams": 64}}, "duration": 50.0,
            "metrics": {
                "request_totals": {"successful": 1000, "errored": 0, "incomplete": 0, "total": 1000},
                "requests_per_second": {"successful": {"mean": 20.0}},
                "output_tokens_per_second": {"successful": {"mean": 2560.0}},
                "time_to_first_token_ms": {"successful": {"mean": 210.0, "median": 199.0, "percentiles": {"p99": 512.0}}},
            },
        }
    ]
}  # fmt: skip
BENCH = [
    Variant("vllm bench serve", "bench", "pass", serve(),
            {"successful": 1000, "failed": 0, "req_s": 20.0, "mean_ttft_ms": 210.11, "p99_itl_ms": 60.25}),
    Variant("with goodput and speculation", "bench", "pass",
            serve(more="Request goodput (req/s):                 20.00     \n").replace("=====\n", "=====\n")
            .replace("-----Time per", SPEC + "-----Time per"), {"goodput_req_s": 20.0, "acceptance_length": 2.84}),
    Variant("with failed requests", "bench", "unknown", serve(failed=7), {"failed": 7}),
    Variant("an old one that counts no failures", "bench", "unknown", serve(failed=None), {}),
    Variant("nothing succeeded", "bench", "fail", serve(0, 1000), {"successful": 0}),
    Variant("behind a container's prefix", "bench", "pass",
            "".join(f"(APIServer pid=7) {row}\n" for row in serve().splitlines()), {"successful": 1000}),
    Variant("JSON in one line", "bench", "pass", json.dumps(JSON_RESULT) + "\n",
            {"successful": 1000, "requested": 1000, "req_s": 20.0, "total_tok_s": 23040.0}),
    Variant("JSON over many lines", "bench", "pass", json.dumps(JSON_RESULT, indent=2) + "\n", {"out_tok_s": 2560.0}),
    Variant("JSON without a success", "bench", "fail", json.dumps(BROKEN) + "\n", {}),
    Variant("JSON with some failed", "bench", "unknown", json.dumps(SOME) + "\n", {"failed": 10}),
    Variant("guidellm JSON", "bench", "pass", json.dumps(GUIDELLM) + "\n",
            {"successful": 1000, "failed": 0, "req_s": 20.0, "p99_ttft_ms": 512.0}),
    Variant("vllm bench latency", "bench", "unknown",
            "Avg latency: 1.234 seconds\n10% percentile latency: 1.1 seconds\n99% percentile latency: 1.9 seconds\n",
            {"mean_latency_s": 1.234, "p99_latency_s": 1.9}),
    Variant("vllm bench throughput", "bench", "unknown",
            "Throughput: 12.50 requests/s, 4000.00 total tokens/s, 1600.00 output tokens/s\n",
            {"req_s": 12.5, "out_tok_s": 1600.0}),
    Variant("it did not start", "bench", "fail",
            "Traceback (most recent call last):\nValueError: Initial test run failed - Please make sure benchmark arguments are correctly specified. Error: Not Found\n",
            {}),
]  # fmt: skip
