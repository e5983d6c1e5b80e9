"""The links of a page to the object before it and the one after it, which the keys `[` and `]` follow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.db.models import QuerySet
from django.urls import reverse

from fleet.selectors.neighbours import beside

Links = Callable[[], list[dict[str, str]]]


def pager(rows: QuerySet, pk: int, address: str, *before: str, by: str = "public_id") -> Links:
    """Return what asks for the links once a template draws them: a part that is refetched has none.

    `by` is what a row has for the last argument of `address`, after `before`.
    """

    def links() -> list[dict[str, str]]:
        ends = zip(("prev", "next"), beside(rows, pk), strict=True)
        return [_link(rel, row) for rel, row in ends if row is not None]

    def _link(rel: str, row: Any) -> dict[str, str]:
        url = reverse(address, args=[*before, getattr(row, by)])
        return {"rel": rel, "name": str(getattr(row, "public_id", row)), "url": url}

    return links


def pager_by_name(name: str, find: Callable[[str], tuple[str, str]], address: str) -> Links:
    """Return the same for what is ordered by its name; `find` returns the names before and after it, or empty ones."""

    def links() -> list[dict[str, str]]:
        ends = zip(("prev", "next"), find(name), strict=True)
        return [
            {"rel": rel, "name": one, "url": reverse(address, args=[one])}
            for rel, one in ends
            if one
        ]

    return links
