"""One fact over many nodes, folded: which nodes agree and which differ. Pure.

Only values that were read and have not run out are compared; all others are unknown and agree with nobody.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fleet.rules.nodeset import fold_nodeset


@dataclass(frozen=True)
class Told:
    """A fact of one node; `value` None when it could not be read, with the `problem`; `at` None when never asked."""

    node: str
    value: Any = None
    unit: str = ""
    problem: str = ""
    at: datetime | None = None
    is_expired: bool = False
    source: int | None = None  # the command that told it
    section: str = ""


@dataclass(frozen=True)
class Fold:
    """Nodes that say the same. `rows` are in the order of their names; `names` is their set."""

    rows: tuple[Told, ...]
    is_known: bool

    @property
    def names(self) -> str:
        return fold_nodeset(row.node for row in self.rows)

    @property
    def value(self) -> Any:
        return self.rows[0].value

    @property
    def oldest_at(self) -> datetime | None:
        """When the oldest of them was read; None when one never was."""
        times = [row.at for row in self.rows]
        return None if None in times else min(time for time in times if time is not None)

    @property
    def newest_at(self) -> datetime | None:
        return max((row.at for row in self.rows if row.at is not None), default=None)


def fold_facts(rows: Iterable[Told]) -> list[Fold]:
    """Group nodes by their value, the most first; what is unknown comes last, by why."""
    known: dict[str, list[Told]] = {}
    unknown: dict[str, list[Told]] = {}
    for row in sorted(rows, key=lambda row: row.node):
        if row.value is None:
            unknown.setdefault(row.problem, []).append(row)
        elif row.is_expired:
            unknown.setdefault("expired", []).append(row)
        else:
            known.setdefault(json.dumps(row.value, sort_keys=True), []).append(row)
    return _by_size(known.values(), True) + _by_size(unknown.values(), False)


def majority(folds: Sequence[Fold]) -> Fold | None:
    """Return the value that most nodes agree on; None when no two agree, or two values have as many."""
    known = [fold for fold in folds if fold.is_known]
    if not known or (len(known[0].rows) == 1 and len(known) > 1):
        return None
    if len(known) > 1 and len(known[1].rows) == len(known[0].rows):
        return None
    return known[0]


def _by_size(groups: Iterable[list[Told]], is_known: bool) -> list[Fold]:
    folds = [Fold(tuple(rows), is_known) for rows in groups]
    return sorted(folds, key=lambda fold: (-len(fold.rows), fold.rows[0].node))
