"""Outputs of several nodes in one text, as pdsh and clush print them: `h100-001: the line`.

Each node's lines are read as a text of their own. Not in charge of lines of several nodes without names (xargs -P):
those are mixed, which each reading says for itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from fleet.readings.open_end import has_open_end
from fleet.readings.report import Finding, Report, Verdict

_NODES_CAP = 1024
_FINDINGS_A_NODE = 8
# A host name with a digit; no name of a device or of a key has all of that and stands before each line.
_NAMED = re.compile(r"((?=[a-zA-Z.-]{0,62}\d)[a-zA-Z0-9][a-zA-Z0-9.-]{1,62}): ?(.*)", re.DOTALL)
_LAUNCHER = re.compile(r"(?:pdsh@[\w.-]{1,80}|clush): ([\w.,\[\]-]{1,200}): (.{0,300})")


class Share(NamedTuple):
    """The lines of one node and their numbers in the whole text."""

    text: str
    numbers: tuple[int, ...]


class Nodes(NamedTuple):
    """A text parted by nodes. `failures`: (line, node, words) of the launcher about nodes that failed."""

    shares: dict[str, Share]
    failures: tuple[tuple[int, str, str], ...]
    is_open: bool


def part_by_node(text: str) -> Nodes | None:
    """Part a text every line of which names a node; None for any other text."""
    if _NAMED.match(text.lstrip("\n")) is None and _LAUNCHER.match(text) is None:
        return None
    lines: dict[str, list[str]] = {}
    numbers: dict[str, list[int]] = {}
    failures = []
    for number, row in enumerate(text.split("\n"), 1):
        if not row.strip("\r\0 \t"):
            continue
        if told := _LAUNCHER.match(row):
            failures.append((number, told[1], told[2].strip()))
            continue
        found = _NAMED.match(row)
        if found is None or (found[1] not in lines and len(lines) >= _NODES_CAP):
            return None
        lines.setdefault(found[1], []).append(found[2])
        numbers.setdefault(found[1], []).append(number)
    if not lines:
        return None
    shares = {
        name: Share("\n".join(rows) + "\n", tuple(numbers[name])) for name, rows in lines.items()
    }
    return Nodes(shares, tuple(failures), has_open_end(text))


def report_nodes(nodes: Nodes, kind: str, report: Callable[[str], Report]) -> Report:
    """Read each node's share and say all of it; it passes only when every node does."""
    reports = {name: report(share.text) for name, share in nodes.shares.items()}
    findings = [*_launcher_findings(nodes), *_end_findings(nodes)]
    for name, found in reports.items():
        findings += list(_findings_of(name, found, nodes.shares[name]))[:_FINDINGS_A_NODE]
    complete = all(r.complete for r in reports.values()) and not (nodes.failures or nodes.is_open)
    verdict = _verdict(reports, complete)
    failed = [name for name, found in reports.items() if found.verdict == "fail"]
    unknown = [name for name, found in reports.items() if found.verdict == "unknown"]
    summary = f"{len(reports)} nodes: {len(reports) - len(failed) - len(unknown)} passed"
    for names, word in ((failed, "failed"), (unknown, "not decided")):
        if names:
            more = f" and {len(names) - 8} more" if len(names) > 8 else ""
            summary += f", {len(names)} {word} ({', '.join(names[:8])}{more})"
    values: dict[str, Any] = {
        "node_count": len(reports),
        "nodes": {name: dict(found.values) for name, found in reports.items()},
        "verdicts": {name: found.verdict for name, found in reports.items()},
    }
    forms = list(dict.fromkeys(found.form for found in reports.values()))
    unread = (
        nodes.shares[name].numbers[n - 1]
        for name, found in reports.items()
        for n in found.unread
        if n <= len(nodes.shares[name].numbers)
    )
    return Report(
        kind, f"nodes, {', '.join(forms[:4])}", complete, verdict, f"{summary}.", tuple(findings),
        values, tuple(sorted(unread)),
    )  # fmt: skip


def _verdict(reports: dict[str, Report], complete: bool) -> Verdict:
    told = {found.verdict for found in reports.values()}
    if "fail" in told:
        return "fail"
    return "pass" if told == {"pass"} and complete else "unknown"


def _launcher_findings(nodes: Nodes) -> list[Finding]:
    return [
        Finding("node_failed", "warn", f"{name}: {words}", (line,))
        for line, name, words in nodes.failures[:64]
    ]


def _end_findings(nodes: Nodes) -> list[Finding]:
    """Of a text that may be cut, every node may miss its last lines."""
    if not nodes.is_open:
        return []
    last = max(share.numbers[-1] for share in nodes.shares.values())
    text = f"line {last} has no line feed at its end: lines of any node may be missing behind it"
    return [Finding("open_end", "warn", text, (last,))]


def _findings_of(name: str, found: Report, share: Share) -> list[Finding]:
    return [
        replace(
            finding,
            text=f"{name}: {finding.text}",
            lines=tuple(share.numbers[n - 1] for n in finding.lines if n <= len(share.numbers)),
        )
        for finding in sorted(found.findings, key=lambda f: f.severity != "error")
    ]
