"""Finds the visible text of a template that no translation tag wraps."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser

from django.template.base import Lexer, TokenType

# Names, units and keys that are the same in every language.
SAME = frozenset(
    [
        "Flotilla",
        "UTC",
        "UUID",
        "SM",
        "MHz",
        "W",
        "NUMA",
        "CPU",
        "HBM",
        "GPU",
        "EN",
        "p50",
        "p90",
        "SHA",
        "Ctrl",
        "Enter",
        "Esc",
        "http",
        "Xid",
        "MTU",
        "MB",
        "Gb",
        "zh",
        "Hans",
    ]
)
_VISIBLE_ATTRIBUTES = frozenset({"title", "aria-label", "placeholder", "alt"})
_SILENT = frozenset({"script", "kbd", "pre", "code", "style", "symbol"})
_WORD = re.compile(r"[A-Za-z]{2,}")
_CJK = re.compile(r"[\u4e00-\u9fff]")


def unwrapped(source: str) -> list[str]:
    """Return the words that stand in the template as they are."""
    finder = _Finder()
    finder.feed("".join(_without_tags(source)))
    finder.close()
    return finder.found


def _without_tags(source: str) -> Iterator[str]:
    """Yield what is left of the template without its tags, variables and wrapped blocks."""
    is_wrapped = False
    for token in Lexer(source).tokenize():
        if token.token_type == TokenType.BLOCK:
            word = token.contents.split()[0]
            is_wrapped = word == "blocktranslate" or (is_wrapped and word != "endblocktranslate")
        yield token.contents if token.token_type == TokenType.TEXT and not is_wrapped else " "


class _Finder(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._open: list[tuple[str, bool]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in {"input", "meta", "link", "br", "use", "path", "circle", "rect"}:
            self._open.append((tag, tag in _SILENT or ("lang" in dict(attrs) and tag != "html")))
        for name, value in attrs:
            if name in _VISIBLE_ATTRIBUTES:
                self._note(value or "")

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop()[0] != tag:
            pass

    def handle_data(self, text: str) -> None:
        if not any(is_silent for _tag, is_silent in self._open):
            self._note(text)

    def _note(self, text: str) -> None:
        self.found += [word for word in _WORD.findall(text) if word not in SAME]
        self.found += _CJK.findall(text)
