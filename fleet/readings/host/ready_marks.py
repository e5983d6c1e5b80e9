"""Reads the `.ready` marks of models: which directories of weights were verified on this host."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from fleet.readings.text import number_lines

_READY = re.compile(r"(/.{1,400}/\.ready):(.*)")


@dataclass(frozen=True)
class ReadyMark:
    """A `.ready` file: the directory of a model whose files were verified, and its manifest's hash."""

    directory: str
    manifest_sha256: str
    files: int
    size_bytes: int


def parse_ready_marks(text: str) -> tuple[ReadyMark, ...] | None:
    """Read `grep -rH --include=.ready "" ROOT`; None when a mark is not the JSON object it should be."""
    bodies: dict[str, str] = {}
    for line in number_lines(text):
        found = _READY.fullmatch(line.text)
        if found is None:
            return None
        bodies[found[1]] = bodies.get(found[1], "") + found[2] + "\n"
    marks = [_mark(path.removesuffix("/.ready"), body) for path, body in sorted(bodies.items())]
    return None if None in marks else tuple(mark for mark in marks if mark)


def _mark(directory: str, body: str) -> ReadyMark | None:
    try:
        row: Any = json.loads(body)
        return ReadyMark(
            directory, str(row["manifest_sha256"])[:64], int(row["files"]), int(row["bytes"])
        )
    except (ValueError, TypeError, KeyError, OverflowError):
        return None
