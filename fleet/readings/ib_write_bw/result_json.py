"""The result file of perftest (`--out_json`): `test_info` and `results`, in our form of a capture.

It names no unit of its bandwidth: that depends on `--report_gbits`. Size and message rate tell which of the two it
is, as they differ by a factor of 119. Older versions quote no words and leave commas before closing braces.
Source: perftest src/perftest_parameters.c, write_test_info_to_file and write_bw_report_to_file.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

from fleet.readings.ib_write_bw.reader import Block, Perftest
from fleet.readings.ib_write_bw.rows import MIB, Header, Row
from fleet.readings.told import tell

_TESTS_CAP = 256
_TEST = re.compile(r"([A-Za-z]{2,12}(?:_[A-Z][a-z]+)?)_.{0,60}?(BW|Latency)_", re.ASCII)
_SETTINGS = {
    "Device": "device",
    "Number_of_qps": "qps",
    "Transport_type": "transport",
    "Connection_type": "connection",
    "Using_SRQ": "srq",
    "TX_depth": "tx_depth",
    "RX_depth": "rx_depth",
    "CQ_Moderation": "cq_moderation",
    "Mtu": "mtu",
    "Link_type": "link",
    "GID_index": "gid_index",
    "Max_inline_data": "max_inline",
    "rdma_cm_QPs": "rdma_cm",
    "Data_ex_method": "exchange",
    "PCIe_relax_order": "relaxed_order",
    "Dual_port": "dual_port",
}
_CELLS = {
    "msgsize": "size",
    "n_iterations": "iterations",
    "bw_peak": "bw_peak",
    "bw_average": "bw_avg",
    "bw_avg": "bw_avg",
    "msgrate": "msg_rate",
    "msgrate_avg": "msg_rate",
    "cpu_util": "cpu_util",
    "t_min": "t_min_us",
    "t_max": "t_max_us",
    "t_typical": "t_typical_us",
    "t_avg": "t_avg_us",
    "avg_lat": "t_avg_us",
    "t_stdev": "t_stdev_us",
}
_NEEDED = ("size", "iterations")
_FIGURES = ("bw_avg", "t_avg_us", "t_typical_us")
_UNIT_SLACK = 0.02
_LAST_COMMA = re.compile(r",(\s*[}\]])")
_BARE_KEY = re.compile(r"([{,]\s*)([A-Za-z_][\w. *%]*?)(\s*:)", re.ASCII)
_BARE_WORD = re.compile(r"(:\s*)([A-Za-z][\w./-]*)(\s*[,}\]\n])", re.ASCII)


def is_result(text: str) -> bool:
    """Tell a text that begins as such a file does, whole or torn."""
    return re.match(r'\s*\{\s*"?test_info"?\s*:', text) is not None


def read_result(text: str) -> tuple[Perftest, str]:
    """Return what the file holds, and why it is no whole one; empty when it is."""
    found = Perftest()
    decoder, at = json.JSONDecoder(), 0
    text = _LAST_COMMA.sub(r"\1", text)
    if '"test_info"' not in text:
        text = _BARE_WORD.sub(r'\1"\2"\3', _BARE_KEY.sub(r'\1"\2"\3', text))
    while text[at:].strip():
        at += len(text[at:]) - len(text[at:].lstrip())
        if len(found.rows) >= _TESTS_CAP:
            return found, tell("more results than are read stand in this text")
        try:
            top, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            return found, tell("the JSON object has no end, or is none: nothing is read from it")
        info, results = (
            top.get(k) if isinstance(top, dict) else None for k in ("test_info", "results")
        )
        if not isinstance(info, dict) or not isinstance(results, dict):
            return found, tell("a part is missing: test_info and results belong together")
        problem = _take(found, info, results, text.count("\n", 0, at) + 1)
        if problem:
            return found, problem
        at = end
    return found, ""


def _take(found: Perftest, info: dict[str, Any], results: dict[str, Any], line: int) -> str:
    name = str(info.get("test", ""))[:120]
    title = _TEST.match(name)
    verb, measure = (title[1], title[2]) if title else (name, "")
    block = Block(line, verb, measure, "Bidirectional" in name)
    block.settings = {
        ours: value[:80] if isinstance(value, str) else value
        for theirs, ours in _SETTINGS.items()
        if isinstance(value := info.get(theirs), str | int) and not isinstance(value, bool)
    }
    # Each result is a test of its own: the file names no address by which two sides could be told.
    block.ends = {(str(len(found.blocks)),)}
    cells = dict(_cells(results))
    found.blocks.append(block)
    missing = [name for name in _NEEDED if name not in cells]
    if missing or not any(name in cells for name in _FIGURES):
        names = ", ".join(missing) or tell("a bandwidth or a latency")
        return tell("results are missing: %(names)s", names=names)
    unit = _unit(cells) if "bw_avg" in cells else None
    found.headers.append(Header(tuple(cells), unit, line))
    found.rows.append(Row(line, len(found.blocks) - 1, None, unit, cells))
    if "bw_avg" in cells and unit is None:
        return tell(
            "the file does not tell the unit of its bandwidth, and size and message rate fit none"
        )
    return ""


def _cells(results: dict[str, Any]) -> list[tuple[str, float]]:
    told = []
    for name, value in list(results.items())[:64]:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not 0 <= value < 1e15 or not math.isfinite(value):
            continue
        ours = _CELLS.get(name.lower())
        if ours is None and (percentile := re.search(r"99(?:\.9{1,2})?", name)):
            ours = f"p{percentile[0].replace('.', '_')}_us"
        if ours:
            told.append((ours, float(value)))
    return told


def _unit(cells: dict[str, float]) -> str | None:
    """Return the unit in which size times rate gives the bandwidth; both directions may count twice."""
    rate, average = cells.get("msg_rate"), cells["bw_avg"]
    if not rate or not average:
        return None
    moved = rate * 1e6 * cells["size"]
    for unit, unit_bytes in (("Gb/sec", 1e9 / 8), ("MB/sec", MIB)):
        ratio = average * unit_bytes / moved
        slack = _UNIT_SLACK + 0.005 / average + 0.5e-6 / rate
        if any(abs(ratio / times - 1) <= slack for times in (1, 2, 0.5)):
            return unit
    return None
