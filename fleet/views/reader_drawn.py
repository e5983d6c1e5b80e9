"""How a reading is drawn: the marked text, the verdict in words, findings with links, values by their names."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from fleet.marks import CRIT, IDLE, OK, WARN, Mark
from fleet.readings.report import Finding, Report
from fleet.readings.text import decode
from fleet.readings.told import sentence_of
from fleet.rules import pasted_lines
from fleet.rules.log_text import show_text
from fleet.rules.message import said
from fleet.rules.next_looks import next_looks

LINKS_MOST = 3
VALUES_MOST = 120
VALUE_CHARS = 160
TABLE_CHARS = 20_000

_VERDICTS = {
    "pass": Mark(OK, "ok", _("Passed"), "pass"),
    "fail": Mark(CRIT, "crit", _("Failed"), "fail"),
    "unknown": Mark(WARN, "unk", _("Not decided"), "unknown"),
    "incomplete": Mark(WARN, "warn", _("Incomplete"), "incomplete"),
    "unrecognised": Mark(IDLE, "unk", _("Not recognised"), "unrecognised"),
}
_SEVERITIES = {
    "error": Mark(CRIT, "crit", _("Error"), "error"),
    "warn": Mark(WARN, "warn", _("Warning"), "warn"),
    "info": Mark(IDLE, "info", _("Note"), "info"),
    "unread": Mark(IDLE, "skip", _("Not read"), "unread"),
}
_LINE_CLASS = {"error": "crit", "warn": "warn", "info": "info", "unread": "dim"}


def verdict_mark(report: Report) -> Mark:
    """Return how a report is called: its verdict, and where that is unknown, why."""
    if report.verdict != "unknown":
        return _VERDICTS[report.verdict]
    if report.form == "unrecognised":
        return _VERDICTS["unrecognised"]
    return _VERDICTS["unknown" if report.complete else "incomplete"]


def drawn(report: Report, raw: bytes) -> dict[str, Any]:
    """Return what the page shows of a report and its text; `raw` is what was read, undecoded."""
    marks = pasted_lines.marks_of(report)
    total = pasted_lines.line_count(raw)
    flat = list(_flat("", report.values))
    return {
        "report": report,
        "summary": show_text(said(sentence_of(report.summary), gettext)),
        "mark": verdict_mark(report),
        "total": total,
        "size": len(raw),
        "rows": _rows(raw, total, marks),
        "that_matter": sum(word != "unread" for word in marks.values()),
        "findings": [_finding(found) for found in report.findings],
        "unread": list(report.unread[:LINKS_MOST]),
        "unread_more": len(report.unread[LINKS_MOST:]),
        "looks": next_looks(report),
        "values": [row for row in flat if not row["is_long"]][:VALUES_MOST],
        "tables": [row for row in flat if row["is_long"]][:VALUES_MOST],
    }


def _finding(found: Finding) -> dict[str, Any]:
    named = pasted_lines.named(found)[:LINKS_MOST]
    return {
        "mark": _SEVERITIES[found.severity],
        "id": found.id,
        "text": show_text(said(sentence_of(found.text), gettext)),
        "lines": named,
        "more": len(found.lines) - len(named),
    }


def _rows(raw: bytes, total: int, marks: Mapping[int, str]) -> list[dict[str, Any]]:
    """Return lines, folds of equal lines, and gaps in their order."""
    parts = pasted_lines.spans(total, marks)
    lines = [
        (number, show_text(decode(line)[: pasted_lines.LINE_CHARS]))
        for number, line in pasted_lines.lines_of(raw, parts)
    ]
    folds = dict(pasted_lines.runs(lines, marks))
    gaps = {part.last + 1: part for part in parts if not part.is_drawn}
    rows: list[dict[str, Any]] = []
    at = 0
    while at < len(lines):
        if gap := gaps.get(lines[at][0]):
            rows.append({"gap": gap, "count": gap.last - gap.first + 1})
        if at in folds:
            inside = [_line(*line, marks) for line in lines[at : folds[at] + 1]]
            rows.append({"fold": inside, "count": len(inside)})
            at = folds[at] + 1
            continue
        rows.append(_line(*lines[at], marks))
        at += 1
    return rows


def _line(number: int, text: str, marks: Mapping[int, str]) -> dict[str, Any]:
    word = marks.get(number, "")
    mark = _SEVERITIES.get(word)
    return {"n": number, "text": text, "class": _LINE_CLASS.get(word, ""), "mark": mark}


def _flat(path: str, values: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield each value with its path; of the names that `manage.py read` prints, none is translated."""
    for name, value in values.items():
        where = f"{path}.{name}" if path else str(name)
        if isinstance(value, Mapping) and value:
            yield from _flat(where, value)
            continue
        is_plain = not isinstance(value, list | tuple) or not any(
            isinstance(item, Mapping | list | tuple) for item in value
        )
        if value is None or value == [] or value == {}:
            continue  # not in the text: no row, rather than a zero
        text = _said(value) if is_plain else json.dumps(value, ensure_ascii=False)
        if is_plain and len(text) <= VALUE_CHARS:
            yield {"name": where, "text": show_text(text), "is_long": False}
        else:
            count = len(value) if isinstance(value, list | tuple) else 1
            pretty = text if is_plain else _table(value)
            shown = "\n".join(map(show_text, pretty[:TABLE_CHARS].split("\n")))
            yield {"name": where, "text": shown, "count": count, "is_long": True}


def _said(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return ", ".join(map(_said, value))
    return str(value)


def _table(values: list[Any]) -> str:
    return "\n".join(json.dumps(value, ensure_ascii=False, default=str) for value in values)
