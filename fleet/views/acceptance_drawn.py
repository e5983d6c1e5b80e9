"""How acceptances are drawn: checks with their evidence, nodes of a run folded by result, the panel of a node."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from fleet.marks import Mark, mark_of
from fleet.models import Node, NodeAcceptance
from fleet.rules.acceptance import ACCEPTED, MARGINAL, NOT_MEASURED, REJECTED
from fleet.rules.acceptance_checks import CHECKS
from fleet.rules.message import said
from fleet.rules.nodeset import fold_nodeset
from fleet.selectors.acceptance import NodeStanding, node_standing, stands_of

# What needs somebody comes first; what is well, last.
ORDER = (REJECTED, MARGINAL, NOT_MEASURED, "", ACCEPTED)
NAMED_MAX = 6


@dataclass(frozen=True)
class CheckDrawn:
    """One check as a row: sign, word, sentences, and links to where it was read."""

    name: str
    mark: Mark
    word: str
    expected: str
    found: str
    next: str
    links: list[tuple[str, str]]


@dataclass
class Group:
    """Nodes of a run with one result."""

    verdict: str
    mark: Mark
    summary: str
    names: list[str] = field(default_factory=list)

    @property
    def nodes(self) -> str:
        """The nodes as one folded set."""
        return fold_nodeset(self.names)

    @property
    def shown(self) -> list[str]:
        """The names one by one, where they are few."""
        return self.names if len(self.names) <= NAMED_MAX else []


def mark_for(row: NodeAcceptance) -> Mark:
    """Return the sign of an acceptance: one that was ended is no longer valid, whatever it said."""
    return mark_of("acceptance", "void" if row.voided_at is not None else row.verdict)


def checks_drawn(row: NodeAcceptance, node: Node) -> list[CheckDrawn]:
    """Return the checks of an acceptance in their order."""
    return [_check(check, node) for check in row.checks if isinstance(check, dict)]


def run_mark(groups: Sequence[Group], *, is_open: bool) -> Mark:
    """Return the sign of a whole run: at work, else the result that needs somebody most."""
    if is_open or not groups:
        return mark_of("acceptance", "")
    return groups[0].mark


def groups_drawn(rows: Iterable[NodeAcceptance]) -> list[Group]:
    """Fold the nodes of a run by verdict and reason, what needs somebody first."""
    groups: dict[tuple[str, str], Group] = {}
    for row in rows:
        summary = said(row.summary, _) if row.verdict else stage_of(row)
        key = (row.verdict, "" if row.verdict == ACCEPTED else summary)
        if key not in groups:
            groups[key] = Group(row.verdict, mark_of("acceptance", row.verdict), summary)
        groups[key].names.append(row.node.name)
    return sorted(groups.values(), key=lambda group: (ORDER.index(group.verdict), group.names[0]))


def headline(groups: Sequence[Group]) -> str:
    """Say in one line how a run came out: "47 accepted, h100-033 rejected: uncorrected ECC on GPU 3"."""
    parts = []
    for verdict in reversed(ORDER):
        mine = [group for group in groups if group.verdict == verdict]
        count = sum(len(group.names) for group in mine)
        if not count:
            continue
        if verdict in (REJECTED, MARGINAL) and len(mine) == 1 and count <= 3:
            words = {"nodes": mine[0].nodes, "why": mine[0].summary}
            text = (
                _("%(nodes)s rejected: %(why)s")
                if verdict == REJECTED
                else _("%(nodes)s marginal: %(why)s")
            )
            parts.append(text % words)
        else:
            parts.append(_count(verdict, count))
    return ", ".join(parts)


def _count(verdict: str, count: int) -> str:
    words = {
        ACCEPTED: ngettext("%(n)d accepted", "%(n)d accepted", count),
        MARGINAL: ngettext("%(n)d marginal", "%(n)d marginal", count),
        REJECTED: ngettext("%(n)d rejected", "%(n)d rejected", count),
        NOT_MEASURED: ngettext("%(n)d not measured", "%(n)d not measured", count),
        "": ngettext("%(n)d at work", "%(n)d at work", count),
    }
    return words[verdict] % {"n": count}


def stage_of(row: NodeAcceptance) -> str:
    """Say what an open acceptance is at."""
    if row.probe is None or row.probe.settled_at is None:
        return _("Being probed")
    if row.look is None:
        return _("Probed; its tests are next")
    running = [
        word
        for command, word in ((row.allreduce, "all_reduce"), (row.disk_read, _("disk read")))
        if command is not None and (command.subject is None or not command.subject.has_ended)
    ]
    if running:
        return _("Testing: %(tests)s") % {"tests": ", ".join(running)}
    return _("Tested; being judged")


def panel(node: Node) -> dict[str, Any]:
    """Return what the panel of the node page shows."""
    standing: NodeStanding = node_standing(node)
    shown = standing.open or standing.newest
    checks = checks_drawn(shown, node) if shown else []
    return {
        "open": standing.open,
        "stage": stage_of(standing.open) if standing.open else "",
        "row": shown,
        "mark": mark_for(shown) if shown else None,
        "summary": said(shown.summary, _) if shown else "",
        "void": said(shown.voided_why, _) if shown else "",
        "answer": _answer(standing.standing, node),
        "stands": standing.standing if standing.standing != shown else None,
        "stands_mark": mark_for(standing.standing) if standing.standing else None,
        "open_checks": [check for check in checks if check.mark.state != "pass"],
        "passed": [check for check in checks if check.mark.state == "pass"],
        "history": [
            {"row": row, "mark": mark_for(row), "summary": said(row.voided_why or row.summary, _)}
            for row in standing.history
            if row != shown and row.settled_at is not None
        ],
    }


def _answer(row: NodeAcceptance | None, node: Node) -> str:
    """Say of a marginal node who let it in and why, or what lets it in; empty for any other."""
    if row is None or row.verdict != MARGINAL or row.voided_at is not None:
        return ""
    stand = stands_of([node.pk])[node.pk]
    if stand.let_in_by:
        return _("%(who)s let it in: %(reason)s") % {
            "who": stand.let_in_by,
            "reason": stand.let_in_why,
        }
    if not stand.held_for:
        return ""  # of a verdict that is older than the hold of marginal nodes
    return _(
        "It is given no work. Mend it and accept it again, or an approver lifts the hold of acceptance with a reason."
    )


def _check(check: dict[str, Any], node: Node) -> CheckDrawn:
    name = str(check.get("name", ""))
    word = CHECKS[name][0] if name in CHECKS else name
    texts = {key: said(str(check.get(key) or ""), _) for key in ("expected", "found", "next")}
    links = [_link(str(one), node) for one in check.get("evidence") or []]
    mark = mark_of("check", str(check.get("verdict", "")))
    return CheckDrawn(name, mark, said(word, _), **texts, links=[one for one in links if one[1]])


def _link(evidence: str, node: Node) -> tuple[str, str]:
    """Return (words, address) of a piece of evidence; no address for words that name none."""
    kind, colon, pk = evidence.partition(":")
    if colon and kind == "evidence" and pk.isdecimal():
        return _("output"), reverse("evidence", args=[int(pk)])
    command, slash, section = evidence.partition("/")
    if slash and command.isdecimal() and section:
        return section, reverse("probe-raw", args=[node.name, int(command), section])
    return evidence, ""
