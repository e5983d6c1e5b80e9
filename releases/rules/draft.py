"""The form of a draft: what of a content a person edits, as plain text fields, and back. Pure.

Arguments are one flag a line, the environment one NAME=value a line, golden prompts are JSON. Whether a value may
be sealed is rules/content.py's: a draft keeps what was typed.
"""

import copy
import json
import math
import re
from collections.abc import Mapping
from typing import Any

from fleet.rules.message import say
from releases.rules.content import PINS, SIZES

PIN_FIELDS = tuple(where for where, _pattern, _expected in PINS)
SIZE_FIELDS = tuple(f"shape.{name}" for name in SIZES)
FIELDS = (
    *PIN_FIELDS,
    "launcher",
    *SIZE_FIELDS,
    "shape.ep",
    "shape.gpus",
    "args",
    "env",
    "golden",
)
LINE_MAX = 2000
_DEPTH_MAX = 12  # a list of prompts, of messages, of their parts, and a tool's schema
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


class BadField(ValueError):
    """A field that cannot be read; `sentence` names it, what was expected and what was found."""

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence)
        self.sentence = sentence


def draft_fields(content: dict[str, Any]) -> dict[str, str]:
    """Return the editable fields of a content as text."""
    shape = content.get("shape") or {}
    fields = {
        where: str(_piece(content, where).get(_leaf(where)) or "")
        for where in (*PIN_FIELDS, *SIZE_FIELDS)
    }
    fields["launcher"] = str(content.get("launcher") or "")
    fields["shape.ep"] = "yes" if shape.get("ep") else "no"
    fields["shape.gpus"] = ",".join(map(str, shape.get("gpus") or []))
    fields["args"] = "\n".join(
        flag if value is None else f"{flag} {value}" for flag, value in content.get("args", [])
    )
    fields["env"] = "\n".join(f"{name}={value}" for name, value in content.get("env", {}).items())
    fields["golden"] = json.dumps(content.get("golden", []), ensure_ascii=False, indent=1)
    return fields


def draft_content(fields: Mapping[str, str], base: dict[str, Any]) -> dict[str, Any]:
    """Return `base` with what the fields say; a field that is not posted stays as it is. Raises BadField."""
    content = copy.deepcopy(base)
    for where in PIN_FIELDS:
        if where in fields:
            content.setdefault(where.partition(".")[0], {})[_leaf(where)] = fields[where].strip()
    content["launcher"] = fields.get("launcher", str(content.get("launcher") or "")).strip()
    _shape_into(content.setdefault("shape", {}), fields)
    if "args" in fields:
        content["args"] = [_flag(line) for line in _lines(fields["args"])]
    if "env" in fields:
        content["env"] = dict(_variable(line) for line in _lines(fields["env"]))
    if "golden" in fields:
        content["golden"] = _golden(fields["golden"])
    return content


def blank_content(nodes: int, gpus_per_node: int) -> dict[str, Any]:
    """Return a content that pins nothing yet, with the size of its pool's unit: a pool's first draft."""
    sizes = {"nodes": nodes, "tp": gpus_per_node, "pp": nodes, "dp": 1}
    return {
        "model": {},
        "image": {},
        "platform": {},
        "tokenizer": {},
        "launcher": "docker_mp",
        "shape": {**sizes, "ep": False, "gpus_per_node": gpus_per_node},
        "args": [],
        "env": {},
        "golden": [],
    }


def _shape_into(shape: dict[str, Any], fields: Mapping[str, str]) -> None:
    for where in SIZE_FIELDS:
        if where in fields:
            shape[_leaf(where)] = _number(fields[where].strip())
    if "shape.ep" in fields:
        shape["ep"] = fields["shape.ep"] == "yes"
    if "shape.gpus" in fields:
        cards = [_number(word.strip()) for word in fields["shape.gpus"].split(",") if word.strip()]
        shape.pop("gpus", None)
        if cards:
            shape["gpus"] = cards


def _number(word: str) -> int | str:
    """A whole number as one; anything else stays what it is, for the seal to name."""
    return int(word) if word.isascii() and word.isdigit() and len(word) <= 4 else word[:20]


def _lines(text: str) -> list[str]:
    return [line.strip()[:LINE_MAX] for line in text.splitlines() if line.strip()]


def _flag(line: str) -> list[str | None]:
    flag, _, value = line.partition(" ")
    if not flag.startswith("--"):
        raise BadField(
            say(
                "Arguments: expected one flag a line, such as --max-model-len 131072, found %(line)s.",
                line=line[:80],
            )
        )
    return [flag, value.strip() or None]


def _variable(line: str) -> tuple[str, str]:
    name, sign, value = line.partition("=")
    if not sign:
        raise BadField(
            say("Environment: expected NAME=value on a line, found %(line)s.", line=line[:80])
        )
    return name.strip(), value.strip()


def _golden(text: str) -> list[dict[str, Any]]:
    try:
        rows = json.loads(text or "[]")
    except (ValueError, RecursionError) as error:
        raise BadField(
            say("Golden prompts: expected JSON, found %(why)s.", why=str(error))
        ) from None
    if not isinstance(rows, list) or not all(_is_prompt(row) for row in rows):
        raise BadField(
            say("Golden prompts: expected a list of prompts with id, messages and expect.")
        )
    if not _is_storable(rows, _DEPTH_MAX):
        raise BadField(
            say(
                "Golden prompts: expected at most %(depth)s levels, whole characters without NUL, and finite numbers.",
                depth=_DEPTH_MAX,
            )
        )
    return rows


def _is_storable(value: Any, depth: int) -> bool:
    """JSON as the database keeps it: an escape may hide a NUL or half a character, and NaN is no JSON."""
    if isinstance(value, str):
        return _UNSTORABLE.search(value) is None
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, dict | list):
        parts = [*value, *value.values()] if isinstance(value, dict) else value
        return depth > 0 and all(_is_storable(part, depth - 1) for part in parts)
    return True


def _is_prompt(row: Any) -> bool:
    return (
        isinstance(row, dict)
        and isinstance(row.get("id"), str)
        and isinstance(row.get("expect"), str)
        and isinstance(row.get("messages"), list)
        and all(isinstance(message, dict) for message in row["messages"])
    )


def _piece(content: dict[str, Any], where: str) -> dict[str, Any]:
    return content.get(where.partition(".")[0]) or {}


def _leaf(where: str) -> str:
    return where.partition(".")[2]
