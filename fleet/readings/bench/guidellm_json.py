"""The JSON of guidellm: a list of benchmarks, each with distributions by the fate of its requests.

Only the figures of successful requests are taken. Milliseconds and seconds are in the tool's own names; only
`request_latency` is seconds without saying so. Source: guidellm benchmark/schemas/generative/metrics.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fleet.readings.bench.run import BenchRun, plain_number
from fleet.readings.told import tell

_TIMES = {
    "time_to_first_token_ms": ("ttft", "ms"),
    "inter_token_latency_ms": ("itl", "ms"),
    "time_per_output_token_ms": ("tpot", "ms"),
    "request_latency": ("latency", "s"),
}
_RATES = {
    "requests_per_second": "req_s",
    "output_tokens_per_second": "out_tok_s",
    "tokens_per_second": "total_tok_s",
    "request_concurrency": "mean_concurrent",
}
_SUMS = {"prompt_token_count": "input_tokens", "output_token_count": "output_tokens"}
_WORDS = {"mean": "mean", "median": "median", "std_dev": "std", "min": "min", "max": "max"}
_PERCENTILES = ("p50", "p90", "p95", "p99", "p999")
_FATES = {"successful": "successful", "errored": "failed", "incomplete": "unfinished"}


def guidellm_runs(benchmarks: list[Any], line: int) -> list[BenchRun]:
    """Read each benchmark of a file as one run; a file without one is a run that is not whole."""
    runs = [_run(found, line) for found in benchmarks if isinstance(found, dict)]
    if not runs or len(runs) != len(benchmarks):
        run = BenchRun("guidellm", "json", line)
        why = tell("a benchmark has no form") if runs else tell("no benchmark stands in this file")
        run.note(why, line)
        runs.append(run)
    return runs


def _run(found: Mapping[str, Any], line: int) -> BenchRun:
    run = BenchRun("guidellm", "json", line, is_closed=True)
    metrics = _inner(found, "metrics")
    strategy = _inner(found, "config", "strategy") or _inner(found, "args", "strategy")
    if isinstance(kind := strategy.get("type_"), str):
        run.values["strategy"] = kind[:80]
    if (duration := plain_number(found.get("duration"))) is not None:
        run.values["duration_s"] = duration
    totals = _totals(found, metrics)
    for theirs, ours in _FATES.items():
        if (count := plain_number(totals.get(theirs))) is not None:
            run.values[ours] = count
    run.values |= dict(_figures(metrics))
    missing = [key for key in ("successful", "failed", "req_s") if key not in run.values]
    if missing:
        run.note(tell("fields are missing: %(names)s", names=", ".join(missing)), line)
    return run


def _totals(found: Mapping[str, Any], metrics: Mapping[str, Any]) -> Mapping[str, Any]:
    """The counts of requests by their fate, wherever a version of the tool keeps them."""
    return (
        _inner(metrics, "request_totals")
        or _inner(found, "request_totals")
        or _inner(found, "scheduler_metrics", "requests_made")
        or _inner(found, "run_stats", "requests_made")
    )


def _figures(metrics: Mapping[str, Any]) -> Iterator[tuple[str, int | float]]:
    for name, (metric, unit) in _TIMES.items():
        cells = _inner(metrics, name, "successful")
        told = {ours: cells.get(theirs) for theirs, ours in _WORDS.items()}
        told |= {word: _inner(cells, "percentiles").get(word) for word in _PERCENTILES}
        for word, value in told.items():
            if (number := plain_number(value)) is not None:
                yield f"{word}_{metric}_{unit}", number
    for keys, statistic in ((_RATES, "mean"), (_SUMS, "total_sum")):
        for name, ours in keys.items():
            if (
                number := plain_number(_inner(metrics, name, "successful").get(statistic))
            ) is not None:
                yield ours, number


def _inner(found: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    for name in names:
        inner = found.get(name)
        if not isinstance(inner, dict):
            return {}
        found = inner
    return found
