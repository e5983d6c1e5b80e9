"""The one object a reading of pasted text gives: verdict, findings with their lines, values taken.

A reading judges a text by itself. Comparing with a golden node or an earlier run is a rule's work.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from fleet.readings.told import tell

Severity = Literal["error", "warn", "info"]
Verdict = Literal["pass", "fail", "unknown"]

LINES_CAP = 200


@dataclass(frozen=True)
class Finding:
    """One thing worth saying about a text, with the numbers of the lines that show it."""

    id: str
    severity: Severity
    text: str
    lines: tuple[int, ...] = ()


@dataclass(frozen=True)
class Report:
    """What a text says. `complete` is False when something that belongs to it is missing."""

    kind: str
    form: str
    complete: bool
    verdict: Verdict
    summary: str
    findings: tuple[Finding, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)
    unread: tuple[int, ...] = ()

    def as_object(self) -> dict[str, Any]:
        """Return the JSON object of `manage.py read`; long lists of lines are cut to a cap."""
        return {
            "kind": self.kind,
            "form": self.form,
            "complete": self.complete,
            "verdict": self.verdict,
            "summary": self.summary,
            "findings": [
                {
                    "id": f.id,
                    "severity": f.severity,
                    "text": f.text,
                    "lines": list(f.lines[:LINES_CAP]),
                }
                for f in self.findings
            ],
            "values": dict(self.values),
            "unread": list(self.unread[:LINES_CAP]),
        }


def with_others(main: Report, others: Sequence[Report]) -> Report:
    """Return a report of a text that holds other forms of the same kind too: their faults count, a pass is doubted.

    The values stay those of `main`. A form that gave nothing must not be among `others`.
    """
    if not others:
        return main
    known = {(f.id, f.text) for f in main.findings}
    errors = [
        f
        for r in others
        for f in r.findings
        if f.severity == "error" and (f.id, f.text) not in known
    ]
    forms = ", ".join(dict.fromkeys(r.form for r in others))
    text = tell(
        "other outputs stand in this text, of which only the faults are told: %(forms)s",
        forms=forms,
    )
    findings = (*main.findings, *errors, Finding("several_outputs", "warn", text))
    return replace(
        main,
        complete=False,
        verdict=verdict_of(findings, known_good=False),
        summary=main.summary if main.verdict == "fail" else lead(findings, main.summary),
        findings=findings,
    )


def verdict_of(findings: Iterable[Finding], *, known_good: bool) -> Verdict:
    """Return fail for any error, pass only for a text known to be whole and good, else unknown."""
    if any(f.severity == "error" for f in findings):
        return "fail"
    return "pass" if known_good else "unknown"


def open_end(line: int | None, severity: Severity = "warn") -> Iterator[Finding]:
    """Say that no line feed ends the last line of a text, so that it or more may be missing."""
    if line is not None:
        text = tell(
            "line %(line)s has no line feed at its end: the text may be cut there", line=line
        )
        yield Finding("open_end", severity, text, (line,))


def lead(findings: Iterable[Finding], otherwise: str) -> str:
    """Return the text of the first error as a summary, or another one when there is none."""
    return next((f.text for f in findings if f.severity == "error"), otherwise)
