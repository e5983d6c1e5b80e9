"""The node's own list of what it runs, read for the adoption scan."""

from __future__ import annotations

import json
from typing import Any

from fleet.execution.message import say
from fleet.execution.remote import Connection
from fleet.execution.remote_errors import ShimRefused

LIST_S = 30.0
_LINES_CAP = 10_000


def read_list(connection: Connection) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the answer of `list` and the objects after it: subjects, and {"container": ...}."""
    answer, body = connection.shim("list", "watch", 0, [], deadline=LIST_S)
    try:
        if answer["answer"] != "LIST":
            raise ShimRefused(
                say("expected LIST, found %(found)s", found=repr(answer["answer"])),
                node=connection.name,
            )
        lines: list[dict[str, Any]] = []
        while len(lines) < _LINES_CAP and (line := body.read_line()):
            lines.append(_parse(line, connection.name))
        return answer, lines
    finally:
        body.close()


def _parse(line: bytes, name: str) -> dict[str, Any]:
    try:
        found = json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ShimRefused(say("a line of its list is no object"), node=name)
    return found
