"""Makes a node's words fit for the database: no NUL, no half characters, no bottomless nesting."""

from __future__ import annotations

import math
from typing import Any

_DEPTH = 8
_MARK = "\N{REPLACEMENT CHARACTER}"


def storable_text(text: str, cap: int | None = None) -> str:
    """Return text that Postgres stores, at most `cap` characters of it."""
    clean = text.replace("\x00", _MARK).encode("utf-8", "replace").decode()
    return clean if cap is None else clean[:cap]


def storable_json(value: Any, depth: int = _DEPTH) -> Any:
    """Return a JSON value that Postgres stores; what is nested deeper than eight levels is left out."""
    if isinstance(value, str):
        return storable_text(value)
    if isinstance(value, dict):
        items = value.items() if depth else ()
        return {storable_text(str(key)): storable_json(item, depth - 1) for key, item in items}
    if isinstance(value, list):
        return [storable_json(item, depth - 1) for item in value] if depth else []
    if isinstance(value, float) and not math.isfinite(value):
        return None  # JSON of the database has no NaN
    return value
