"""Filters of the fleet pages: gpu[001-004], gpu0*, rack:R07, state:ready, health:failed, words. Pure; it only narrows.

Blanks join parts that must all hold, commas outside brackets parts of which one is enough.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from fleet.rules.nodeset import parse_nodeset

LONGEST = 400
_FIELDS = frozenset({"leaf", "rack", "pool", "unit", "state", "reach", "class", "health", "hold"})


@dataclass(frozen=True)
class Named:
    """What a filter may ask about one node. Values are plain words."""

    name: str
    leaf: str = ""
    rack: str = ""
    pool: str = ""
    unit: str = ""
    state: str = ""
    reach: str = ""
    node_class: str = ""
    health: str = ""  # of its worst card
    hold: str = ""  # what holds it; empty, which `hold:?*` leaves out, when nothing does

    def words(self) -> str:
        return " ".join((self.name, self.rack, self.pool, self.unit, self.state)).lower()


Test = Callable[[Named], bool]


def parse_filter(text: str) -> Test:
    """Turn a filter into a test of one node; an empty one lets every node pass. Raises NodesetError."""
    tests = [_any_of(part) for part in _split(text[:LONGEST], " ") if part]
    return lambda node: all(test(node) for test in tests)


def _any_of(part: str) -> Test:
    tests = [_one(piece.strip()) for piece in _split(part, ",") if piece.strip()]
    return lambda node: any(test(node) for test in tests)


def _one(piece: str) -> Test:
    key, colon, value = piece.partition(":")
    if colon and key.lower() in _FIELDS:
        name = "node_class" if key.lower() == "class" else key.lower()
        wanted = value.lower()
        return lambda node: fnmatchcase(getattr(node, name).lower(), wanted)
    if "[" in piece or "]" in piece:
        taken, left = parse_nodeset(piece)
        names = frozenset(taken) - frozenset(left)
        return lambda node: node.name in names
    if "*" in piece or "?" in piece:
        return lambda node: fnmatchcase(node.name, piece)
    word = piece.lower()
    return lambda node: word in node.words()


def _split(text: str, mark: str) -> list[str]:
    """Split at a mark that does not stand inside brackets."""
    parts, depth, start = [], 0, 0
    for at, sign in enumerate(text):
        depth += (sign == "[") - (sign == "]")
        if sign == mark and depth <= 0:
            parts.append(text[start:at])
            start = at + 1
    return [*parts, text[start:]]
