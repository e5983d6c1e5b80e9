"""The rows before and after one, in the order in which they were made: what `[` and `]` lead to."""

from __future__ import annotations

from django.db.models import Model, QuerySet


def beside(rows: QuerySet, pk: int) -> tuple[Model | None, Model | None]:
    """Return the row made before this one and the row made after it, None at the ends; two queries."""
    before = rows.filter(pk__lt=pk).order_by("-pk").first()
    return before, rows.filter(pk__gt=pk).order_by("pk").first()
