"""Single sentences of `vllm bench throughput` and `vllm bench latency`, which have no summary block."""

from __future__ import annotations

import re

from fleet.readings.bench.run import BenchRun
from fleet.readings.text import Line
from fleet.readings.told import tell

_N = r"(\d{1,15}(?:\.\d{1,12})?)"
_THROUGHPUT = re.compile(
    rf"Throughput: {_N} requests/s, {_N} (?:total )?tokens/s(?:, {_N} output tokens/s)?(?!\S)"
)
_AVERAGE = re.compile(rf"Avg latency: {_N} seconds")
_PERCENTILE = re.compile(rf"(\d{{1,2}})% percentile latency: {_N} seconds")


class OfflineReader:
    """Reads the result lines of runs without a server."""

    def __init__(self) -> None:
        self.runs: list[BenchRun] = []

    def take(self, line: Line, *, may_be_cut: bool) -> bool:
        """Take one line; return whether it is such a sentence."""
        if may_be_cut:
            return False
        if found := _THROUGHPUT.search(line.text):
            run = self._open("vllm-throughput", line)
            run.is_closed = found[3] is not None
            for key, cell in zip(
                ("req_s", "total_tok_s", "out_tok_s"), found.groups(), strict=True
            ):
                if cell is not None:
                    run.put(key, float(cell), line.number)
            return True
        if found := _AVERAGE.search(line.text):
            self._open("vllm-latency", line).put("mean_latency_s", float(found[1]), line.number)
            return True
        found = _PERCENTILE.search(line.text)
        if found is None or not self.runs or self.runs[-1].tool != "vllm-latency":
            return False
        self.runs[-1].put(f"p{found[1]}_latency_s", float(found[2]), line.number)
        self.runs[-1].is_closed = found[1] == "99"
        return True

    def finish(self) -> None:
        for run in self.runs:
            if not run.is_closed:
                run.note(tell("the result lines are cut"))

    def _open(self, tool: str, line: Line) -> BenchRun:
        run = BenchRun(tool, "sentence", line.number)
        if len(self.runs) < 256:
            self.runs.append(run)
        return run
