"""What the CSV of an nvidia-smi query says about the cards in it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from fleet.readings.nvidia_smi.cells import Cell, parse_cell
from fleet.readings.nvidia_smi.query import QueryRow, QueryTable, parse_query
from fleet.readings.nvidia_smi.throttle import is_throttled, read_reasons
from fleet.readings.report import Finding, Report, Severity, lead, open_end, verdict_of
from fleet.readings.told import tell

_UNITS = frozenset({"MiB", "MHz", "%", "W"})
_CLOSED = re.compile(r"0|P[02-9]|P1[0-5]|Yes|No|Enabled|Disabled|(?:Not )?Active|Default")
# Fields that get a short name with their unit; all others keep the tool's name.
_SHORT = {
    "memory.total": "memory_total_mib",
    "memory.used": "memory_used_mib",
    "memory.free": "memory_free_mib",
    "power.draw": "power_draw_w",
    "power.limit": "power_limit_w",
    "enforced.power.limit": "power_limit_w",
    "clocks.current.sm": "sm_clock_mhz",
    "clocks.max.sm": "sm_clock_max_mhz",
    "temperature.gpu": "temperature_c",
    "utilization.gpu": "gpu_util",
    "ecc.errors.uncorrected.volatile.total": "ecc_uncorrected_volatile",
    "clocks_event_reasons.active": "clocks_event_reasons_active",
}
_MEASURED = (
    "memory.used",
    "memory.free",
    "utilization.",
    "power.draw",
    "temperature.",
    "clocks.current.",
)
# Version-like cells are words even when they look like numbers.
_WORDS = frozenset({"driver_version", "compute_cap", "vbios_version", "serial"})
# What must be equal on all cards of one node.
_SAME = ("name", "memory.total", "driver_version", "vbios_version", "power.limit", "compute_cap")
_MUST_BE_ZERO = (
    "ecc.errors.uncorrected.volatile.total",
    "ecc.errors.uncorrected.aggregate.total",
    "remapped_rows.uncorrectable",
)
_UNCORRECTED = "ecc.errors.uncorrected."
_MUST_BE_NO = (
    "remapped_rows.pending",
    "remapped_rows.failure",
    "retired_pages.pending",
    "ecc.errors.uncorrected.aggregate.sram.thresholdExceeded",
    "reset_status.reset_required",
)
# What the driver says a card needs or lacks: the words that are no trouble.
_GOOD_WORDS = {
    "gpu_recovery_action": ("None",),
    "fabric.state": ("Completed", "Not Supported"),
    "fabric.status": ("Success",),
}


def is_whole_row(text: str) -> bool:
    """Tell a row whose last cell cannot be a part of a longer one, when no line feed ends it."""
    word = text.rpartition(",")[2].strip()
    cell = parse_cell(word)
    return cell.state != "ok" or (cell.unit in _UNITS) or _CLOSED.fullmatch(word) is not None


def report_query(text: str, cut: int | None = None) -> Report:
    """Judge one CSV answer; columns without a header are named only where the values show it.

    `cut` is the last line when no line feed ends it: rows may be missing.
    """
    table = parse_query(text)
    inferred = False
    if not table.fields and (names := infer_fields(table)):
        table, inferred = parse_query(text, names), True
    pages = [f for f in table.fields if f.startswith("retired_pages.")]
    findings = (*open_end(cut), *_sentence_findings(table), *_findings(table))
    if inferred:
        why = tell("no header: used and free memory are told by their constant sum")
        findings += (Finding("columns_inferred", "info", why),)
    whole = table.complete and cut is None
    known = whole and bool(table.fields) and not (inferred or _failed(table) or table.missing)
    return Report(
        "nvidia-smi",
        _form(table, pages),
        whole,
        verdict_of(findings, known_good=known),
        lead(findings, _summary(table)),
        findings,
        _values(table, bool(pages)),
        tuple(sorted({*table.torn, *table.unread})),
    )


def infer_fields(table: QueryTable) -> tuple[str, ...]:
    """Name the columns index, used, free, utilisation of an answer without header.

    Two MiB columns whose sum is the same on all rows within 0.1 % are used and free; the tool
    lists used before free.
    """
    if len(table.rows) < 2 or len(table.rows[0].cells) != 4:
        return ()
    if [r.index for r in table.rows] != list(range(len(table.rows))):
        return ()
    units = {tuple(c.unit for c in r.cells) for r in table.rows}
    if units != {(None, "MiB", "MiB", "%")}:
        return ()
    sums = [(r.cells[1].number or 0) + (r.cells[2].number or 0) for r in table.rows]
    if max(sums) - min(sums) > 0.001 * max(sums):
        return ()
    return ("index", "memory.used", "memory.free", "utilization.gpu")


def _form(table: QueryTable, pages: list[str]) -> str:
    if pages:
        return "retired-pages"
    if "process_name" in table.fields or "pid" in table.fields:
        return "compute-apps"
    return "query" if table.fields else "query-without-header"


def _failed(table: QueryTable) -> list[QueryRow]:
    return [r for r in table.rows if any(c.has_failed for c in r.cells)]


def _sentence_findings(table: QueryTable) -> Iterator[Finding]:
    for sentence in table.sentences:
        severity: Severity = "error" if sentence.kind in ("lost_gpu", "no_devices") else "warn"
        yield Finding(sentence.kind, severity, sentence.text[:300], (sentence.line,))


def _findings(table: QueryTable) -> Iterator[Finding]:
    for row in table.rows:
        who = tell("a card") if row.index is None else tell("GPU %(index)s", index=row.index)
        states = {c.state for c in row.cells}
        if "reset_required" in states:
            text = tell("%(who)s requires a reset; its zeros do not mean idle", who=who)
            yield Finding("reset_required", "error", text, (row.line,))
        elif "lost" in states:
            yield Finding("lost_gpu", "error", tell("%(who)s is lost", who=who), (row.line,))
        elif states & {"unknown_error", "unreadable"}:
            text = tell("%(who)s did not answer: [Unknown Error]", who=who)
            yield Finding("unknown_error", "warn", text, (row.line,))
        yield from _health_findings(table, row, who)
    for field in _SAME:
        words = sorted({c.text for c in table.column(field) if c.state == "ok"})
        if len(words) > 1:
            text = tell("%(field)s differs: %(words)s", field=field, words=", ".join(words[:8]))
            yield Finding("cards_differ", "warn", text)
    for field in _MUST_BE_ZERO:
        if any(c.state in ("not_available", "not_supported") for c in table.column(field)):
            text = tell("%(field)s is not available: neither zero nor an error", field=field)
            yield Finding("ecc_not_available", "info", text)
    if table.is_beheaded:
        text = tell(
            "the first title is %(title)s: the beginning of the text is cut", title=table.fields[0]
        )
        yield Finding("torn", "warn", text, (table.header_line or 1,))
    if table.headers > 1:
        text = tell("the header stands twice: more than one answer in this text")
        yield Finding("mixed", "warn", text)
    if table.missing:
        numbers = ", ".join(str(n) for n in table.missing[:16])
        text = tell("no row for GPU %(numbers)s: not asked for, or not there", numbers=numbers)
        yield Finding("cards_missing", "warn", text)
    if table.torn:
        yield Finding("torn", "warn", tell("rows that are cut"), table.torn)


def _health_findings(table: QueryTable, row: QueryRow, who: str) -> Iterator[Finding]:
    parts = [f for f in table.fields if f.startswith(_UNCORRECTED) and f not in _MUST_BE_ZERO]
    for field in (*_MUST_BE_ZERO, *parts):
        cell = table.cell(row, field)
        if cell is not None and cell.number:
            yield Finding("ecc", "error", _field_is(who, field, cell), (row.line,))
    for field in _MUST_BE_NO:
        cell = table.cell(row, field)
        if cell is not None and (cell.text == "Yes" or cell.number):
            yield Finding("remap", "error", _field_is(who, field, cell), (row.line,))
    for field, good in _GOOD_WORDS.items():
        cell = table.cell(row, field)
        if cell is not None and cell.state == "ok" and cell.text not in good:
            id_ = "reset_required" if field == "gpu_recovery_action" else "fabric_not_ready"
            yield Finding(id_, "error", _field_is(who, field, cell), (row.line,))
    reasons = read_reasons(table, row)
    if reasons and is_throttled(reasons):
        hard = set(reasons) - {"sw_power_cap", "sync_boost"} != set()
        text = tell("%(who)s is held back: %(reasons)s", who=who, reasons=", ".join(reasons))
        yield Finding("throttled", "error" if hard else "warn", text, (row.line,))


def _field_is(who: str, field: str, cell: Cell) -> str:
    return tell("%(who)s: %(field)s is %(value)s", who=who, field=field, value=cell.text)


def _summary(table: QueryTable) -> str:
    failed = _failed(table)
    if failed:
        return tell(
            "%(failed)s of %(all)s rows could not be read by the tool.",
            failed=len(failed),
            all=len(table.rows),
        )
    if not table.rows:
        return tell("No rows of an nvidia-smi query in this text.")
    names = sorted({c.text for c in table.column("name")})
    if not names:
        return tell("%(all)s rows", all=len(table.rows))
    named = names[0]
    for name in names[1:3]:
        named = tell("%(one)s and %(other)s", one=named, other=name)
    return tell("%(all)s rows, %(names)s", all=len(table.rows), names=named)


def _values(table: QueryTable, is_pages: bool) -> dict[str, Any]:
    indexes = [r.index for r in table.rows]
    numbered = all(i is not None for i in indexes) and len(set(indexes)) == len(indexes)
    reasons = [r for row in table.rows if (r := read_reasons(table, row)) is not None]
    values: dict[str, Any] = {
        "samples": len(table.rows),
        "valid_samples": len(table.rows) - len(_failed(table)),
        "gpu_count": _count(table, numbered),
        "gpus": [_row_values(table, r) for r in table.rows] if table.fields else [],
        "needs_reset": [
            r.index for r in table.rows if any(c.state == "reset_required" for c in r.cells)
        ],
    }
    for field in table.fields:
        values.setdefault(_SHORT.get(field, field), _one_or_all(_column_values(table, field)))
    if "driver_version" in table.fields:
        values["driver"] = values["driver_version"]
    if reasons:
        values["reasons_active"] = sorted({word for row in reasons for word in row})
        values["throttled"] = any(is_throttled(r) for r in reasons)
    values["homogeneous"] = _homogeneous(table)
    values["min_free_gpu"] = _least_free(table) if numbered else None
    if is_pages:
        values["retired_page_count"] = sum(
            1 for row in table.rows if all(c.state == "ok" for c in row.cells)
        )
    lost = [s for s in table.sentences if s.kind == "lost_gpu"]
    if lost:
        values["lost_gpu"] = {"index": lost[0].index, "pci": lost[0].pci}
    return values


def _count(table: QueryTable, numbered: bool) -> int | None:
    if not table.rows or {"pid", "process_name"} & set(table.fields):
        return None
    if numbered and (table.fields or _are_numbers_of_cards(table)):
        return len(table.rows)
    uuids = [c.text for c in table.column("uuid") if c.state == "ok"]
    return len(set(uuids)) or None


def _are_numbers_of_cards(table: QueryTable) -> bool:
    """Tell whether a first column without a title counts cards: 0, 1, 2 ... or beside a UUID."""
    counted = [r.index for r in table.rows] == list(range(len(table.rows))) and len(table.rows) > 1
    return counted or any(c.text.startswith("GPU-") for r in table.rows for c in r.cells)


def _row_values(table: QueryTable, row: QueryRow) -> dict[str, Any]:
    told: dict[str, Any] = {}
    for field, cell in zip(table.fields, row.cells, strict=True):
        told[field] = None if _is_stale(field, row) else _cell_value(field, cell)
    return told


def _column_values(table: QueryTable, field: str) -> list[Any]:
    return [
        None if _is_stale(field, row) else _cell_value(field, cell)
        for row in table.rows
        if (cell := table.cell(row, field)) is not None
    ]


def _is_stale(field: str, row: QueryRow) -> bool:
    """Tell a measured number of a card that is lost or waits for a reset: its 0 MiB is not idle."""
    gone = any(c.state in ("reset_required", "lost") for c in row.cells)
    return gone and field.startswith(_MEASURED)


def _cell_value(field: str, cell: Cell) -> Any:
    if field in _WORDS:
        return cell.text if cell.state == "ok" else None
    return cell.value


def _one_or_all(column: list[Any]) -> Any:
    return column[0] if column and all(v == column[0] for v in column) else column


def _homogeneous(table: QueryTable) -> bool | None:
    told = [table.column(f) for f in _SAME if table.column(f)]
    return all(len({c.text for c in column}) == 1 for column in told) if told else None


def _least_free(table: QueryTable) -> int | None:
    free = [
        (cell.number, row.index)
        for row in table.rows
        if (cell := table.cell(row, "memory.free")) and cell.number is not None
        if not _is_stale("memory.free", row)
    ]
    return min(free, key=lambda pair: pair[0])[1] if free else None
