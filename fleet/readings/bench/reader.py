"""Reads a text for the summaries of any load generator, and for the errors around them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from fleet.readings.bench.offline import OfflineReader
from fleet.readings.bench.result_json import holds_json, read_results
from fleet.readings.bench.run import BenchRun
from fleet.readings.bench.summary import SummaryReader
from fleet.readings.bench.tables import AiperfReader, GuidellmReader
from fleet.readings.open_end import has_open_end
from fleet.readings.text import number_lines

_FAILED = re.compile(
    r"Initial test (?:run )?failed|All requests failed|Endpoint (?:is )?not ready"
    r"|Warmup failed|unrecognized arguments:|command not found|vllm: error:"
    r"|^(?:\w{1,40}\.){0,6}\w{0,40}(?:Error|Exception): "
)
_TRACEBACK = "Traceback (most recent call last)"
_NAMESPACE = re.compile(r"\bnum_prompts=(\d{1,9})\b")
# What a result in words begins with, what says one in a line, and a crash: behind a result file they count too.
_SUMMARY = re.compile(
    r"^.{0,200}(?:= .{0,40}Benchmark Result =|┃|Throughput: \d|Avg latency: \d)|^Traceback \(", re.M
)
_CUT_AT = 2048


@dataclass
class BenchText:
    """All that stands in a text: runs in their order, sentences of failure, lines not understood."""

    runs: list[BenchRun] = field(default_factory=list)
    failures: list[tuple[int, str]] = field(default_factory=list)
    unread: list[int] = field(default_factory=list)
    requested: int | None = None
    ends_open: bool = False


def read_bench(text: str) -> BenchText:
    """Read every summary of a text. The last line counts only if it was ended."""
    found = BenchText(ends_open=has_open_end(text))
    json_lines: set[int] = set()
    if holds_json(text):
        runs = read_results(text)
        if runs and text.lstrip()[:1] in ("{", "[") and not _SUMMARY.search(text):
            return BenchText(runs, ends_open=found.ends_open)
        found.runs.extend(runs)
        json_lines = {run.line for run in runs}
    _read_lines(text, found, json_lines)
    found.runs.sort(key=lambda run: run.line)
    return found


def _read_lines(text: str, found: BenchText, json_lines: set[int]) -> None:
    summary, aiperf, guidellm, offline = (
        SummaryReader(), AiperfReader(), GuidellmReader(), OfflineReader()
    )  # fmt: skip
    lines = number_lines(text)
    for line in lines:
        if line.number in json_lines:
            continue
        line = line._replace(text=line.text[:_CUT_AT])
        may_be_cut = found.ends_open and line.number == len(lines)
        taken = summary.take(line, may_be_cut=may_be_cut) or offline.take(
            line, may_be_cut=may_be_cut
        )
        taken = taken or (not may_be_cut and (aiperf.take(line) or guidellm.take(line)))
        taken = _take_aside(line.text, line.number, found) or taken
        if not taken and line.text.strip():
            found.unread.append(line.number)
    for reader in (summary, aiperf, guidellm, offline):
        reader.finish()
    found.runs.extend([*summary.runs, *aiperf.runs, *offline.runs])
    if guidellm.run is not None:
        found.runs.append(guidellm.run)


def _take_aside(text: str, number: int, found: BenchText) -> bool:
    if _TRACEBACK in text or _FAILED.search(text):
        if len(found.failures) < 64:
            found.failures.append((number, text.strip()[:240]))
        return True
    if text.startswith("Namespace(") and (asked := _NAMESPACE.search(text)):
        found.requested = int(asked[1])
        return True
    return False
