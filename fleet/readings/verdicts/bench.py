"""What the pasted summary of a load test says: whether it is whole, and whether requests failed.

Speeds are good or bad only beside an earlier run or a target; that is a rule's work.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fleet.readings.bench import BenchText, read_bench
from fleet.readings.bench.run import BenchRun, contradictions
from fleet.readings.report import Finding, Report, lead, verdict_of
from fleet.readings.told import tell, tell_all

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
        for finding in [*_request_findings(found, run), *_whole_findings(run)]:
            text = finding.text
            if len(found.runs) > 1:
                text = tell("summary %(number)s: %(text)s", number=number, text=text)
            yield Finding(finding.id, finding.severity, text, finding.lines)
    if found.failures:
        lines = tuple(line for line, _ in found.failures)
        last = found.failures[-1][1]
        if not found.runs:
            text = tell("the load test broke off: %(line)s", line=last)
            yield Finding("bench_failed", "error", text, lines)
        else:
            text = tell("errors stand beside the summary: %(line)s", line=last)
            yield Finding("error_lines", "warn", text, lines)
    if len(found.runs) > 1:
        text = tell(
            "%(count)s summaries stand in this text; each has its own values", count=len(found.runs)
        )
        lines = tuple(run.line for run in found.runs)
        yield Finding("several_summaries", "info", text, lines)


def _request_findings(found: BenchText, run: BenchRun) -> Iterator[Finding]:
    successful, failed = run.number("successful"), run.number("failed")
    lines = tuple(run.labels[key] for key in ("successful", "failed") if key in run.labels)
    lines = lines or (run.line,)
    if _all_failed(run):
        text = tell("no request succeeded: the zeros of this summary are no measurement")
        if failed:
            text = tell(
                "no request succeeded (%(failed)s): the zeros of this summary are no measurement",
                failed=f"{failed:g}",
            )
        yield Finding("all_requests_failed", "error", text, lines)
        return
    if failed:
        text = tell(
            "%(failed)s requests failed beside %(successful)s that succeeded",
            failed=f"{failed:g}",
            successful=f"{successful or 0:g}",
        )
        yield Finding("requests_failed", "warn", text, lines)
    asked = _asked(found, run)
    if asked is not None and successful is not None and successful + (failed or 0) < asked:
        text = tell(
            "%(asked)s requests were asked for, %(successful)s succeeded",
            asked=f"{asked:g}",
            successful=f"{successful:g}",
        )
        yield Finding("requests_missing", "warn", text, lines)
    if failed is None and asked is None and run.values:
        text = tell("the summary does not tell how many requests failed: unknown, not 0")
        yield Finding("failed_unknown", "info", text, lines)
    if successful is not None and 0 < successful < _FEW:
        text = tell(
            "a 99th percentile over %(successful)s requests is no more than their worst one",
            successful=f"{successful:g}",
        )
        yield Finding("few_requests", "info", text, lines)
    if successful and run.number("output_tokens") == 0:
        text = tell("requests succeeded and not one token was generated")
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
        text = tell(
            "%(offered)s requests a second were offered, %(reached)s answered: requests queued",
            offered=f"{offered:g}",
            reached=f"{reached:g}",
        )
        yield Finding("rate_not_reached", "warn", text, (run.labels.get("req_s", run.line),))


def _whole_findings(run: BenchRun) -> Iterator[Finding]:
    if run.problems:
        text = tell_all(run.problems[:6])
        yield Finding("incomplete", "warn", text, tuple(run.problem_lines) or (run.line,))
    if odd := list(contradictions(run)):
        text = tell("%(odd)s: edited, or lines of two outputs", odd=tell_all(odd))
        yield Finding("contradiction", "warn", text, (run.labels.get("duration_s", run.line),))
    good, reached = run.number("goodput_req_s"), run.number("req_s")
    if good is not None and reached and good < reached:
        text = tell(
            "goodput %(good)s of %(reached)s requests a second: the others missed their target",
            good=f"{good:g}",
            reached=f"{reached:g}",
        )
        yield Finding("goodput_below", "info", text, (run.labels.get("goodput_req_s", run.line),))


def _summary(found: BenchText) -> str:
    if not found.runs:
        return tell("No summary of a load test in this text.")
    if len(found.runs) > 1:
        return tell("%(count)s summaries of load tests in this text.", count=len(found.runs))
    run = found.runs[0]
    if not run.is_whole:
        return tell(
            "The summary of %(tool)s is not whole: %(why)s.", tool=run.tool, why=run.problems[0]
        )
    count = run.number("successful") or run.number("request_count")
    told = [tell("requests not counted")]
    if count is not None:
        told = [tell("%(count)s requests", count=f"{count:g}")]
    units = {
        "req_s": tell("req/s"),
        "out_tok_s": tell("output tokens/s"),
        "mean_ttft_ms": tell("ms TTFT"),
    }
    for key, unit in units.items():
        number = run.number(key)
        if number is not None:
            told.append(tell("%(number)s %(unit)s", number=f"{number:g}", unit=unit))
    return tell("%(tool)s: %(told)s.", tool=run.tool, told=tell_all(told, ", "))


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
