"""What the pasted summary of a load test says: whether it is whole, and whether requests failed.

Speeds are good or bad only beside an earlier run or a target; that is a rule's work.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fleet.readings.bench import BenchText, read_bench
from fleet.readings.bench.run import BenchRun, contradictions
from fleet.readings.report import Finding, Report, lead, verdict_of

_FEW = 100
_RUNS_SHOWN = 64
_RATE_MISSED = 0.5
_ALIASES = (("output_tokens", "generated_tokens"),)


def report_bench(text: str) -> Report:
    """Judge one capture; a summary without an end, or with lines left out, never passes."""
    found = read_bench(text)
    findings = tuple(_findings(found))
    whole = bool(found.runs) and all(run.is_whole for run in found.runs)
    known_good = whole and not found.failures and all(_is_good(found, r) for r in found.runs)
    return Report(
        kind="bench",
        form=_form(found.runs),
        complete=whole,
        verdict=verdict_of(findings, known_good=known_good),
        summary=lead(findings, _summary(found)),
        findings=findings,
        values=_values(found),
        unread=tuple(found.unread),
    )


def _form(runs: list[BenchRun]) -> str:
    forms = dict.fromkeys(f"{run.tool} {run.form}" for run in runs)
    return ", ".join(list(forms)[:4]) if forms else "none"


def _is_good(found: BenchText, run: BenchRun) -> bool:
    """Every request that was asked for is told to have been answered."""
    successful, failed = run.number("successful"), run.number("failed")
    if not successful or failed or run.number("output_tokens") == 0:
        return False
    asked = _asked(found, run)
    if any(contradictions(run)) or (asked is not None and asked != successful):
        return False
    return failed == 0 or asked is not None


def _asked(found: BenchText, run: BenchRun) -> float | None:
    """Return how many requests the run was asked for, where one command stands by one summary."""
    asked = run.number("requested")
    return asked if asked is not None or len(found.runs) > 1 else found.requested


def _findings(found: BenchText) -> Iterator[Finding]:
    for number, run in enumerate(found.runs[:_RUNS_SHOWN], 1):
        name = f"summary {number}: " if len(found.runs) > 1 else ""
        for finding in [*_request_findings(found, run), *_whole_findings(run)]:
            yield Finding(finding.id, finding.severity, f"{name}{finding.text}", finding.lines)
    if found.failures:
        lines = tuple(line for line, _ in found.failures)
        last = found.failures[-1][1]
        if not found.runs:
            yield Finding("bench_failed", "error", f"the load test broke off: {last}", lines)
        else:
            yield Finding("error_lines", "warn", f"errors stand beside the summary: {last}", lines)
    if len(found.runs) > 1:
        text = f"{len(found.runs)} summaries stand in this text; each has its own values"
        lines = tuple(run.line for run in found.runs)
        yield Finding("several_summaries", "info", text, lines)


def _request_findings(found: BenchText, run: BenchRun) -> Iterator[Finding]:
    successful, failed = run.number("successful"), run.number("failed")
    lines = tuple(run.labels[key] for key in ("successful", "failed") if key in run.labels)
    lines = lines or (run.line,)
    if _all_failed(run):
        count = f" ({failed:g})" if failed else ""
        text = f"no request succeeded{count}: the zeros of this summary are no measurement"
        yield Finding("all_requests_failed", "error", text, lines)
        return
    if failed:
        text = f"{failed:g} requests failed beside {successful or 0:g} that succeeded"
        yield Finding("requests_failed", "warn", text, lines)
    asked = _asked(found, run)
    if asked is not None and successful is not None and successful + (failed or 0) < asked:
        text = f"{asked:g} requests were asked for, {successful:g} succeeded"
        yield Finding("requests_missing", "warn", text, lines)
    if failed is None and asked is None and run.values:
        text = "the summary does not tell how many requests failed: unknown, not 0"
        yield Finding("failed_unknown", "info", text, lines)
    if successful is not None and 0 < successful < _FEW:
        text = f"a 99th percentile over {successful:g} requests is no more than their worst one"
        yield Finding("few_requests", "info", text, lines)
    if successful and run.number("output_tokens") == 0:
        text = "requests succeeded and not one token was generated"
        yield Finding("no_tokens", "warn", text, lines)
    yield from _rate_findings(run)


def _all_failed(run: BenchRun) -> bool:
    """No success is told, or every number that was printed is zero beside failed requests."""
    if run.number("successful") == 0 or run.number("request_count") == 0:
        return True
    return run.number("successful") is None and run.number("req_s") == 0 and run.is_whole


def _rate_findings(run: BenchRun) -> Iterator[Finding]:
    """Compare what was offered with what was answered; a rate above the count is one burst."""
    offered, reached = run.number("rate_configured"), run.number("req_s")
    if offered is None:
        offered = run.number("request_rate")
    successful = run.number("successful")
    if not offered or reached is None or not successful or offered >= successful:
        return
    if reached < _RATE_MISSED * offered:
        text = f"{offered:g} requests a second were offered, {reached:g} answered: requests queued"
        yield Finding("rate_not_reached", "warn", text, (run.labels.get("req_s", run.line),))


def _whole_findings(run: BenchRun) -> Iterator[Finding]:
    if run.problems:
        text = "; ".join(run.problems[:6])
        yield Finding("incomplete", "warn", text, tuple(run.problem_lines) or (run.line,))
    if odd := list(contradictions(run)):
        text = f"{'; '.join(odd)}: edited, or lines of two outputs"
        yield Finding("contradiction", "warn", text, (run.labels.get("duration_s", run.line),))
    good, reached = run.number("goodput_req_s"), run.number("req_s")
    if good is not None and reached and good < reached:
        text = f"goodput {good:g} of {reached:g} requests a second: the others missed their target"
        yield Finding("goodput_below", "info", text, (run.labels.get("goodput_req_s", run.line),))


def _summary(found: BenchText) -> str:
    if not found.runs:
        return "No summary of a load test in this text."
    if len(found.runs) > 1:
        return f"{len(found.runs)} summaries of load tests in this text."
    run = found.runs[0]
    if not run.is_whole:
        return f"The summary of {run.tool} is not whole: {run.problems[0]}."
    count = run.number("successful") or run.number("request_count")
    told = [f"{count:g} requests" if count is not None else "requests not counted"]
    for key, unit in (
        ("req_s", "req/s"),
        ("out_tok_s", "output tokens/s"),
        ("mean_ttft_ms", "ms TTFT"),
    ):
        number = run.number(key)
        if number is not None:
            told.append(f"{number:g} {unit}")
    return f"{run.tool}: {', '.join(told)}."


def _values(found: BenchText) -> dict[str, Any]:
    shown = [_run_values(run) for run in found.runs[:_RUNS_SHOWN]]
    values: dict[str, Any] = {"summaries": len(found.runs), "requested": found.requested}
    if len(shown) == 1:
        asked = shown[0].pop("requested", None)
        values |= shown[0]
        values["requested"] = found.requested if asked is None else asked
    elif shown:
        # Numbers of several summaries stand in `runs` only: no one of them is the text's.
        tools = {told["tool"] for told in shown}
        values["tool"] = shown[0]["tool"] if len(tools) == 1 else None
        values["runs"] = shown
    values["error"] = found.failures[-1][1] if found.failures else None
    values["unread_count"] = len(found.unread)
    return values


def _run_values(run: BenchRun) -> dict[str, Any]:
    """Return the numbers of one summary under their usual names; units are in the names."""
    told = {"tool": run.tool, "line": run.line, "complete": run.is_whole}
    values = dict(run.values)
    for name, alias in _ALIASES:
        if name in values:
            values.setdefault(alias, values[name])
    return told | values
