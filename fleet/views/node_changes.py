"""What changed on a node: facts that should not drift, and cards that came and went."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext as _

from fleet.models import Node
from fleet.selectors.history import node_history
from fleet.views.node_facts import FACT_WORDS, value_text


def node_changes(node: Node) -> dict[str, Any]:
    """Return the changed facts with both values, and the seats of the node's cards."""
    found = node_history(node)
    facts = [
        {
            "change": change,
            "word": FACT_WORDS.get(change.key, change.key),
            "before": _part_text(change.key, change.before, change.after),
            "after": _part_text(change.key, change.after, change.before),
        }
        for change in found.facts
    ]
    return {"facts": facts, "seats": found.seats}


def _part_text(key: str, value: Any, other: Any) -> str:
    """Say a value, of an object only the parts that are otherwise in the other one."""
    if not (isinstance(value, dict) and isinstance(other, dict)):
        return value_text(key, value)
    parts = [f"{name} {part}" for name, part in value.items() if other.get(name) != part]
    return value_text("", ", ".join(parts) or _("none"))
