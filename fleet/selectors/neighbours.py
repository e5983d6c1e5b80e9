"""The rows before and after one, in the order in which they were made: what `[` and `]` lead to."""

from __future__ import annotations

from django.db.models import Model, Q, QuerySet


def beside(rows: QuerySet, pk: int) -> tuple[Model | None, Model | None]:
    """Return the row made before this one and the row made after it, None at the ends; one query."""
    before = rows.filter(pk__lt=pk).order_by("-pk")[:1]
    after = rows.filter(pk__gt=pk).order_by("pk")[:1]
    found = list(rows.filter(Q(pk__in=before.values("pk")) | Q(pk__in=after.values("pk"))))
    return (
        next((row for row in found if row.pk < pk), None),
        next((row for row in found if row.pk > pk), None),
    )
