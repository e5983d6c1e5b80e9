"""What changed from one version of a golden profile to another, key by key. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fleet.rules.golden import EQUAL, Found, Wanted, compare


@dataclass(frozen=True)
class KeyChange:
    """One key of two versions; `before` or `after` None when only one has it. `cells`: how many parts of its value
    differ.
    """

    key: str
    before: Wanted | None
    after: Wanted | None
    cells: int


def changes_between(before: Iterable[Wanted], after: Iterable[Wanted]) -> list[KeyChange]:
    """Return the keys that two versions do not say alike, in order."""
    old, new = {want.key: want for want in before}, {want.key: want for want in after}
    return [
        KeyChange(key, old.get(key), new.get(key), _cells(old.get(key), new.get(key)))
        for key in sorted({*old, *new})
        if old.get(key) != new.get(key)
    ]


def _cells(before: Wanted | None, after: Wanted | None) -> int:
    if before is None or after is None:
        return 0
    as_equal = Wanted(before.key, before.value, EQUAL)
    return len(compare([as_equal], {before.key: Found(after.value, False)}))
