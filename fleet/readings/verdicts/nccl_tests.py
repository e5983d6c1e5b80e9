"""What pasted output of nccl-tests says: bandwidths, whether values were checked, what is missing.

A bus bandwidth is good or bad only beside another one; that comparison is a rule's work. This module
gives it what it needs: the table, the ranks and hosts, and the network that NCCL's lines prove.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from fleet.readings.nccl_tests import NcclTestsReader
from fleet.readings.nccl_tests.result_json import is_result, read_results
from fleet.readings.nccl_tests.runs import TestRun
from fleet.readings.open_end import EndWatch
from fleet.readings.report import Finding, Report, lead, verdict_of
from fleet.readings.text import Readable, Rewound, iter_line_batches, read_capped
from fleet.readings.told import tell
from fleet.readings.verdicts.nccl_log import report_read
from fleet.readings.verdicts.nccl_tests_run import run_findings, run_problems, run_values

_RUNS_SHOWN = 64
_HEAD_BYTES = 4096
_COMMON = ("tool", "collective", "ranks", "nccl_tests", "nccl_library", "nccl_headers", "validated")
# Findings of NCCL's reader that this module says itself, or that mean nothing in a test.
_SAID_HERE = ("socket_network", "init_unfinished", "unhandled_error")
_NCCL_KEYS = (
    "network", "networks", "link", "hcas", "transports", "transport_counts", "gdr", "nccl", "cuda",
    "nranks", "nnodes", "settings", "event",
)  # fmt: skip


def report_nccl_tests(stream: Readable) -> Report:
    """Judge a capture of any length, read in constant memory; a result file as JSON is read at once."""
    head = stream.read(_HEAD_BYTES)
    stream = Rewound(head, stream)
    if head.lstrip().startswith(b"{"):
        text, is_cut = read_capped(stream)
        if is_result(text):
            return _report_json(text, is_cut=is_cut)
        stream = Rewound(text.encode(), stream)
    reader = NcclTestsReader()
    watched = EndWatch(stream)
    held: list[bytes] = []
    for batch in iter_line_batches(watched):
        reader.feed(held)
        held = batch
    reader.feed(held, is_open=watched.is_open)
    reader.finish()
    return report_tests(reader)


def _report_json(text: str, *, is_cut: bool) -> Report:
    """Judge a result file by the same rules as the table that the tool prints beside it."""
    runs, errors, problem = read_results(text)
    reader = NcclTestsReader()
    reader.log.runs = runs
    found = report_tests(reader)
    findings = list(found.findings)
    if errors:
        told = tell("NCCL told an error: %(error)s", error=errors[0])
        findings.append(Finding("crash", "error", told, (1,)))
    if problem or is_cut or not runs:
        text = problem or tell("only the first part was read")
        findings.append(Finding("incomplete", "warn", text, (1,)))
    is_whole = found.complete and not (problem or is_cut or errors)
    verdict = found.verdict if is_whole or found.verdict == "fail" else "unknown"
    summary = (
        tell("Not a whole result file: %(problem)s.", problem=problem) if problem else found.summary
    )
    return replace(
        found,
        form="json",
        complete=is_whole,
        verdict="fail" if errors else verdict,
        summary=lead(findings, summary),
        findings=tuple(findings),
        unread=(),
    )


def report_tests(reader: NcclTestsReader) -> Report:
    """Judge what a reader has collected."""
    runs = list(reader.log.measured())
    findings = tuple(_findings(reader, runs))
    whole = bool(runs) and not reader.log.is_full and reader.nccom is None
    whole = whole and not any(list(run_problems(run)) for run in runs) and not reader.failures
    known_good = whole and not any(f.severity == "warn" for f in findings)
    return Report(
        kind="nccl-tests",
        form=_form(reader, runs),
        complete=whole,
        verdict=verdict_of(findings, known_good=known_good),
        summary=lead(findings, _summary(reader, runs)),
        findings=findings,
        values=_values(reader, runs),
        unread=tuple(sorted({*reader.unread, *(n for run in runs for n in run.torn)})),
    )


def _form(reader: NcclTestsReader, runs: list[TestRun]) -> str:
    if reader.nccom is not None:
        return "nccom-test"
    if any(run.rows for run in runs):
        return "table"
    if reader.failures:
        return "crash"
    return "header" if runs else "none"


def _findings(reader: NcclTestsReader, runs: list[TestRun]) -> Iterator[Finding]:
    for number, run in enumerate(runs[:_RUNS_SHOWN], 1):
        name = tell("run %(number)s", number=number) if len(runs) > 1 else ""
        yield from run_findings(run, name)
    yield from _failure_findings(reader)
    if reader.nccom is not None:
        text = tell(
            "this is nccom-test (AWS Neuron), not nccl-tests: one direction, no check of values"
        )
        yield Finding("foreign_tool", "warn", text)
    if reader.log.is_full:
        yield Finding("too_many_runs", "warn", tell("more runs than are read stand in this text"))
    yield from _nccl_findings(reader, runs)


def _failure_findings(reader: NcclTestsReader) -> Iterator[Finding]:
    if not reader.failures:
        return
    first = next((f for f in reader.failures if f.error), reader.failures[0])
    text = tell("the test broke off: %(text)s", text=first.text)
    if reader.root_warn:
        text = tell("%(text)s (%(advice)s)", text=text, advice=reader.root_warn)
    lines = [f.line for f in reader.failures]
    if reader.root_warn_line is not None:
        lines.append(reader.root_warn_line)
    yield Finding("crash", "error", text, tuple(sorted(lines)))


def _nccl_findings(reader: NcclTestsReader, runs: list[TestRun]) -> Iterator[Finding]:
    hosts = _hosts(runs)
    if reader.nccl.nccl_lines:
        for finding in report_read(reader.nccl).findings:
            if finding.severity != "info" and finding.id not in _SAID_HERE:
                yield finding
    if _is_on_sockets(reader) and len(hosts) != 1:
        text = tell(
            "NCCL's lines show NET/Socket between nodes: this is the bandwidth of TCP, not of RDMA"
        )
        yield Finding("socket_network", "warn", text, tuple(reader.nccl.socket_lines))
    elif len(hosts) > 1 and any(run.rows for run in runs) and reader.nccl.setup.networks == {}:
        text = tell("several hosts, and no line of NCCL tells which network carried the test")
        yield Finding("transport_unproven", "info", text)


def _is_on_sockets(reader: NcclTestsReader) -> bool:
    counts = reader.nccl.table.transport_counts()
    return "Socket" in reader.nccl.setup.networks or any(
        name.startswith("NET/Socket") for name in counts
    )


def _hosts(runs: list[TestRun]) -> list[str]:
    return list(dict.fromkeys(host for run in runs for host in run.hosts))


def _summary(reader: NcclTestsReader, runs: list[TestRun]) -> str:
    if reader.nccom is not None:
        return tell("A table of nccom-test, which is another tool than nccl-tests.")
    if not runs:
        return tell("No output of nccl-tests in this text.")
    if len(runs) > 1:
        return tell(
            "%(count)s runs of nccl-tests in this text; each has its own values.", count=len(runs)
        )
    told = run_values(runs[0])
    top, problems = told["busbw_at_max"], list(run_problems(runs[0]))
    if problems:
        return tell("Not a whole measurement: %(problem)s.", problem=problems[0].text)
    words = {"sizes": told["rows"], "ranks": told["ranks"], "average": told["avg_busbw"]}
    if top is None or top["oop"] is None:
        return tell("%(sizes)s sizes on %(ranks)s ranks, average %(average)s GB/s.", **words)
    return tell(
        "%(sizes)s sizes on %(ranks)s ranks, bus bandwidth %(top)s GB/s at %(size)s bytes, "
        "average %(average)s GB/s.",
        top=top["oop"], size=told["max_size"], **words,
    )  # fmt: skip


def _values(reader: NcclTestsReader, runs: list[TestRun]) -> dict[str, Any]:
    nccl = report_read(reader.nccl).values if reader.nccl.nccl_lines else {}
    values: dict[str, Any] = {key: nccl[key] for key in _NCCL_KEYS if nccl.get(key) is not None}
    if not any(nccl.get("transports", {}).values()):
        values.pop("transports", None)
    values["nccl_lines"] = reader.nccl.nccl_lines
    values["jobs"] = sum(run.jobs for run in runs)
    shown = [run_values(run) for run in runs[:_RUNS_SHOWN]]
    if len(shown) == 1:
        values |= shown[0]
    elif shown:
        # Numbers of several runs stand in `runs` only: no one of them is the text's.
        values |= {k: shown[0][k] for k in _COMMON if all(s[k] == shown[0][k] for s in shown)}
        values["rows"] = sum(len(run.rows) for run in runs)
        values["monotonic"] = all(run.is_monotonic for run in runs)
        values["runs"] = shown
    else:
        values["rows"] = 0
    if len(shown) > 1 or not shown:
        values["hosts"] = _hosts(runs)
    if values.get("collective") is None:
        values["collective"] = _collective(reader)
    values |= _failure_values(reader)
    if reader.nccom is not None:
        values |= reader.nccom.values()
    values["unread_count"] = reader.unread_count
    return values


def _collective(reader: NcclTestsReader) -> str | None:
    """Return the collective of the command, or of the source file that a failure names."""
    if reader.command is not None:
        return reader.command
    sources = [f.source.rpartition("/")[2] for f in reader.failures if f.source]
    named = [s.removesuffix(".cu") for s in sources if s.endswith(".cu") and s != "common.cu"]
    return named[0] if named else None


def _failure_values(reader: NcclTestsReader) -> dict[str, Any]:
    if not reader.failures:
        return {"error": None, "root_warn": reader.root_warn}
    first = next((f for f in reader.failures if f.error), reader.failures[0])
    return {
        "error": first.error,
        "failures": reader.failure_count,
        "mpi_rank": first.mpi_rank,
        "root_warn": reader.root_warn,
    }
