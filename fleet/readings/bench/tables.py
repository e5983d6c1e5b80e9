"""Tables of aiperf (box characters) and guidellm (pipes), by their headers and not by place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from fleet.readings.bench.labels import slug
from fleet.readings.bench.run import BenchRun, parse_number
from fleet.readings.text import Line
from fleet.readings.told import tell

_BARS = re.compile(r"[│┃]")
_RULE = re.compile(r"[━─═┏┓┗┛┡┩└┘┌┐├┤╇╈┴┬┼┳┻╋ +=-]{8,}")
_END = ("└", "┗", "╰")
_STATISTIC = re.compile(r"avg|min|max|std|p\d{1,2}(?:\.\d{1,2})?", re.ASCII)
_UNIT = re.compile(r"(.{1,80}?) ?\(([^()]{1,24})\)")
_TITLE = "LLM Metrics"
# Name of the metric, and of the value that its `avg` is where only a total makes sense.
_METRICS = {
    "time to first token": "ttft",
    "time to second token": "ttst",
    "time to first output token": "ttfo",
    "request latency": "latency",
    "inter token latency": "itl",
    "inter chunk latency": "icl",
    "output sequence length": "output_len",
    "input sequence length": "input_len",
    "output token throughput per user": "out_tok_s_user",
}
_TOTALS = {
    "output token throughput": "out_tok_s",
    "total token throughput": "total_tok_s",
    "request throughput": "req_s",
    "request count": "request_count",
    "error request count": "failed",
    "goodput": "goodput_req_s",
    "benchmark duration": "duration_s",
}
_TIME_UNITS = ("ms", "s")
_CELLS_CAP = 40


class AiperfReader:
    """Reads the metrics table of aiperf; a label may go on in the next row, whose cells are empty."""

    def __init__(self) -> None:
        self.runs: list[BenchRun] = []
        self._run: BenchRun | None = None
        self._header: list[str] = []
        self._held: tuple[str, list[str], int] | None = None

    def take(self, line: Line) -> bool:
        """Take one line; return whether it is part of such a table."""
        text = line.text.strip()
        cells = [c.strip() for c in _BARS.split(text)[1:-1]] if _BARS.search(text) else []
        if cells and "avg" in cells and cells[0].lower() == "metric":
            self._open(cells, line)
            return True
        if self._run is None:
            return _TITLE in text or (len(text) > 8 and _RULE.fullmatch(text) is not None)
        if text.startswith(_END):
            self._release()
            self._run.is_closed, self._run = True, None
            return True
        if not cells:
            return not text or _RULE.fullmatch(text) is not None
        return self._take_row(cells, line)

    def finish(self) -> None:
        self._release()
        for run in self.runs:
            if not run.is_closed:
                run.note(tell("the table has no end: it was cut"))
            if "request_count" not in run.values:
                run.note(tell("lines are left out: %(names)s", names="Request Count"), run.line)

    def _open(self, cells: list[str], line: Line) -> None:
        self._release()
        if self._run is not None:
            self._run.note(tell("another table begins before this one ends"), line.number)
        self._header = cells[:_CELLS_CAP]
        self._run = BenchRun("aiperf", "table", line.number)
        if len(self.runs) < 256:
            self.runs.append(self._run)
        strange = [c for c in self._header[1:] if not _STATISTIC.fullmatch(c)]
        if strange:
            names = ", ".join(strange)[:80]
            self._run.note(tell("columns that are not known: %(names)s", names=names), line.number)

    def _take_row(self, cells: list[str], line: Line) -> bool:
        assert self._run is not None
        if len(cells) != len(self._header):
            self._release()
            self._run.note(tell("a torn row"), line.number)
            return False
        if not any(cells[1:]) and self._held is not None:
            label, values, number = self._held
            self._held = (f"{label} {cells[0]}"[:160], values, number)
            return True
        self._release()
        self._held = (cells[0], cells, line.number)
        return True

    def _release(self) -> None:
        if self._held is None or self._run is None:
            return
        (label, cells, number), self._held = self._held, None
        found = _UNIT.fullmatch(label)
        name, unit = (found[1], found[2]) if found else (label, "")
        total = _TOTALS.get(name.lower())
        metric = _METRICS.get(name.lower(), slug(name))
        for statistic, cell in zip(self._header[1:], cells[1:], strict=True):
            value = parse_number(cell)
            if value is None and cell not in ("N/A", "-", ""):
                torn = tell("a value is no number: a template or a torn row")
                self._run.note(torn, number)
            if total is not None:
                if statistic == "avg":
                    whole = isinstance(value, float) and value.is_integer()
                    count = total in ("request_count", "failed")
                    self._run.put(
                        total,
                        int(value) if whole and count and value is not None else value,
                        number,
                    )
            elif value is not None:
                word = "mean" if statistic == "avg" else statistic
                ending = f"_{unit}" if unit in _TIME_UNITS else ""
                self._run.put(f"{word}_{metric}{ending}", value, number)


class GuidellmReader:
    """Reads the pipe tables of guidellm: three rows of header, one row for each strategy."""

    def __init__(self) -> None:
        self.run: BenchRun | None = None
        self._header: list[str] = []
        self._columns: list[str] = []

    def take(self, line: Line) -> bool:
        text = line.text.strip()
        if "Benchmarking complete" in text and self.run is not None:
            self.run.is_closed = True
            return True
        if not text.startswith("|"):
            self._header = [] if text else self._header
            return self._take_aside(text, line)
        if set(text) <= set("|=-+ "):
            if "-" in text and self._header:
                self._columns = list(_join_headers(self._header))
            elif "=" in text:
                self._header, self._columns = [], []
            return self.run is not None or "=" in text
        if not self._columns:
            self._header.append(text[:4096])
            self._header = self._header[-4:]
            return True
        return self._take_row(text, line)

    def _take_aside(self, text: str, line: Line) -> bool:
        if self.run is not None and len(text) < 64 and text and not text.strip(". …"):
            self.run.note(tell("parts are left out: dots stand for them"), line.number)
            return True
        return "Metrics Statistics" in text or "Run Summary" in text

    def _take_row(self, text: str, line: Line) -> bool:
        cells = [c.strip() for c in text.strip("|").split("|")][:_CELLS_CAP]
        if self.run is None:
            self.run = BenchRun("guidellm", "table", line.number)
        if len(cells) != len(self._columns):
            self.run.note(tell("a torn row"), line.number)
            return False
        strategy = cells[0]
        if self.run.values.setdefault("strategy", strategy) != strategy:
            # Rows of further strategies stand for themselves.
            self.run.values.setdefault("strategies", [self.run.values["strategy"]])
            if strategy not in self.run.values["strategies"]:
                self.run.values["strategies"].append(strategy)
        is_first = self.run.values["strategy"] == strategy
        for name, cell in zip(self._columns[1:], cells[1:], strict=True):
            value = parse_number(cell)
            if value is not None:
                key = name if is_first else f"{slug(strategy)}.{name}"
                self.run.put(key, value, line.number)
        return True

    def finish(self) -> None:
        if self.run is not None and not self.run.is_closed:
            self.run.note(tell("the text does not say that the benchmark completed"))


def _join_headers(rows: list[str]) -> Iterator[str]:
    """Give each column the words above it: a heading that spans columns counts for all of them.

    Columns are told by the bars of the lowest row; `||` in a heading stand for columns it spans.
    """
    bars = [i for i, char in enumerate(rows[-1]) if char == "|"]
    for left, right in list(pairwise(bars))[:_CELLS_CAP]:
        words = [_heading(row, left, right) for row in rows[1:]] if left else []
        top = _heading(rows[0], left, right)
        yield _column_name([top, *words])


def _heading(row: str, left: int, right: int) -> str:
    """Return the cell of a heading row that stands over a place of the lowest row."""
    start = 0
    for cell in re.finditer(r"\|([^|]{1,400})", row):
        if cell.start() > left + 1:
            break
        start = cell.start()
    found = re.match(r"\|([^|]{1,400})", row[start:])
    return found[1].strip() if found else ""


_SHORT = {"per request": "per_req", "per second": "per_s", "requests/sec": "req_s"}


def _column_name(words: list[str]) -> str:
    return "_".join(slug(_SHORT.get(word.lower(), word)) for word in words if word)[:80]
