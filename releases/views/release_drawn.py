"""Draws what a release pins: one table by piece, its difference to another release, and both plans line by line."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import groupby
from typing import Any

from django.utils.translation import gettext_lazy as _

from releases.models import Release
from releases.rules.content import content_problems
from releases.rules.content_diff import (
    GOLDEN,
    IMAGE,
    LAUNCH,
    MODEL,
    PLATFORM,
    PROTOCOL,
    Change,
    content_diff,
    content_fields,
)
from releases.selectors.release_page import unit_for_plan
from releases.services.launches import launch_preview
from releases.views.plan import argv_lines

PIECE_WORDS = {
    MODEL: _("Model and weights"),
    PROTOCOL: _("Tokenizer, template, parsers"),
    IMAGE: _("Image and engine"),
    PLATFORM: _("Driver and firmware"),
    LAUNCH: _("Launch parameters"),
    GOLDEN: _("Golden prompts"),
}
AROUND = 2  # equal lines shown beside a difference


@dataclass(frozen=True)
class Pin:
    """One pinned field; `change` is how it differs from the release beside it, if it does."""

    field: str
    value: str
    change: Change | None
    problem: str


@dataclass(frozen=True)
class Piece:
    word: Any
    pins: list[Pin]
    changed: int


def pieces_drawn(release: Release, against: Release | None, problems: list[Any]) -> list[Piece]:
    """Return every piece with its pins in order; a value that keeps the release from being sealed says why."""
    changes = content_diff(against.content, release.content) if against else []
    changed = {(change.piece, change.field): change for change in changes}
    blamed = {problem.where: problem.sentence for problem in problems}
    pins = [
        (
            piece,
            Pin(field, value, changed.get((piece, field)), blamed.get(_blame(field), "")),
        )
        for (piece, field), value in content_fields(release.content).items()
    ]
    drawn = []
    for piece in PIECE_WORDS:
        own = [pin for where, pin in pins if where == piece]
        count = sum(1 for change in changes if change.piece == piece)
        drawn.append(Piece(PIECE_WORDS[piece], own, count))
    return drawn


def _blame(field: str) -> str:
    """The place that a problem of this field names (rules/content.py)."""
    return f"args {field}" if field.startswith("--") else field


def changes_drawn(changes: list[Change]) -> list[tuple[Any, list[Change]]]:
    """Group changes by piece, in the order of the pieces."""
    return [(PIECE_WORDS[piece], list(rows)) for piece, rows in groupby(changes, lambda c: c.piece)]


@dataclass(frozen=True)
class DiffLine:
    """A line of two plans side by side: sign is + or - or nothing; a fold stands for equal lines."""

    text: str
    sign: str = ""
    folded: int = 0


@dataclass(frozen=True)
class PlanSide:
    """The first node's command of a unit under a release, and under the one that it is compared with."""

    unit: str
    node: str
    lines: list[DiffLine]
    is_compared: bool


def plan_side(release: Release, against: Release | None) -> PlanSide | None:
    """Render the plan of the pool's first unit; None without a unit of that shape, or while pins are missing."""
    unit = unit_for_plan(release)
    new = _lines(unit, release)
    if unit is None or new is None:
        return None
    old = _lines(unit, against) if against else None
    return PlanSide(
        unit=unit.name,
        node=new[0],
        lines=diff_lines(old[1], new[1]) if old else [DiffLine(text) for text in new[1]],
        is_compared=old is not None,
    )


def _lines(unit: Any, release: Release | None) -> tuple[str, list[str]] | None:
    if unit is None or release is None or content_problems(release.content):
        return None
    plan = launch_preview(replica=unit, release=release).plan
    if not plan:
        return None
    head = plan["positions"][0]
    # The plan's own token and hash differ between any two plans and say nothing about them.
    words = [word.replace(plan["token"], "…") for word in head["argv"]]
    return head["node"], argv_lines(words)


def diff_lines(old: list[str], new: list[str]) -> list[DiffLine]:
    """Return two lists of lines as one, with all but the nearest equal lines folded."""
    rows: list[DiffLine] = []
    for tag, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            rows += [DiffLine(text) for text in new[c:d]]
        else:
            rows += [DiffLine(text, "-") for text in old[a:b]]
            rows += [DiffLine(text, "+") for text in new[c:d]]
    return _folded(rows)


def _folded(rows: list[DiffLine]) -> list[DiffLine]:
    signed = [n for n, row in enumerate(rows) if row.sign]
    near = {n for at in signed for n in range(at - AROUND, at + AROUND + 1)}
    drawn: list[DiffLine] = []
    for is_near, run in groupby(enumerate(rows), lambda pair: pair[0] in near):
        lines = [row for _n, row in run]
        drawn += lines if is_near or len(lines) == 1 else [DiffLine("", folded=len(lines))]
    return drawn
