"""What one run of nccl-tests says for itself, and why it may be no whole measurement."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from fleet.readings.nccl_tests.runs import DEVICES, TestRun
from fleet.readings.report import Finding
from fleet.readings.told import tell

_TABLE_SHOWN = 256
# RDMA between nodes of this class of machine is far above it, TCP over one interface below.
_SOCKET_BUSBW_GBS = 10.0
_LARGE_BYTES = 16 * 1024 * 1024
# Time grows with size: one that takes this many times longer than the next size stalled.
_STALL_RATIO = 1.5


def run_problems(run: TestRun) -> Iterator[Finding]:
    """Yield why a run is no whole measurement; each of them keeps it from passing."""
    lines = (run.line,)
    if run.is_interleaved:
        text = (
            tell(
                "%(count)s jobs print into one another; none of them can be told apart",
                count=run.jobs,
            )
            if run.jobs > 1
            else tell("rows of several jobs print into one another; none of them can be told apart")
        )
        yield Finding("interleaved_runs", "warn", text, tuple(row.line for row in run.rows[:64]))
    if run.plan is None or run.plan.validation is None:
        text = tell("the line that tells sizes and validation is missing")
        yield Finding("no_plan", "warn", text, lines)
    if run.foreign_unit is not None:
        text = tell(
            "the table is in %(unit)s, expected GB/s and us: its numbers are not read as such",
            unit=run.foreign_unit,
        )
        yield Finding("foreign_unit", "warn", text, (run.unit_line,))
    if run.ranks is None and not run.is_interleaved:
        yield _ranks_problem(run)
    if not run.rows:
        yield Finding("no_measurement", "warn", tell("no row was measured"), lines)
    elif not run.is_interleaved:
        yield from _row_problems(run)
    if run.torn:
        text = tell("%(count)s torn rows", count=len(run.torn))
        yield Finding("torn_rows", "warn", text, tuple(run.torn))
    if run.oob_word is None or run.average is None:
        text = tell(
            "the table has no summary: the run was cut or broke off, and no average is made up"
        )
        yield Finding("no_summary", "warn", text, lines)
    if run.starts is not None and run.concluded is None:
        text = tell("%(name)s was started and is not told to have concluded", name=run.starts)
        yield Finding("not_concluded", "warn", text, lines)


def _ranks_problem(run: TestRun) -> Finding:
    missing = run.missing_ranks
    if not run.seats:
        text = tell("the device list is missing: ranks are unknown")
        return Finding("no_devices", "warn", text, (run.line,))
    text = (
        tell("ranks missing in the device list: %(ranks)s", ranks=str(missing[:32]))
        if missing
        else tell("device list is cut")
    )
    return Finding("ranks_missing", "warn", text, (run.line,))


def _row_problems(run: TestRun) -> Iterator[Finding]:
    left_out = _rows_left_out(run)
    if run.left_out or left_out:
        why = left_out or tell("dots stand for them")
        text = tell("rows are left out: %(why)s", why=why)
        yield Finding("rows_left_out", "warn", text, tuple(run.left_out))
    mean = run.mean_busbw()
    if run.average is None or mean is None:
        return
    # Cells have two decimals, the average six digits.
    if abs(mean - run.average) > 0.006 + 2e-5 * run.average:
        text = tell(
            "printed average %(printed)s GB/s, the rows here give %(mean)s: some are missing",
            printed=run.average, mean=f"{mean:.4f}",
        )  # fmt: skip
        yield Finding("average_differs", "warn", text, tuple(run.summary_lines))


def _rows_left_out(run: TestRun) -> str:
    """Tell which rows are missing by the plan; without a plan by a gap between sizes."""
    plan, sweeps = run.plan, run.sweeps()
    if run.is_capped:
        return tell("more rows than are read")
    if plan is not None and run.max_bytes is not None:
        wanted = plan._replace(max_bytes=run.max_bytes).sizes()
        short = [len(s) for s in sweeps if wanted is not None and len(s) < wanted]
        return tell("%(count)s of %(of)s sizes", count=short[0], of=wanted) if short else ""
    return tell("a gap between sizes") if any(_has_gap([r.size for r in s]) for s in sweeps) else ""


def _has_gap(sizes: list[int]) -> bool:
    # Small sizes are rounded down and tell nothing.
    large = [size for size in sizes if size >= 4096]
    steps = [b - a for a, b in pairwise(large)]
    ratios = [b / a for a, b in pairwise(large)]
    if len(steps) < 2 or min(steps) <= 0 or max(steps) <= 1.5 * min(steps):
        return False
    return max(ratios) > 1.6 * min(ratios)


def run_findings(run: TestRun, name: str) -> Iterator[Finding]:
    """Yield what a person should know of a run; `name` tells it from others in the same text."""
    told = [*_value_findings(run), *run_problems(run), *_speed_findings(run)]
    for finding in told:
        text = tell("%(run)s: %(what)s", run=name, what=finding.text) if name else finding.text
        yield Finding(finding.id, finding.severity, text, finding.lines)


def _value_findings(run: TestRun) -> Iterator[Finding]:
    summary = tuple(run.summary_lines)
    wrong_rows = [r.line for r in run.rows if r.oop.wrong or r.ip.wrong]
    wrong = run.wrong()
    if run.oob_word == "FAILED" or run.oob:
        text = tell(
            "%(count)s values out of bounds: the data that came back is wrong", count=run.oob
        )
        yield Finding("wrong_values", "error", text, (*wrong_rows[:64], *summary))
    elif wrong:
        text = tell("%(count)s values are wrong in the rows of this table", count=wrong)
        yield Finding("wrong_values", "error", text, tuple(wrong_rows[:64]))
    if run.average_word == "FAILED":
        text = tell(
            "average %(average)s GB/s is below the least that was asked for (NCCL_TESTS_MIN_BW)",
            average=run.average,
        )
        yield Finding("below_asked_bandwidth", "error", text, summary)
    if run.validated is False:
        text = tell(
            "values were not checked (validation 0, or N/A in every row): zeros are no proof"
        )
        yield Finding("not_validated", "warn", text, summary)


def _speed_findings(run: TestRun) -> Iterator[Finding]:
    if run.jobs > 1 and run.seats and not any(seat.rank for seat in run.seats):
        text = tell(
            "%(count)s jobs of one rank each and not one of many: was it built without MPI?",
            count=run.jobs,
        )
        yield Finding("single_rank", "warn", text, (run.line,))
    elif run.ranks == 1:
        text = tell(
            "one rank only: a bus bandwidth of 0 is arithmetic and says nothing about a network"
        )
        yield Finding("single_rank", "warn", text, tuple(row.line for row in run.rows[:8]))
    stalled = outlier_sizes(run)
    if stalled and not run.is_interleaved:
        text = tell(
            "sizes that took longer than the next larger one: %(sizes)s", sizes=str(stalled[:8])
        )
        yield Finding("outlier", "info", text, tuple(r.line for r in run.rows if r.size in stalled))
    top = _top(run)
    if top is None or top.size < _LARGE_BYTES or len(run.hosts) < 2:
        return
    best = max(top.oop.busbw or 0.0, top.ip.busbw or 0.0)
    if 0 < best < _SOCKET_BUSBW_GBS:
        text = tell(
            "%(speed)s GB/s at %(size)s bytes between %(hosts)s hosts is as slow as sockets; "
            "'0 OK' does not speak against it: look which network NCCL used",
            speed=best, size=top.size, hosts=len(run.hosts),
        )  # fmt: skip
        yield Finding("as_slow_as_sockets", "warn", text, (top.line,))


def outlier_sizes(run: TestRun) -> list[int]:
    """Sizes in bytes that took half as long again as the next larger size, worst first."""
    found: dict[int, float] = {}
    for a, b in pairwise(run.rows):
        if a.group != b.group or a.size >= b.size:
            continue
        for one, other in ((a.oop.time_us, b.oop.time_us), (a.ip.time_us, b.ip.time_us)):
            if one and other and one > _STALL_RATIO * other:
                found[a.size] = max(found.get(a.size, 0.0), one / other)
    return sorted(found, key=lambda size: -found[size])


def _top(run: TestRun) -> Any:
    """Return the row of the largest size; None when several speak for it."""
    if run.is_interleaved or not run.rows:
        return None
    size = max(row.size for row in run.rows)
    rows = [row for row in run.rows if row.size == size]
    return rows[0] if len(rows) == 1 else None


def run_values(run: TestRun) -> dict[str, Any]:
    """Return the values of one run: bandwidths in GB/s (10^9 bytes a second), sizes in bytes."""
    rows = run.rows
    top = _top(run)
    return {
        **_head_values(run),
        "rows": len(rows),
        "first_size": rows[0].size if rows else None,
        "max_size": max((row.size for row in rows), default=None),
        "busbw_at_max": _pair(top.oop.busbw, top.ip.busbw) if top is not None else None,
        "algbw_at_max": _pair(top.oop.algbw, top.ip.algbw) if top is not None else None,
        "avg_busbw": run.average,
        "avg_ok": None if run.average_word is None else run.average_word == "OK",
        "oob": run.oob,
        "oob_ok": None if run.oob_word is None else run.oob_word == "OK",
        "wrong": run.wrong(),
        "wrong_rows": _wrong_rows(run),
        "wrong_column": run.last_cell if rows else None,
        "validated": run.validated,
        "root": _only({row.root for row in rows}),
        "type": _only({row.type for row in rows}),
        "redop": _only({row.redop for row in rows}),
        "monotonic": run.is_monotonic if rows else None,
        "interleaved": run.is_interleaved,
        "cycles": len(run.sweeps()),
        "zero_size_rows": sum(1 for row in rows if row.size == 0),
        "outlier_sizes": [] if run.is_interleaved else outlier_sizes(run)[:16],
        "single_rank": _is_single(run),
        "table": [row.as_object() for row in rows[:_TABLE_SHOWN]],
    }


def _head_values(run: TestRun) -> dict[str, Any]:
    version, headers, library = run.versions
    plan = run.plan
    started = run.starts or run.concluded
    return {
        "tool": run.tool or "nccl-tests",
        "collective": started.removesuffix("_perf") if started else None,
        "nccl_tests": version,
        "nccl_headers": int(headers) if headers else None,
        "nccl_library": int(library) if library else None,
        "declared_min_bytes": plan.min_bytes if plan else None,
        "declared_max_bytes": plan.max_bytes if plan else None,
        "iters": plan.iters if plan else None,
        "ranks": run.ranks,
        "ranks_listed": len(run.seats) if run.stage >= DEVICES else 0,
        "ranks_missing": run.missing_ranks,
        "hosts": run.hosts,
        "gpus": list(dict.fromkeys(seat.name for seat in run.seats)),
        "concluded": run.concluded is not None,
        "speaker": run.tag or None,
    }


def _is_single(run: TestRun) -> bool | None:
    """Whether each job here has one rank only; None when the device list does not tell."""
    if run.jobs > 1 and run.listed:
        return not any(seat.rank for seat in run.seats)
    return None if run.ranks is None else run.ranks == 1


def _pair(oop: float | None, ip: float | None) -> dict[str, float | None]:
    return {"oop": oop, "ip": ip}


def _wrong_rows(run: TestRun) -> dict[str, list[Any]]:
    """Rows with values out of bounds; an error of values in the old layout is none."""
    if run.last_cell == "error" or run.validated is False:
        return {}
    return {
        str(row.size): [row.oop.wrong, row.ip.wrong]
        for row in run.rows
        if row.oop.wrong or row.ip.wrong
    }


def _only(found: set[Any]) -> Any:
    return next(iter(found)) if len(found) == 1 else None
