"""What a pasted output of perftest says: whether the test ran to its end, and what it measured.

A figure is not judged here: the bar is a ratio to the golden pair, never a number of a text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from fleet.readings.ib_write_bw.reader import Block, Perftest, completion, parse_perftest
from fleet.readings.ib_write_bw.result_json import is_result, read_result
from fleet.readings.ib_write_bw.rows import MIB, Row, to_gbps
from fleet.readings.ib_write_bw.sentences import Failure
from fleet.readings.report import Finding, Report, Severity, lead, verdict_of
from fleet.readings.told import tell

_KIND = "ib-write-bw"
_PLATEAU_RATIO = 0.95
_UNEVEN_RATIO = 0.8
_SIDES_RATIO = 0.95
_ROWS_CAP = 256
_SHARED = ("device", "qps", "link", "gid_index", "mtu", "connection", "transport", "exchange")
# What to look at first, by ibv_wc_status.
_HINTS = {
    9: tell(
        "the peer refused the request: both sides must run the same tool with the same options"
    ),
    10: tell("the peer refused access to its memory"),
    11: tell("the peer could not carry out the request: compare MTU and options of both sides"),
    12: tell("the peer did not answer: path, GID index, MTU or a filter between the two"),
    13: tell("the peer had no receive buffer ready in time"),
}
_NOTE_TEXT: dict[str, tuple[Severity, str]] = {
    "cpu_frequency": ("warn", tell("CPU clocks differ: figures that rest on cycles may be wrong")),
    "clock_measured": (
        "info",
        tell("the measured clock differs from the nominal one and was used"),
    ),
    "mtu_lowered": (
        "warn",
        tell("the MTU that was asked for is higher than the port's active MTU"),
    ),
    "no_peak": ("info", tell("the peak was not measured in this mode; 0.00 is no result")),
    "inline_off": ("info", tell("the tool turned inline data off")),
}


def report_ib_write_bw(text: str) -> Report:
    """Judge one capture; a table that its closing line does not follow is unknown, never a pass."""
    if is_result(text):
        return _report_json(text)
    return _report_read(parse_perftest(text))


def _report_json(text: str) -> Report:
    """Judge a result file by the same rules as the table that the tool prints beside it."""
    read, problem = read_result(text)
    found = _report_read(read)
    if not problem:
        return replace(found, form="json")
    return replace(
        found,
        form="json",
        complete=False,
        verdict="fail" if found.verdict == "fail" else "unknown",
        summary=tell("Not a whole result file: %(problem)s.", problem=problem),
        findings=(Finding("incomplete", "warn", problem, (1,)), *_without_incomplete(found)),
    )


def _without_incomplete(found: Report) -> list[Finding]:
    return [finding for finding in found.findings if finding.id != "incomplete"]


def _report_read(found: Perftest) -> Report:
    findings = tuple(_findings(found))
    complete = _is_complete(found)
    suspect = any(f.severity == "warn" for f in findings)
    return Report(
        _KIND,
        _form(found),
        complete,
        verdict_of(findings, known_good=complete and not suspect),
        lead(findings, _summary(found)),
        findings,
        _values(found),
        tuple(sorted({*found.unread, *found.torn_rows})),
    )


def _form(found: Perftest) -> str:
    if any("bw_avg" in row.cells for row in found.rows):
        return "bandwidth"
    if found.rows:
        return "latency"
    if found.failures:
        return "error"
    return "header" if found.blocks or found.headers or found.notes else "none"


def _is_complete(found: Perftest) -> bool:
    return (
        bool(found.rows and found.blocks)
        and len(found.headers) >= len(found.blocks)
        and not (found.open_tables or found.torn_rows or found.has_torn_end)
    )


def _findings(found: Perftest) -> Iterator[Finding]:
    yield from _failure_findings(found)
    if not found.failures and (missing := _missing(found)):
        yield Finding("incomplete", "warn", missing, tuple(found.torn_rows))
    yield from _row_findings(found)
    for note, lines in found.notes.items():
        if note in _NOTE_TEXT:
            severity, text = _NOTE_TEXT[note]
            yield Finding(note, severity, text, tuple(lines))
    if any(block.is_bidirectional for block in found.blocks):
        text = tell("both directions at once: the figure is their sum and may exceed the line rate")
        titles = tuple(b.line for b in found.blocks if b.is_bidirectional)
        yield Finding("bidirectional_sum", "info", text, titles)
    yield from _unit_findings(found)


def _failure_findings(found: Perftest) -> Iterator[Finding]:
    done = completion(found.failures)
    if done is not None:
        lines = tuple(f.line for f in found.failures if f.kind == "completion_error")
        yield Finding("completion_error", "error", _completion_text(done), lines)
    kinds = dict.fromkeys(f.kind for f in found.failures if f.kind != "completion_error")
    for kind in kinds:
        same = [f for f in found.failures if f.kind == kind]
        yield Finding(kind, "error", same[0].text, tuple(f.line for f in same))


def _completion_text(failure: Failure) -> str:
    if failure.status is None:
        return tell("a work request failed; its status is not in this text")
    meaning = failure.meaning or tell("a status that is not known")
    if failure.syndrome:
        said = tell(
            "a work request failed with %(meaning)s (status %(status)s, syndrome %(syndrome)s)",
            meaning=meaning, status=failure.status, syndrome=failure.syndrome,
        )  # fmt: skip
    else:
        said = tell(
            "a work request failed with %(meaning)s (status %(status)s)",
            meaning=meaning, status=failure.status,
        )  # fmt: skip
    hint = _HINTS.get(failure.status)
    return tell("%(what)s: %(hint)s", what=said, hint=hint) if hint else said


def _missing(found: Perftest) -> str:
    """Say what keeps a text from being whole; empty when nothing does."""
    if not (found.blocks or found.headers or found.rows):
        return tell("a server waited for its client") if "waiting" in found.notes else ""
    if not found.rows:
        return tell("the test began, and no row of results follows")
    if found.torn_rows:
        return tell("a row is torn")
    if found.open_tables or found.has_torn_end:
        return tell("the table is not closed: the test may not have ended")
    if len(found.headers) < len(found.blocks):
        return tell("a side began its test and shows no table")
    if not found.blocks:
        return tell("only the table is here: device, link and direction are not known")
    return ""


def _row_findings(found: Perftest) -> Iterator[Finding]:
    still = tuple(r.line for r in found.rows if r.average == 0 or r.cells["iterations"] == 0)
    if still:
        yield Finding("no_traffic", "error", tell("a row says that nothing was moved"), still)
    odd = tuple(r.line for r in found.rows if not _agrees(r))
    if odd:
        text = tell("bandwidth and message rate of a row do not belong together")
        yield Finding("row_disagrees", "warn", text, odd)
    for rows in _by_test(found):
        averages = [r.average for r in rows if r.average]
        if len({r.size for r in rows}) != 1 or len(averages) < 2:
            continue
        low, high = min(averages), max(averages)
        lines = tuple(r.line for r in rows)
        speeds = {"low": f"{low:g}", "high": f"{high:g}", "unit": rows[0].unit}
        if len(rows) > _sides(found) and low < _UNEVEN_RATIO * high:
            text = tell("the speed was not even: between %(low)s and %(high)s %(unit)s", **speeds)
            yield Finding("uneven", "warn", text, lines)
        elif len(rows) <= _sides(found) and low < _SIDES_RATIO * high:
            text = tell("the two sides do not agree: %(low)s and %(high)s %(unit)s", **speeds)
            yield Finding("sides_differ", "warn", text, lines)


def _agrees(row: Row) -> bool:
    """Whether size, rate and bandwidth fit, within rounding; both directions may count twice."""
    gbps, rate = row.gbps, row.cells.get("msg_rate")
    if gbps is None or rate is None:
        return True
    step_gbps = (0.005 * MIB * 8 / 1e9) if row.unit == "MB/sec" else 0.005
    by_message = row.size * 8 / 1e3
    slack = 0.02 * gbps + step_gbps + 1e-6 * by_message * 2
    return any(abs(gbps - rate * by_message * times) <= slack for times in (1, 2, 0.5))


def _unit_findings(found: Perftest) -> Iterator[Finding]:
    rows = [r for r in found.rows if r.unit == "MB/sec" and r.average is not None]
    if rows:
        text = tell(
            "MB/sec of this tool are 2^20 bytes: %(mib)s MB/sec are %(gbps)s Gb/sec",
            mib=f"{rows[-1].average:g}", gbps=f"{rows[-1].gbps:.4g}",
        )  # fmt: skip
        yield Finding("mib_unit", "info", text, tuple(r.line for r in rows))


def _sides(found: Perftest) -> int:
    return max(1, len(found.blocks) - max(0, len(found.tests) - 1))


def _by_test(found: Perftest) -> list[list[Row]]:
    """Return the rows of each test. Sides of one test stay together; parts of a sum are left out."""
    rows = [r for r in found.rows if r.part is None]
    tests = found.tests
    if len(tests) <= 1:
        return [rows] if rows else []
    test_of = {block: place for place, test in enumerate(tests) for block in test}
    by_test: dict[int, list[Row]] = {}
    for row in rows:
        if row.block in test_of:
            by_test.setdefault(test_of[row.block], []).append(row)
    return [by_test[place] for place in sorted(by_test)]


def _result(found: Perftest, rows: list[Row]) -> Row | None:
    """Return the row that is the result of a test of one size; None when several rows could be.

    Both sides print the same test: of two figures the lower one surely arrived.
    """
    if not rows or len({r.size for r in rows}) != 1 or len({r.unit for r in rows}) != 1:
        return None
    same = len({r.average for r in rows}) == 1
    if same or (found.blocks and len(rows) <= _sides(found)):
        return min(rows, key=lambda r: r.average or 0.0)
    return None


def _values(found: Perftest) -> dict[str, Any]:
    tests = _by_test(found)
    rows = [r for r in found.rows if r.part is None]
    result = _result(found, tests[0]) if len(tests) == 1 else None
    units = {h.unit for h in found.headers if h.unit}
    values: dict[str, Any] = {
        "rows": len(found.rows),
        "table": [_row(r) for r in rows[:_ROWS_CAP]],
        "torn_last_row": _has_torn_last_row(found),
        "distinct_tests": len(found.tests) or (1 if len(found.headers) == 1 else None),
        "tests": [_test(found, t) for t in tests[:_ROWS_CAP]],
        "test": _same([f"{b.verb} {b.measure}" for b in found.blocks]),
        "bidirectional": _same([b.is_bidirectional for b in found.blocks]),
        "unit": units.pop() if len(units) == 1 else None,
        "plateau_gbps": _plateau(tests[0]) if len(tests) == 1 else None,
        "devices": list(dict.fromkeys(_told(found.blocks, "device"))),
        **{name: _same(_told(found.blocks, name)) for name in _SHARED},
        **_measured(result),
        **_error(found),
    }
    return values


def _measured(result: Row | None) -> dict[str, Any]:
    """Name what the result says; nothing when there is not exactly one result."""
    if result is None:
        return {"bw_avg": None, "bw_avg_gbps": None}
    named: dict[str, Any] = {"bw_avg": None, **_row(result)}
    named["peak"] = named.pop("bw_peak", None)
    named["bw_avg_gbps"] = to_gbps(result.average, result.unit)
    return named


def _row(row: Row) -> dict[str, Any]:
    whole = ("size", "iterations", "sl")
    cells = {n: int(v) if n in whole else v for n, v in row.cells.items()}
    return cells | {"unit": row.unit}


def _test(found: Perftest, rows: list[Row]) -> dict[str, Any]:
    blocks = [found.blocks[n] for n in sorted({r.block for r in rows if r.block >= 0})]
    result = _result(found, rows)
    return {
        "device": _same(_told(blocks, "device")),
        "bidirectional": _same([b.is_bidirectional for b in blocks]),
        "rows": len(rows),
        "bw_avg": result.average if result else None,
        "unit": result.unit if result else None,
        "bw_avg_gbps": result.gbps if result else None,
        "plateau_gbps": _plateau(rows),
    }


def _plateau(rows: list[Row]) -> float | None:
    """Return the average at the largest size in Gb/s, when the next smaller one is as fast.

    A sweep that ends while its speed still grows has no plateau.
    """
    by_size: dict[int, float] = {}
    for row in rows:
        if row.gbps is not None:
            by_size[row.size] = min(row.gbps, by_size.get(row.size, row.gbps))
    sizes = sorted(by_size)
    if len(sizes) < 2 or not by_size[sizes[-1]]:
        return None
    low, high = sorted((by_size[sizes[-2]], by_size[sizes[-1]]))
    return by_size[sizes[-1]] if low >= _PLATEAU_RATIO * high else None


def _has_torn_last_row(found: Perftest) -> bool:
    last = found.rows[-1].line if found.rows else 0
    return bool(found.torn_rows) and found.torn_rows[-1] > last


def _error(found: Perftest) -> dict[str, Any]:
    done = completion(found.failures)
    port = next((f.port for f in found.failures if f.port is not None), None)
    if done is not None:
        told = {"status": done.status, "syndrome": done.syndrome, "meaning": done.meaning}
        return {"error": told, "port": port}
    # A port that is down explains the sentences that follow from it.
    kinds = [f.kind for f in found.failures]
    first = "port_down" if "port_down" in kinds else kinds[0] if kinds else None
    return {"error": first.replace("_", " ") if first else None, "port": port}


def _told(blocks: list[Block], name: str) -> list[Any]:
    return [b.settings[name] for b in blocks if name in b.settings]


def _same(told: list[Any]) -> Any:
    return told[0] if told and all(word == told[0] for word in told) else None


def _summary(found: Perftest) -> str:
    if not (found.blocks or found.headers or found.notes):
        return tell("No output of perftest in this text.")
    tests = _by_test(found)
    results = [r for t in tests if (r := _result(found, t)) is not None]
    if missing := _missing(found):
        return tell("%(count)s rows; %(problem)s.", count=len(found.rows), problem=missing)
    if len(results) == 1 and results[0].average is None:
        mean = results[0].cells.get("t_avg_us", results[0].cells.get("t_typical_us"))
        return tell("%(mean)s us on average at %(size)s bytes.", mean=mean, size=results[0].size)
    if len(results) == 1:
        speed = f"{results[0].average:g} {results[0].unit}"
        return tell("%(speed)s on average at %(size)s bytes.", speed=speed, size=results[0].size)
    return tell("%(count)s rows of %(tests)s tests.", count=len(found.rows), tests=len(tests))
