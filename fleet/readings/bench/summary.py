"""The summary between lines of equal signs that vLLM, sglang and vllm-omni print.

A heading such as `====== Text Result ======` stands inside the summary; only a bare line ends it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from fleet.readings.bench.labels import LATENCIES, name_label, slug
from fleet.readings.bench.run import BenchRun, parse_number
from fleet.readings.log_prefix import skip_outer
from fleet.readings.text import Line
from fleet.readings.told import tell

_BANNER = re.compile(r"(?<!=)={3,80} {0,8}([A-Z][\w ()/-]{0,60}?) {0,8}={3,80}")
_CLOSING = re.compile(r"={20,120}")
_SECTION = re.compile(r"-{2,80} ?([A-Z][\w .()/-]{0,60}?) ?-{2,80}")
_ROW = re.compile(r"([A-Za-z][\w ()/%.,-]{0,79}):\s{1,80}(\S.{0,79})|([A-Za-z][\w ()/%-]{0,79}):")
_SERVING = "Benchmark Result"
_INF = ("inf", "infinity")
_NONE = ("not set", "none", "null", "n/a", "nan")
_WORDS = ("backend", "request_rate")
_REQUIRED = {
    "successful": "Successful requests",
    "duration_s": "Benchmark duration",
    "input_tokens": "Total input tokens",
    "req_s": "Request throughput",
}
_RUNS_CAP = 256


class SummaryReader:
    """Reads summaries line by line; those that are cut stay open."""

    def __init__(self) -> None:
        self.runs: list[BenchRun] = []
        self.unread: list[int] = []
        self.is_full = False
        self._run: BenchRun | None = None
        self._prefix = ""

    def take(self, line: Line, *, may_be_cut: bool) -> bool:
        """Take one line; return whether it belongs to a summary."""
        if banner := _BANNER.search(line.text):
            return self._take_heading(banner, line)
        text = self._strip(line.text)
        run = self._run
        if run is not None and _CLOSING.fullmatch(text):
            run.is_closed, self._run = True, None
            return True
        if run is None:
            return not may_be_cut and self._take_loose(text, line)
        if not text or _SECTION.fullmatch(text):
            return True
        return not may_be_cut and _take_row(run, text, line)

    def finish(self) -> None:
        """Say of each summary what it lacks."""
        for run in self.runs:
            if not run.is_closed:
                run.note(tell("the summary has no end: it was cut"))
            for problem in _left_out(run):
                run.note(problem, run.line)

    def _take_heading(self, banner: re.Match[str], line: Line) -> bool:
        title = banner[1]
        if not title.endswith(_SERVING):
            if self._run is not None:
                self._run.tool = "vllm-omni"
            return self._run is not None
        if self._run is not None:
            self._run.note(tell("another summary begins before this one ends"), line.number)
        self._prefix = line.text[: banner.start()].strip()
        self._open(line)
        return True

    def _take_loose(self, text: str, line: Line) -> bool:
        """Take a known line whose summary lost its head."""
        label = text.partition(":")[0]
        if name_label(label) not in ("successful", "req_s", "out_tok_s", "mean_ttft_ms"):
            return False
        run = self._open(line)
        run.note(tell("the head of the summary is missing"), line.number)
        return _take_row(run, text, line)

    def _open(self, line: Line) -> BenchRun:
        self._run = BenchRun("vllm", "text", line.number)
        if len(self.runs) < _RUNS_CAP:
            self.runs.append(self._run)
        else:
            self.is_full = True
        return self._run

    def _strip(self, text: str) -> str:
        """Drop what a launcher, a runtime or a quote put before the line."""
        text = text.rpartition("\r")[2].strip()
        if self._prefix and text.startswith(self._prefix):
            return text[len(self._prefix) :].strip()
        return skip_outer(text).strip()


def _take_row(run: BenchRun, text: str, line: Line) -> bool:
    found = _ROW.fullmatch(text)
    if found is None:
        return False
    label, raw = (found[1] or found[3]).strip(), (found[2] or "").strip()
    name = name_label(label)
    if name is None:
        # A label nobody knows keeps its number under its own words.
        name = f"other.{slug(label)}" if label[:1].isupper() and raw else None
    if name is None:
        return False
    value = parse_number(raw)
    if name == "backend" or (value is None and name == "request_rate" and raw.lower() in _INF):
        run.put(name, raw.lower() if name == "request_rate" else raw[:64], line.number)
    elif value is not None:
        run.put(name, value, line.number)
    elif raw.lower() in (*_NONE, *_INF):
        run.put(name, None, line.number)
    else:
        run.put(name, None, line.number)
        torn = tell("a value is no number: this is a template or a torn line")
        run.note(torn, line.number)
    _tell_tool(run, label)
    return True


def _tell_tool(run: BenchRun, label: str) -> None:
    if label in ("Backend", "Max request concurrency", "Total generated tokens (retokenized)"):
        run.tool = "sglang"
    elif label.startswith(("Total audio duration", "Audio throughput")) or "AUDIO_" in label:
        run.tool = "vllm-omni"


def _left_out(run: BenchRun) -> Iterator[str]:
    missing = [spoken for key, spoken in _REQUIRED.items() if key not in run.values]
    if missing:
        yield tell("lines are left out: %(names)s", names=", ".join(missing))
    known = [m for m in LATENCIES if f"mean_{m}_ms" in run.values or f"median_{m}_ms" in run.values]
    if not known and run.tool != "vllm-omni":
        yield tell("no latencies stand in it")
    # sglang gives no percentile of the whole request's latency.
    bare = [m for m in known if m != "e2el" and not _has_percentile(run.values, m)]
    if bare:
        names = ", ".join(m.upper() for m in bare)
        yield tell("percentiles are left out: %(names)s", names=names)


def _has_percentile(keys: Iterable[str], metric: str) -> bool:
    return any(key[:1] == "p" and key.endswith(f"_{metric}_ms") for key in keys)
