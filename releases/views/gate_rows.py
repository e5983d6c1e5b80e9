"""Draws the rows of a gate run: every result that is asked for has its place, also before and without one.

A release may ask a thousand prompts: a check shows one page of its rows, and counts all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from fleet.marks import IDLE, Mark, mark_of
from fleet.rules.log_text import show_text
from fleet.rules.message import said
from releases.models import GateRow, GateRun
from releases.rules import gates as rules
from releases.selectors.gate_page import GateSeen, Key, gate_rows
from releases.services.gates import wanted_rows

CHECK_WORDS = {
    rules.GOLDEN: gettext_lazy("Golden answers"),
    rules.STREAM: gettext_lazy("Streamed answers"),
    rules.TRANSPORT: gettext_lazy("Transport of every rank"),
}
_WORDS = re.compile(r"[\u3400-\u9fff]|\w+|\s|.", re.DOTALL)
_WORST = (rules.FAILED, rules.INCONCLUSIVE)
ROWS_SHOWN = 50


@dataclass(frozen=True)
class Choice:
    """Which rows a person wants to see: a page of each check, of all rows or of those that did not pass."""

    pages: Mapping[str, int] = field(default_factory=dict)
    only_bad: bool = False

    def link(self, check: str, page: int) -> str:
        """Return the address of another page of one check, the others as they are; none for page 0."""
        if not page:
            return ""
        show = {"show": "bad"} if self.only_bad else {}
        return f"?{urlencode({**show, **self.pages, check: page})}#{check}"


@dataclass(frozen=True)
class Part:
    """A run of a text; `is_other`: the text beside it has something else here."""

    text: str
    is_other: bool = False


@dataclass(frozen=True)
class RowDrawn:
    key: str
    subject: str
    mark: Mark
    expected: list[Part] = field(default_factory=list)
    found: list[Part] = field(default_factory=list)
    explanation: str = ""
    latency_ms: float | None = None
    node: str = ""


@dataclass(frozen=True)
class CheckDrawn:
    """One check with a page of its rows in fixed places. `counts`: passed, failed, unproven, all."""

    name: str
    word: Any
    mark: Mark
    counts: dict[str, int]
    rows: list[RowDrawn]
    of: int  # rows that the choice lets through, on all pages
    first: int  # place of its first shown row among them, from 1
    before: str  # addresses of the pages beside this one, empty at the ends
    after: str
    proof: str = ""  # where the lines lie that it was judged by

    @property
    def last(self) -> int:
        return self.first + len(self.rows) - 1


@dataclass(frozen=True)
class _Page:
    """One page of a check's wanted results. `places`: (place among all, subject)."""

    name: str
    subjects: list[str]
    of: int
    number: int
    count: int
    places: list[tuple[int, str]]


def checks_drawn(seen: GateSeen, choice: Choice) -> list[CheckDrawn]:
    """Return the checks of a run in the order in which they are named, with a row for each wanted result."""
    wanted = wanted_rows(seen.run)
    pages = [
        _page(seen, name, [s for check, s in wanted if check == name], choice)
        for name in seen.run.checks
    ]
    rows = gate_rows(
        seen.run, [(page.name, subject) for page in pages for _place, subject in page.places]
    )
    return [_check(seen, page, rows, choice) for page in pages]


def _page(seen: GateSeen, name: str, subjects: list[str], choice: Choice) -> _Page:
    places = [
        (place, subject)
        for place, subject in enumerate(subjects)
        if not choice.only_bad or seen.verdicts.get((name, subject)) in _WORST
    ]
    count = max(1, -(-len(places) // ROWS_SHOWN))
    number = min(max(1, choice.pages.get(name, 1)), count)
    shown = places[(number - 1) * ROWS_SHOWN : number * ROWS_SHOWN]
    return _Page(name, subjects, len(places), number, count, shown)


def _check(seen: GateSeen, page: _Page, rows: dict[Key, GateRow], choice: Choice) -> CheckDrawn:
    run, name = seen.run, page.name
    verdicts = [v for s in page.subjects if (v := seen.verdicts.get((name, s)))]
    return CheckDrawn(
        name=name,
        word=CHECK_WORDS[name],
        mark=_check_mark(run, verdicts, len(page.subjects)),
        counts={
            "passed": verdicts.count(rules.PASSED),
            "failed": verdicts.count(rules.FAILED),
            "unproven": verdicts.count(rules.INCONCLUSIVE),
            "all": len(page.subjects),
        },
        rows=[
            _row(run, name, place, subject, rows.get((name, subject)))
            for place, subject in page.places
        ],
        of=page.of,
        first=(page.number - 1) * ROWS_SHOWN + 1,
        before=choice.link(name, page.number - 1),
        after=choice.link(name, page.number + 1 if page.number < page.count else 0),
        proof=reverse("log", args=[run.launch.replica.name, run.launch.generation]) + "?q=NCCL"
        if name == rules.TRANSPORT
        else "",
    )


def _check_mark(run: GateRun, verdicts: list[str], wanted: int) -> Mark:
    """A check is as bad as its worst row, and passed only with all of its rows."""
    for verdict in _WORST:
        if verdict in verdicts:
            return mark_of("gate", verdict)
    if wanted and len(verdicts) == wanted:
        return mark_of("gate", rules.PASSED)
    return mark_of("gate", run.state) if run.state not in rules.ENDED else _no_result()


def _row(run: GateRun, check: str, number: int, subject: str, row: GateRow | None) -> RowDrawn:
    key, node = f"{check}-{number}", _node(run, check, subject)
    if row is None:
        is_open = run.state not in rules.ENDED
        return RowDrawn(key, subject, _waiting() if is_open else _no_result(), node=node)
    expected, found = row.expected, row.found
    if check == rules.TRANSPORT:
        expected = said(expected, _)
    is_other = row.verdict == rules.FAILED and check != rules.TRANSPORT
    left, right = texts_compared(expected, found) if is_other else (_one(expected), _one(found))
    return RowDrawn(
        key,
        subject,
        mark_of("gate", row.verdict),
        left,
        right,
        show_text(said(row.explanation, _)),
        row.latency_ms,
        node,
    )


def _node(run: GateRun, check: str, subject: str) -> str:
    if check != rules.TRANSPORT:
        return ""
    position = int(subject[1:]) // run.launch.plan["positions"][0]["layout"]["gpus_per_node"]
    return run.launch.plan["positions"][position]["node"]


def _waiting() -> Mark:
    return Mark(IDLE, "idle", _("Waiting"), "waiting")


def _no_result() -> Mark:
    return Mark(IDLE, "unk", _("No result"), "none")


def _one(text: str) -> list[Part]:
    return [Part(show_text(text))] if text else []


def texts_compared(expected: str, found: str) -> tuple[list[Part], list[Part]]:
    """Return both texts in parts, marked where they differ; blanks that differ are made visible."""
    left, right = _WORDS.findall(expected), _WORDS.findall(found)
    steps = SequenceMatcher(None, left, right, autojunk=False).get_opcodes()
    return (
        list(_parts(left, [(tag != "equal", a, b) for tag, a, b, _c, _d in steps])),
        list(_parts(right, [(tag != "equal", c, d) for tag, _a, _b, c, d in steps])),
    )


def _parts(words: list[str], steps: list[tuple[bool, int, int]]) -> Iterator[Part]:
    for is_other, start, end in steps:
        if start == end:
            continue
        text = "".join(words[start:end])
        if is_other:
            text = text.replace(" ", "␠").replace("\n", "⏎")
        yield Part(show_text(text), is_other)
