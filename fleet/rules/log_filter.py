"""Which lines of a log a reader asked for: level, ranks, subsystems, text. It lives in the page's address.

A regular expression is only carried here; matching it needs a guard on time, which a pure rule has not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from fleet.rules.log_text import show_text

LEVELS: dict[str, frozenset[str]] = {
    "": frozenset("DIWE"),
    "warn": frozenset("WE"),
    "error": frozenset("E"),
}
NO_RANK = "-"
_LIST_CAP = 64
_TEXT_CAP = 200


@dataclass(frozen=True)
class LogFilter:
    """What to show. Empty parts let everything pass; `ranks` are global, None stands for "without rank"."""

    level: str = ""
    ranks: frozenset[int | None] = frozenset()
    subsystems: frozenset[str] = frozenset()
    text: str = ""

    @property
    def is_empty(self) -> bool:
        return self == LogFilter()

    @property
    def pattern(self) -> str:
        """Return the regular expression of `/.../`, or nothing when plain text is sought."""
        if len(self.text) > 2 and self.text.startswith("/") and self.text.endswith("/"):
            return self.text[1:-1]
        return ""

    @property
    def needle(self) -> str:
        """Return the plain text that is sought, in lower case."""
        return "" if self.pattern else self.text.lower()

    @property
    def rank_text(self) -> str:
        """Return the ranks as the address carries them."""
        return ",".join(_rank_words(self.ranks))

    def takes(self, rank: int | None, level: str, subsystem: str, text: str) -> bool:
        """Tell whether a line passes everything but a regular expression."""
        return (
            (not self.level or level in LEVELS[self.level])
            and (not self.ranks or rank in self.ranks)
            and (not self.subsystems or subsystem in self.subsystems)
            and (not self.needle or self.needle in show_text(text).lower())
        )

    def query(self) -> str:
        """Return the filter as a query string, the same one for the same filter."""
        words = {
            "level": self.level,
            "rank": self.rank_text,
            "sub": ",".join(sorted(self.subsystems)),
            "q": self.text,
        }
        return urlencode({name: value for name, value in words.items() if value})

    def without(self, part: str) -> LogFilter:
        """Return the filter with one part emptied: level, ranks, subsystems or text."""
        kept = {name: value for name, value in vars(self).items() if name != part}
        return LogFilter(**kept)


def parse_filter(query: Mapping[str, str]) -> LogFilter:
    """Read a filter from a query string; what cannot be read is left out."""
    level = query.get("level", "")
    return LogFilter(
        level=level if level in LEVELS else "",
        ranks=frozenset(_read_ranks(query.get("rank", ""))),
        subsystems=frozenset(_words(query.get("sub", ""))),
        text=query.get("q", "")[:_TEXT_CAP].replace("\0", ""),
    )


def _read_ranks(text: str) -> list[int | None]:
    ranks: list[int | None] = []
    for word in _words(text):
        if word == NO_RANK:
            ranks.append(None)
        elif word.isascii() and word.isdigit() and len(word) <= 5:
            ranks.append(int(word))
    return ranks


def _rank_words(ranks: frozenset[int | None]) -> list[str]:
    numbers = sorted(rank for rank in ranks if rank is not None)
    return [*map(str, numbers), *([NO_RANK] if None in ranks else [])]


def _words(text: str) -> list[str]:
    words = [word.strip() for word in text.split(",")]
    return [word[:16] for word in words if word][:_LIST_CAP]
