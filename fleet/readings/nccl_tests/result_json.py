"""The result file of nccl-tests (`-J FILE`): one object, in our form of a run.

The file has no line feed at its end. The tool closes what is open when it ends by itself, so an object without
`end_time` and the two summaries is no whole run. Source: nccl-tests src/util.cu, file versions 1 to 3.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any

from fleet.readings.nccl_tests.marks import Plan, Seat
from fleet.readings.nccl_tests.rows import Cells, Row
from fleet.readings.nccl_tests.runs import CONCLUDED, TestRun
from fleet.readings.told import tell

_RUNS_CAP = 64
_ROWS_CAP = 20_000
_SEATS_CAP = 65_536
_HEAD_CHARS = 65_536
_OURS = re.compile(
    r'"(?:average_bus_bandwidth|out_of_bounds|aggregated_iterations|nccl_version)"\s*:'
)
_COUNT_CAP = 2**63


def is_result(text: str) -> bool:
    """Tell a text that begins as such a file does, whole or torn."""
    head = text[:_HEAD_CHARS].lstrip()
    return head.startswith("{") and (
        _OURS.search(text) is not None or re.match(r'\{\s*"version"\s*:\s*\d', head) is not None
    )


def read_results(text: str) -> tuple[list[TestRun], list[str], str]:
    """Return the runs, what NCCL told as errors, and why the text is no whole file; empty when it is."""
    runs: list[TestRun] = []
    errors: list[str] = []
    decoder, at = json.JSONDecoder(), 0
    while at < len(text) and (at := at + len(text[at:]) - len(text[at:].lstrip())) < len(text):
        if len(runs) >= _RUNS_CAP:
            return runs, errors, tell("more results than are read stand in this text")
        try:
            found, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            return (
                runs,
                errors,
                tell("the JSON object has no end: it was cut, and nothing is read from it"),
            )
        if not isinstance(found, dict) or "results" not in found:
            return runs, errors, tell("other text stands beside the result")
        runs.append(_run_of(found, text.count("\n", 0, at) + 1))
        errors += [str(error)[:240] for error in _items(found.get("errors")) if error]
        at = end
    return runs, errors, ""


def _run_of(found: dict[str, Any], line: int) -> TestRun:
    config = found.get("config") if isinstance(found.get("config"), dict) else {}
    args = _items(found.get("args"))
    run = TestRun("", line, stage=CONCLUDED)
    program = str(args[0]).rpartition("/")[2][:80] if args else None
    run.starts = program
    run.concluded = program if isinstance(found.get("end_time"), str) else None
    library = _whole(found.get("nccl_version"))
    run.versions = (None, None, None if library is None else str(library))
    run.plan = _plan(config or {}, line)
    run.max_bytes = run.plan.max_bytes if run.plan else None
    run.seats = list(_seats(config or {}))
    run.rows = [
        row for item in _items(found.get("results"))[:_ROWS_CAP] if (row := _row(item, line))
    ]
    if len(run.rows) != len(_items(found.get("results"))):
        run.torn.append(line)
    _take_summaries(run, found)
    return run


def _take_summaries(run: TestRun, found: dict[str, Any]) -> None:
    bounds, average = found.get("out_of_bounds"), found.get("average_bus_bandwidth")
    if isinstance(bounds, dict) and (count := _whole(bounds.get("count"))) is not None:
        run.oob, run.oob_word = count, _word(bounds.get("okay"))
    if isinstance(average, dict) and (mean := _number(average.get("bandwidth"))) is not None:
        run.averages, run.average_word = [mean], _word(average.get("okay"))


def _plan(config: dict[str, Any], line: int) -> Plan | None:
    least, most = _whole(config.get("minimum_bytes")), _whole(config.get("maximum_bytes"))
    factor = _whole(config.get("step_factor"))
    step = factor if factor is not None else _whole(config.get("step_bytes"))
    if least is None or most is None or step is None:
        return None
    iters, validation = _whole(config.get("iterations")), _whole(config.get("validation"))
    return Plan(line, least, most, step, factor is not None, iters, validation)


def _seats(config: dict[str, Any]) -> Iterator[Seat]:
    """Yield a seat a rank. The file names only the first device of each process; ranks follow one another."""
    each = (_whole(config.get("nthreads")) or 1) * (_whole(config.get("ngpus")) or 1)
    left = _SEATS_CAP
    for device in _items(config.get("devices")):
        if not isinstance(device, dict) or (rank := _whole(device.get("rank"))) is None:
            return
        host, name = str(device.get("hostname", ""))[:255], str(device.get("device_info", ""))[:120]
        first, bus = _whole(device.get("device")) or 0, str(device.get("device_hex", ""))[:40]
        for place in range(min(each, left)):
            yield Seat(
                rank + place, _whole(device.get("pid")), host, first + place,
                "" if place else bus, name,
            )  # fmt: skip
        left -= each
        if left <= 0:
            return


def _row(item: Any, line: int) -> Row | None:
    if not isinstance(item, dict):
        return None
    size, count = _whole(item.get("size")), _whole(item.get("count"))
    oop, ip = _cells(item.get("out_of_place")), _cells(item.get("in_place"))
    if size is None or count is None or oop is None or ip is None:
        return None
    root = str(item.get("root", "")).strip()
    return Row(
        line, "", size, count, str(item.get("type", ""))[:24], str(item.get("redop", ""))[:24] or None,
        int(root) if re.fullmatch(r"-?\d{1,6}", root, re.ASCII) else None, oop, ip,
    )  # fmt: skip


def _cells(found: Any) -> Cells | None:
    """Read one direction; one that was not measured is null. None: it has no bandwidth where one belongs."""
    if found is None:
        return Cells(None, None, None, None)
    if not isinstance(found, dict) or _number(found.get("bus_bw")) is None:
        return None
    time = found.get("time", found.get("cpu_time"))
    wrong = _number(found.get("nwrong"))
    return Cells(
        _number(time), _number(found.get("alg_bw")), _number(found.get("bus_bw")),
        int(wrong) if wrong is not None else None,
    )  # fmt: skip


def _items(found: Any) -> list[Any]:
    return found if isinstance(found, list) else []


def _number(found: Any) -> float | None:
    is_number = isinstance(found, int | float) and not isinstance(found, bool)
    return float(found) if is_number and abs(found) < _COUNT_CAP and math.isfinite(found) else None


def _whole(found: Any) -> int | None:
    is_count = isinstance(found, int) and not isinstance(found, bool)
    return found if is_count and 0 <= found < _COUNT_CAP else None


def _word(okay: Any) -> str | None:
    return {"true": "OK", "false": "FAILED"}.get(str(okay).lower(), "" if okay else None) or None
