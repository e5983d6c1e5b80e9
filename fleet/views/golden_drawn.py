"""Turns profiles and drift into finished rows: marks, words, folded nodes. No queries here and none in templates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import reduce
from itertools import groupby
from typing import Any

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from fleet.marks import CRIT, IDLE, OK, WARN, Mark
from fleet.models import Fact, GoldenKey, GoldenProfile, Node
from fleet.rules.golden import EQUAL, FAIL, IGNORE, RANGE, RATIO, UNKNOWN, Difference, Wanted
from fleet.rules.golden_changes import KeyChange
from fleet.rules.golden_folds import Drifted, group_of, is_grave, place_words
from fleet.rules.nodeset import fold_nodeset
from fleet.selectors.golden_page import FleetDrift, SourceOf

PLACES_SHOWN = 3
UNREAD_SHOWN = 3
MATRIX_NODES = 96  # more columns than that are no picture; the folded list says it all
AGREES = Mark(OK, "ok", gettext_lazy("Equal"), "equal")
GRAVE = Mark(CRIT, "crit", gettext_lazy("Other cards, paths or ports"), "grave")
DIFFERS = Mark(WARN, "warn", gettext_lazy("Other software, host or rate"), "differs")
NO_READING = Mark(IDLE, "unk", gettext_lazy("No reading"), "unknown")
GROUP_WORDS = {
    "cards": gettext_lazy("GPUs and firmware"),
    "errors": gettext_lazy("ECC and rows"),
    "paths": gettext_lazy("NVLink, PCIe, NUMA"),
    "network": gettext_lazy("NIC state and rate"),
    "software": gettext_lazy("Driver and software"),
    "host": gettext_lazy("Memory, shm, disk"),
    "clock": gettext_lazy("Clock"),
    "measured": gettext_lazy("Measured rates"),
    "other": gettext_lazy("Other"),
}


@dataclass(frozen=True)
class KeyDrift:
    """The differences of one key on one or many nodes: the first places of it, and how many more."""

    key: str
    mark: Mark
    tolerance: str
    unit: str
    places: list[tuple[str, Difference]]
    more: int
    fact: Fact | None
    node: str


@dataclass(frozen=True)
class DriftRow:
    """Nodes that differ alike."""

    mark: Mark
    names: str
    count: int
    first: str
    keys: list[KeyDrift]
    unread: list[str]  # keys without any reading, when there are too many to stand one by one
    unread_at: datetime | None = (
        None  # when the last of them was read, of readings that have expired
    )


@dataclass(frozen=True)
class DriftDrawn:
    """The drift of a class: how many agree, and the rows of those that do not."""

    total: int = 0
    agree: int = 0
    agree_names: str = ""
    differ: int = 0
    unknown: int = 0
    rows: list[DriftRow] = field(default_factory=list)


def drift_drawn(seen: FleetDrift, profile: GoldenProfile) -> DriftDrawn:
    """Draw the drift against a profile whose keys are at hand; rows worst first."""
    golden = {key.key: key for key in profile.keys.all()}
    folded = seen.rows
    agreeing = [name for row in folded if not row.differences for name in row.nodes]
    unknown = sum(len(row.nodes) for row in folded if row.verdict == UNKNOWN)
    return DriftDrawn(
        total=len(seen.nodes),
        agree=len(agreeing),
        agree_names=fold_nodeset(agreeing),
        differ=len(seen.nodes) - len(agreeing) - unknown,
        unknown=unknown,
        rows=[_row(row, golden, seen.sources) for row in folded if row.differences],
    )


def node_card(
    node: Node, profile: GoldenProfile, differences: Sequence[Difference], facts: Iterable[Fact]
) -> dict[str, Any]:
    """Draw how one node differs: differing keys first with both values, those that agree to be folded."""
    keys = list(profile.keys.all())
    golden = {key.key: key for key in keys}
    by_key = {fact.key: fact for fact in facts}
    sources = {(node.name, key): fact for key, fact in by_key.items()}
    off = {difference.key for difference in differences}
    unread = {diff.key for diff in differences if diff.verdict == UNKNOWN and not diff.path}
    if len(unread) <= UNREAD_SHOWN:
        unread = set()
    judged = [key for key in keys if key.tolerance != IGNORE]
    return {
        "profile": profile,
        "keys": _keys(
            node.name, [diff for diff in differences if diff.key not in unread], golden, sources
        ),
        "unread": sorted(unread),
        "unread_mark": NO_READING,
        "equal": [
            (key, by_key.get(key.key), bar_words(key.wanted()))
            for key in judged
            if key.key not in off
        ],
        "judged": len(judged),
        "off": len({diff.key for diff in differences if diff.verdict != UNKNOWN}),
        "unknown": len(off - {diff.key for diff in differences if diff.verdict != UNKNOWN}),
        "agrees": AGREES,
    }


def mark_of_differences(differences: Iterable[Difference]) -> Mark:
    """Return the mark of the worst of some differences; the one for equal without any."""
    found = list(differences)
    if any(map(is_grave, found)):
        return GRAVE
    if any(difference.verdict == FAIL for difference in found):
        return DIFFERS
    return NO_READING if found else AGREES


def _row(row: Drifted, golden: Mapping[str, GoldenKey], sources: SourceOf) -> DriftRow:
    # the oldest reading of those that differ alike is the one to doubt first
    first = min(row.nodes, key=lambda name: _oldest(row, name, sources))
    unread = [diff.key for diff in row.differences if diff.verdict == UNKNOWN and not diff.path]
    if len(unread) <= UNREAD_SHOWN:
        unread = []
    facts = [sources.get((first, key)) for key in unread]
    shown = [diff for diff in row.differences if diff.path or diff.key not in unread]
    return DriftRow(
        mark=mark_of_differences(row.differences),
        names=fold_nodeset(row.nodes),
        count=len(row.nodes),
        first=first,
        keys=_keys(first, shown, golden, sources),
        unread=unread,
        unread_at=max((fact.observed_at for fact in facts if fact), default=None),
    )


def _oldest(row: Drifted, name: str, sources: SourceOf) -> float:
    facts = [sources.get((name, difference.key)) for difference in row.differences]
    return min((fact.observed_at.timestamp() for fact in facts if fact), default=0.0)


def _keys(
    node: str,
    differences: Iterable[Difference],
    golden: Mapping[str, GoldenKey],
    sources: SourceOf,
) -> list[KeyDrift]:
    drawn = []
    for key, some in groupby(differences, key=lambda difference: difference.key):
        found = list(some)
        fact = sources.get((node, key))
        places = [
            (place_words(golden[key].value, difference.path), difference)
            for difference in found[:PLACES_SHOWN]
        ]
        drawn.append(
            KeyDrift(
                key=key,
                mark=mark_of_differences(found),
                tolerance=found[0].tolerance,
                unit=golden[key].unit,
                places=places,
                more=len(found) - len(places),
                fact=fact,
                node=node,
            )
        )
    return sorted(drawn, key=lambda row: (GRAVE, DIFFERS, NO_READING).index(row.mark))


def bar_words(want: Wanted) -> str:
    """Say how a key is compared."""
    if want.tolerance == EQUAL:
        return _("equal")
    if want.tolerance == IGNORE:
        return _("ignored")
    if want.tolerance == RATIO:
        return _("at least %(ratio)s of it") % {"ratio": f"{want.ratio:g}"}
    if want.tolerance == RANGE and want.low is None:
        return _("up to %(high)s") % {"high": f"{want.high:g}"}
    if want.high is None:
        return _("at least %(low)s") % {"low": f"{want.low:g}"}
    return _("%(low)s to %(high)s") % {"low": f"{want.low:g}", "high": f"{want.high:g}"}


@dataclass(frozen=True)
class KeyRow:
    """A key of a profile as its page shows it."""

    key: GoldenKey
    bar: str
    group: str


def key_rows(keys: Iterable[GoldenKey]) -> list[KeyRow]:
    """Return the keys by group of checks, ignored ones last."""
    order = list(GROUP_WORDS)
    rows = [KeyRow(key, bar_words(key.wanted()), group_of(key.key)) for key in keys]
    return sorted(
        rows, key=lambda row: (row.key.tolerance == IGNORE, order.index(row.group), row.key.key)
    )


def change_rows(changes: Iterable[KeyChange], units: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the changed keys of two versions, each side's value and bar; None where a side lacks the key."""
    return [
        {
            "key": change.key,
            "unit": units.get(change.key, ""),
            "sides": [
                (want.value, bar_words(want)) if want else None
                for want in (change.before, change.after)
            ],
            "cells": change.cells,
        }
        for change in changes
    ]


def matrix_drawn(seen: FleetDrift, keys: Iterable[GoldenKey]) -> dict[str, Any] | None:
    """Draw check groups over nodes in leaf blocks; None when there is nothing to draw or far too much."""
    if not 0 < len(seen.nodes) <= MATRIX_NODES:
        return None
    groups = {group_of(key.key) for key in keys if key.tolerance != IGNORE}
    leaves = [
        (leaf, list(nodes))
        for leaf, nodes in groupby(seen.nodes, key=lambda node: node.rack.leaf.number)
    ]
    rows = [
        {
            "word": str(word),
            "blocks": [
                [_cell(node, group, word, seen.by_name[node.name]) for node in nodes]
                for _leaf, nodes in leaves
            ],
        }
        for group, word in GROUP_WORDS.items()
        if group in groups
    ]
    heads = [
        {"title": _("Leaf %(number)s") % {"number": leaf}, "nodes": nodes, "first": nodes[0].name}
        for leaf, nodes in leaves
    ]
    return {"heads": heads, "rows": rows}


def _cell(
    node: Node, group: str, word: object, differences: Iterable[Difference]
) -> dict[str, Any]:
    found = [difference for difference in differences if group_of(difference.key) == group]
    mark = mark_of_differences(found)
    return {
        "mark": mark,
        "is_equal": mark is AGREES,
        "url": f"{reverse('node', args=[node.name])}#gold",
        "title": f"{node.name} · {word} · {mark.word}",
    }


def drift_words(drawn: DriftDrawn) -> str:
    """Say in one line how many nodes agree, differ and are unknown."""
    parts = [
        ngettext("%(n)d of %(all)d node equal", "%(n)d of %(all)d nodes equal", drawn.total)
        % {"n": drawn.agree, "all": drawn.total}
    ]
    if drawn.differ:
        parts.append(ngettext("%(n)d differs", "%(n)d differ", drawn.differ) % {"n": drawn.differ})
    if drawn.unknown:
        parts.append(_("%(n)d without a reading") % {"n": drawn.unknown})
    return reduce(
        lambda first, rest: _("%(first)s, %(rest)s") % {"first": first, "rest": rest}, parts
    )
