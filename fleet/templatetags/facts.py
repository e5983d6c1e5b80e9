"""Facts of a node as pages say them: the name of a key, and a value with its unit."""

from typing import Any

from django import template

from fleet.views.node_facts import FACT_WORDS, value_text

register = template.Library()


@register.filter
def fact_word(key: str) -> str:
    """A key of a fact in the reader's language; one that has no word stays as it is."""
    return str(FACT_WORDS.get(key, key))


@register.filter
def fact_value(value: Any, unit: str = "") -> str:
    """A value of a fact, short; a dash for what is absent. A matrix is its size."""
    if value is None or value == "":
        return "–"
    rows = value.get("cells") or value.get("rows") if isinstance(value, dict) else None
    if isinstance(rows, list) and rows:
        first = rows[0].get("links") if isinstance(rows[0], dict) else rows[0]
        if isinstance(first, list):
            return f"{len(rows)} × {len(first)}"
    return value_text("", value, unit)
