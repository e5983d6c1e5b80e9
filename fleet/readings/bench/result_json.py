"""Result files of load generators as JSON: one object, one a line, a list, or inside a log.

Summary fields are milliseconds and the arrays beside them (ttfts, itls) are seconds; only the
summary is read, arrays give their length. Source: vLLM `bench serve --save-result`, sglang
`bench_serving --output-file`, aiperf `profile_export_aiperf.json`.
"""

from __future__ import annotations

import json
import re
from typing import Any

from fleet.readings.bench.guidellm_json import guidellm_runs
from fleet.readings.bench.run import BenchRun, finite, plain_number
from fleet.readings.told import tell

_SAME = {
    "duration": "duration_s",
    "completed": "successful",
    "total_input_tokens": "input_tokens",
    "total_output_tokens": "output_tokens",
    "request_throughput": "req_s",
    "request_goodput": "goodput_req_s",
    "output_throughput": "out_tok_s",
    "input_throughput": "in_tok_s",
    "total_token_throughput": "total_tok_s",
    "total_throughput": "total_tok_s",
    "max_output_tokens_per_s": "peak_out_tok_s",
    "max_concurrent_requests": "peak_concurrent",
    "mean_e2e_latency_ms": "mean_e2el_ms",
    "median_e2e_latency_ms": "median_e2el_ms",
    "p99_e2e_latency_ms": "p99_e2el_ms",
}
_AIPERF = {
    "time_to_first_token": "ttft",
    "inter_token_latency": "itl",
    "request_latency": "latency",
}
_AIPERF_TOTALS = {
    "request_throughput": "req_s",
    "output_token_throughput": "out_tok_s",
    "total_token_throughput": "total_tok_s",
    "request_count": "request_count",
    "error_request_count": "failed",
    "goodput": "goodput_req_s",
}
_REQUIRED = ("completed", "duration", "request_throughput")
# A pair at the head of an object that is whole because a comma follows it.
_PAIR = re.compile(
    r'\s{0,80}"(\w{1,80})": {0,4}("(?:[^"\\]|\\.){0,400}"|-?\d{1,24}(?:\.\d{1,24})?(?:e[+-]?\d{1,3})?'
    r"|null|true|false)\s{0,80},",
    re.IGNORECASE,
)
_OBJECTS_CAP = 256
_KEYS_CAP = 300
_START = re.compile(r"^[^\S\n]{0,16}[\[{]", re.MULTILINE)
_IS_RESULT = re.compile(
    r'"(?:request_throughput|endpoint_type|output_throughput|tokenizer_id|num_prompts|benchmarks)"'
)


def holds_json(text: str) -> bool:
    """Tell whether a text holds keys of a result, whole or not."""
    return _START.search(text) is not None and _IS_RESULT.search(text) is not None


def read_results(text: str) -> list[BenchRun]:
    """Read every result object of a text; of one that does not end, only the pairs at its head."""
    runs: list[BenchRun] = []
    decoder = json.JSONDecoder()
    at, line, counted = 0, 1, 0
    while (start := _START.search(text, at)) is not None and len(runs) < _OBJECTS_CAP:
        line += text.count("\n", counted, start.start())
        counted = start.start()
        try:
            found, at = decoder.raw_decode(text, start.end() - 1)
        except (ValueError, RecursionError):
            at = _next_line(text, start.end())
            if text[start.end() - 1] == "{" and _IS_RESULT.search(text[start.end() :][:65_536]):
                runs.append(_read_torn(text, start.end(), line))
                at = len(text) if "\n" not in text[start.end() :].rstrip() else at
            continue
        runs.extend(_runs_of(found, line))
    return runs


def _read_torn(text: str, at: int, line: int) -> BenchRun:
    head: dict[str, Any] = {}
    while len(head) < _KEYS_CAP and (pair := _PAIR.match(text, at)) is not None:
        raw, at = pair[2], pair.end()
        try:
            head[pair[1]] = json.loads(raw if raw[0] == '"' else raw.lower())
        except ValueError:
            break
    run = _read_serving(head, line)
    if '"benchmarks"' in text[at : at + 65_536]:
        run = BenchRun("guidellm", "json", line)
    run.is_closed, run.problems = False, []
    run.note(tell("the JSON object has no end: it was cut"), line)
    return run


def _next_line(text: str, at: int) -> int:
    feed = text.find("\n", at)
    return len(text) if feed < 0 else feed


def _runs_of(found: Any, line: int) -> list[BenchRun]:
    if isinstance(found, list):
        return [run for item in found[:_OBJECTS_CAP] for run in _runs_of(item, line)]
    if not isinstance(found, dict):
        return []
    if isinstance(found.get("request_throughput"), dict):
        return [_read_aiperf(found, line)]
    if isinstance(found.get("benchmarks"), list) and "request_throughput" not in found:
        return guidellm_runs(found["benchmarks"][:_OBJECTS_CAP], line)
    if "request_throughput" in found or "output_throughput" in found:
        return [_read_serving(found, line)]
    return []


def _read_serving(found: dict[str, Any], line: int) -> BenchRun:
    """Read an object of vLLM or sglang; each field keeps its own name, the usual name beside it."""
    is_sglang = "mean_e2e_latency_ms" in found or "total_output_tokens_retokenized" in found
    run = BenchRun("sglang" if is_sglang else "vllm", "json", line, is_closed=True)
    for key, value in list(found.items())[:_KEYS_CAP]:
        if isinstance(value, list):
            if key in ("ttfts", "itls", "input_lens", "output_lens", "errors"):
                run.values[f"{key}_count"] = len(value)
        elif value is None or isinstance(value, str | int | float):
            run.values[key[:80]] = value[:300] if isinstance(value, str) else finite(value)
    for key, name in _SAME.items():
        if key in run.values and not isinstance(run.values[key], str):
            run.values.setdefault(name, run.values[key])
    run.values.setdefault("requested", run.values.get("num_prompts"))
    if isinstance(errors := found.get("errors"), list):
        run.values["error_texts"] = sum(1 for error in errors if error)
    missing = [key for key in _REQUIRED if key not in run.values]
    if missing:
        run.note(tell("fields are missing: %(names)s", names=", ".join(missing)), line)
    return run


def _read_aiperf(found: dict[str, Any], line: int) -> BenchRun:
    """Read the export of aiperf, where each metric is an object with its unit and statistics."""
    run = BenchRun("aiperf", "json", line, is_closed=True)
    for key, name in _AIPERF_TOTALS.items():
        if isinstance(cell := found.get(key), dict):
            run.values[name] = plain_number(cell.get("avg"))
    for key, metric in _AIPERF.items():
        cell = found.get(key)
        if not isinstance(cell, dict) or cell.get("unit") not in ("ms", "s", "milliseconds"):
            continue
        unit = "s" if cell["unit"] == "s" else "ms"
        for statistic, value in list(cell.items())[:40]:
            word = "mean" if statistic == "avg" else statistic[:16]
            if (number := plain_number(value)) is not None:
                run.values[f"{word}_{metric}_{unit}"] = number
    return run
