"""Names of nodes as people write and read them: `h100-[001-008,012],g01`, `all`, `!h100-003` to leave one out.

Ranges keep their leading zeros. Nothing here knows which nodes exist.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from fleet.execution.message import SentenceError
from fleet.rules.message import say

ALL = "all"
NAMES_MAX = 4096
TEXT_MAX = 4000
_WORD = re.compile(r"[^\s,\[\]]*(?:\[[^\[\]]*\][^\s,\[\]]*)*")
_LONGEST_NAME = 63
_NAME = re.compile(rf"[a-z0-9](?:[a-z0-9.-]{{0,{_LONGEST_NAME - 1}}})", re.ASCII)
_BRACKET = re.compile(r"\[([^\[\]]*)\]")
_PART = re.compile(r"(\d{1,6})(?:-(\d{1,6}))?", re.ASCII)
_NUMBERED = re.compile(r"(.*?)(\d{1,6})", re.ASCII)


class NodesetError(SentenceError, ValueError):
    """A selection that cannot be read; a stored sentence says which word and what was expected."""


def parse_nodeset(text: str) -> tuple[list[str], list[str]]:
    """Return the names that a selection takes and those it leaves out; `all` stays the word ALL.

    Raises NodesetError.
    """
    if len(text) > TEXT_MAX:
        raise NodesetError(
            say(
                "expected at most %(most)s characters, found %(found)s",
                most=TEXT_MAX,
                found=len(text),
            )
        )
    taken: dict[str, None] = {}
    left: dict[str, None] = {}
    count = 0
    for word in _words(text):
        into = left if word.startswith("!") else taken
        for name in _expand(word.removeprefix("!")):
            into[name] = None
            count += 1  # a name that comes twice too: `[1,1][1,1]...` is few names in endless time
            if count > NAMES_MAX:
                raise NodesetError(
                    say("expected at most %(most)s names; select fewer", most=NAMES_MAX)
                )
    if not taken:
        raise NodesetError(
            say("expected node names, ranges like h100-[001-008], or all; found nothing")
        )
    return list(taken), list(left)


def fold_nodeset(names: Iterable[str]) -> str:
    """Return names in the shortest form: neighbours with the same stem become a range."""
    groups: dict[tuple[str, int], list[int]] = {}
    plain: list[str] = []
    for name in sorted(set(names)):
        found = _NUMBERED.fullmatch(name)
        if found is None:
            plain.append(name)
        else:
            groups.setdefault((found[1], len(found[2])), []).append(int(found[2]))
    folded = [_fold(stem, width, numbers) for (stem, width), numbers in groups.items()]
    return ",".join(sorted(folded) + plain)


def _words(text: str) -> Iterator[str]:
    at, text = 0, text.strip()
    while at < len(text):
        found = _WORD.match(text, at)
        word = found[0] if found else ""
        if not word:
            if text[at] not in ", \t\r\n":
                raise NodesetError(
                    say(
                        "expected names, ranges or all; found %(found)s",
                        found=repr(text[at : at + 20]),
                    )
                )
            at += 1
            continue
        if word.count("[") > _LONGEST_NAME:
            raise _no_name(word)
        yield word
        at += len(word)


def _expand(word: str) -> Iterator[str]:
    bracket = _BRACKET.search(word)
    if bracket is None:
        if not _NAME.fullmatch(word):
            raise _no_name(word)
        yield word
        return
    head, tail = word[: bracket.start()], word[bracket.end() :]
    for number in _numbers(bracket[1], word):
        yield from _expand(f"{head}{number}{tail}")


def _no_name(word: str) -> NodesetError:
    return NodesetError(say("expected a node name, found %(found)s", found=repr(word[:40])))


def _numbers(text: str, word: str) -> Iterator[str]:
    for part in text.split(","):
        found = _PART.fullmatch(part.strip())
        if found is None:
            raise NodesetError(
                say(
                    "expected numbers or a range in %(word)s, found %(found)s",
                    word=repr(word[:40]),
                    found=repr(part[:20]),
                )
            )
        first, last, width = int(found[1]), int(found[2] or found[1]), len(found[1])
        if last < first or last - first >= NAMES_MAX:
            raise NodesetError(
                say(
                    "expected a rising range in %(word)s, found %(found)s",
                    word=repr(word[:40]),
                    found=repr(part[:20]),
                )
            )
        for number in range(first, last + 1):
            yield f"{number:0{width}d}"


def _fold(stem: str, width: int, numbers: list[int]) -> str:
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    if len(numbers) == 1:
        return f"{stem}{numbers[0]:0{width}d}"
    parts = [
        f"{first:0{width}d}" if first == last else f"{first:0{width}d}-{last:0{width}d}"
        for first, last in runs
    ]
    return f"{stem}[{','.join(parts)}]"
