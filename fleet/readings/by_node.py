"""Outputs of several nodes in one text: `h100-001: the line` of pdsh and clush, blocks of dshbak, clush -b, ansible.

Each node's lines are read as a text of their own; a block may stand for many nodes whose outputs are the same. Not in
charge of lines of several nodes without names (xargs -P): those are mixed, which each reading says for itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from fleet.readings.open_end import has_open_end
from fleet.readings.report import Finding, Report, Verdict
from fleet.readings.told import tell
from fleet.rules.nodeset import NodesetError, parse_nodeset

_NODES_CAP = 1024
_FINDINGS_A_NODE = 8
_NAMES_SHOWN = 8
# A host name with a digit; no name of a device or of a key has all of that and stands before each line.
_NAMED = re.compile(r"((?=[a-zA-Z.-]{0,62}\d)[a-zA-Z0-9][a-zA-Z0-9.-]{1,62}): ?(.*)", re.DOTALL)
_LAUNCHER = re.compile(r"(?:pdsh@[\w.-]{1,80}|clush): ([\w.,\[\]-]{1,200}): (.{0,300})")
# dshbak and clush -b rule off a head of node names, above and below; clush counts the nodes behind them.
_RULE = re.compile(r"-{8,80}")
_HEAD = re.compile(r"([A-Za-z0-9][\w.,\[\]-]{0,3999})(?: \((\d{1,4})\))?", re.ASCII)
_ANSIBLE = re.compile(
    r"([A-Za-z0-9][\w.-]{0,62}) \| (CHANGED|SUCCESS|FAILED|UNREACHABLE!)"
    r"(?: \| rc=(\d{1,3}) >>| => \{.{0,300})",
    re.ASCII,
)


class Share(NamedTuple):
    """The lines of one node, or of nodes with the same lines, and their numbers in the whole text."""

    text: str
    numbers: tuple[int, ...]
    nodes: int = 1


class Nodes(NamedTuple):
    """A text parted by nodes. `failures`: (line, node, words) of the launcher about nodes that failed."""

    shares: dict[str, Share]
    failures: tuple[tuple[int, str, str], ...]
    is_open: bool


@dataclass
class _Blocks:
    """What the blocks read so far hold. `names`: every node that has its block."""

    lines: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    failures: list[tuple[int, str, str]] = field(default_factory=list)
    names: set[str] = field(default_factory=set)


def part_by_node(text: str) -> Nodes | None:
    """Part a text every line of which belongs to a node by its name or its block; None for any other text."""
    return _part_by_lines(text) or _part_by_blocks(text)


def _part_by_lines(text: str) -> Nodes | None:
    if _NAMED.match(text.lstrip("\r\n")) is None and _LAUNCHER.match(text) is None:
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


def _part_by_blocks(text: str) -> Nodes | None:
    """Part blocks under heads; a line before the first head, or a node with two blocks, is of no such text."""
    rows = text.split("\n")
    found, name, at = _Blocks(), "", 0
    while at < len(rows):
        row = rows[at].rstrip("\r")
        head = _head_of(rows, at)
        if head is not None:
            name, step = head[0], head[2]
            if found.names & head[1] or len(found.lines) >= _NODES_CAP:
                return None
            found.names |= head[1]
            found.counts[name] = len(head[1])
            found.lines[name] = []
            at += step
            continue
        if told := _LAUNCHER.match(row):
            found.failures.append((at + 1, told[1], told[2].strip()))
        elif (said := _ANSIBLE.fullmatch(row)) and said[1] not in found.names:
            name = _take_ansible(said, at + 1, found)
        elif name:
            found.lines[name].append((at + 1, rows[at]))
        elif row.strip("\0 \t"):
            return None
        at += 1
    if not any(found.lines.values()):
        return None
    return Nodes(dict(_shares(found)), tuple(found.failures), has_open_end(text))


def _head_of(rows: list[str], at: int) -> tuple[str, set[str], int] | None:
    """Return the words of a head between rules, the nodes it names, and its three lines."""
    if len(rows) < at + 3 or not _RULE.fullmatch(rows[at].rstrip("\r")):
        return None
    if rows[at + 2].rstrip("\r") != rows[at].rstrip("\r"):
        return None
    words = _HEAD.fullmatch(rows[at + 1].strip())
    if words is None:
        return None
    try:
        names = set(parse_nodeset(words[1].lower())[0])
    except NodesetError:
        return None
    is_counted = words[2] is None or int(words[2]) == len(names)
    # A word without a digit between rules is a title that a script wrote, not a node.
    is_numbered = any(char.isdigit() for char in words[1])
    return (words[1], names, 3) if is_counted and is_numbered else None


def _take_ansible(said: re.Match[str], line: int, found: _Blocks) -> str:
    """Open the block of a node; one that was not reached or failed is said and has its lines all the same."""
    name = said[1]
    found.names.add(name)
    found.counts[name] = 1
    found.lines[name] = []
    if said[2] == "UNREACHABLE!" or (said[3] or "0") != "0":
        found.failures.append((line, name, said[0].partition(" | ")[2][:300]))
    return name


def _shares(found: _Blocks) -> Iterator[tuple[str, Share]]:
    failed = {name for _, name, _ in found.failures}
    for name, lines in found.lines.items():
        while lines and not lines[-1][1].strip("\r\0 \t"):
            lines.pop()
        if lines or name not in failed:
            text = "".join(f"{row}\n" for _, row in lines)
            yield name, Share(text, tuple(number for number, _ in lines), found.counts[name])


def report_nodes(nodes: Nodes, kind: str, report: Callable[[str], Report]) -> Report:
    """Read each node's share and say all of it; it passes only when every node does."""
    reports = {name: report(share.text) for name, share in nodes.shares.items()}
    findings = [*_launcher_findings(nodes), *_end_findings(nodes)]
    for name, found in reports.items():
        findings += list(_findings_of(name, found, nodes.shares[name]))[:_FINDINGS_A_NODE]
    complete = all(r.complete for r in reports.values()) and not (nodes.failures or nodes.is_open)
    values: dict[str, Any] = {
        "node_count": sum(share.nodes for share in nodes.shares.values()),
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
        kind, f"nodes, {', '.join(forms[:4])}", complete, _verdict(reports, complete),
        _summary(nodes, reports), tuple(findings), values, tuple(sorted(unread)),
    )  # fmt: skip


def _summary(nodes: Nodes, reports: dict[str, Report]) -> str:
    def count(verdict: Verdict) -> int:
        return sum(
            nodes.shares[n].nodes for n, found in reports.items() if found.verdict == verdict
        )

    failed, unknown = count("fail"), count("unknown")
    text = tell(
        "%(nodes)s nodes: %(passed)s passed",
        nodes=count("pass") + failed + unknown,
        passed=count("pass"),
    )
    if failed:
        names = _named(reports, "fail")
        text = tell("%(text)s, %(count)s failed (%(names)s)", text=text, count=failed, names=names)
    if unknown:
        names = _named(reports, "unknown")
        text = tell(
            "%(text)s, %(count)s not decided (%(names)s)", text=text, count=unknown, names=names
        )
    return tell("%(text)s.", text=text)


def _named(reports: dict[str, Report], verdict: Verdict) -> str:
    names = [name for name, found in reports.items() if found.verdict == verdict]
    shown = ", ".join(names[:_NAMES_SHOWN])
    if len(names) <= _NAMES_SHOWN:
        return shown
    return tell("%(names)s and %(more)s more", names=shown, more=len(names) - _NAMES_SHOWN)


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
    last = max((n for share in nodes.shares.values() for n in share.numbers), default=1)
    text = tell(
        "line %(line)s has no line feed at its end: lines of any node may be missing behind it",
        line=last,
    )
    return [Finding("open_end", "warn", text, (last,))]


def _findings_of(name: str, found: Report, share: Share) -> list[Finding]:
    return [
        replace(
            finding,
            text=tell("%(node)s: %(text)s", node=name, text=finding.text),
            lines=tuple(share.numbers[n - 1] for n in finding.lines if n <= len(share.numbers)),
        )
        for finding in sorted(found.findings, key=lambda f: f.severity != "error")
    ]
