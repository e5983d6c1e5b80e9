"""The same message from several ranks becomes one line that names the others.

Lines come merged in time. An error never folds into anything but the same error: the level is a part of
what must be equal. Source: UI.md section 5.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

WITHIN_MS = 5000


class Foldable(Protocol):
    """What a line must say to be folded."""

    @property
    def at_ms(self) -> int: ...
    @property
    def rank(self) -> int | None: ...
    @property
    def level(self) -> str: ...
    @property
    def text(self) -> str: ...


L = TypeVar("L", bound=Foldable)


@dataclass
class Row(Generic[L]):
    """A line that is shown, and the lines of other ranks that say the same soon after."""

    line: L
    folded: list[L] = field(default_factory=list)

    @property
    def ranks(self) -> list[int]:
        """Return the ranks of the folded lines in order."""
        return sorted(line.rank for line in self.folded if line.rank is not None)

    @property
    def within_s(self) -> int:
        """Return the span of the folded lines in whole seconds, at least 1."""
        return max(1, -((self.line.at_ms - self.folded[-1].at_ms) // 1000)) if self.folded else 0


def fold_lines(lines: Iterable[L], signature: Callable[[str, str], str]) -> list[Row[L]]:
    """Fold lines in the order of time. `signature(text, level)` is equal for equal messages."""
    rows: list[Row[L]] = []
    heads: dict[str, Row[L]] = {}
    for line in lines:
        if line.rank is None:
            rows.append(Row(line))
            continue
        key = f"{line.level}|{signature(line.text, line.level)}"
        head = heads.get(key)
        if head is not None and _joins(head, line):
            head.folded.append(line)
            continue
        heads[key] = Row(line)
        rows.append(heads[key])
    return rows


def _joins(head: Row[L], line: L) -> bool:
    if line.at_ms - head.line.at_ms > WITHIN_MS or line.rank == head.line.rank:
        return False
    return all(line.rank != one.rank for one in head.folded)
