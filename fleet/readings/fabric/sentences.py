"""Sentences that the NIC and disk tools print in place of an answer, or behind one that broke off."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from fleet.readings.text import Line

_TOOLS = "ibstat|ibstatus|ibdev2netdev|show_gids|ip|lsblk|df"
_MISSING = re.compile(
    rf"(?:^|[\s/:])(?:{_TOOLS}): (?:command not found|not found|No such file)|"
    rf"[Cc]ommand '?(?:{_TOOLS})'? not found"
)
_FAILED = re.compile(
    r"^ibpanic: |^Fatal error: |^(?:ibstat|ibstatus|lsblk|df): \S|^Error: argument |^Cannot open netlink|"
    r'^Device "[^"]{1,64}" does not exist|^Object "[^"]{1,64}" is unknown'
)
_DEAD_MOUNT = re.compile(r"^df: .*: (?:Transport endpoint is not|Stale|Input/output error)")


@dataclass(frozen=True)
class ToolSentence:
    """One sentence: the tool is not installed, it broke off, or a mount does not answer."""

    kind: Literal["tool_missing", "tool_failed", "dead_mount"]
    text: str
    line: int


def read_tool_sentence(line: Line) -> ToolSentence | None:
    """Return what a line says when it is such a sentence, else None."""
    text = line.text[:400].strip()
    if _MISSING.search(text):
        return ToolSentence("tool_missing", text, line.number)
    if _DEAD_MOUNT.match(text):
        return ToolSentence("dead_mount", text, line.number)
    return ToolSentence("tool_failed", text, line.number) if _FAILED.match(text) else None


def read_tool_sentences(lines: Iterable[Line]) -> Iterator[ToolSentence]:
    """Yield all sentences of a capture in their order."""
    for line in lines:
        if sentence := read_tool_sentence(line):
            yield sentence
