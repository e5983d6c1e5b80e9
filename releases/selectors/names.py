"""Tells the fleet what launches are called: their pool for permissions and topics, their page for the jump field."""

from __future__ import annotations

import re

from django.urls import reverse

from fleet.selectors.jump import jump_add
from fleet.selectors.scope import scope_add
from releases.models import Launch

_ID = re.compile(r"LN-(\d{1,9})")


def launch_named(public_id: str) -> Launch | None:
    """Return the launch of this public id, or None."""
    found = _ID.fullmatch(public_id)
    rows = Launch.objects.select_related("replica__pool")
    return rows.filter(pk=int(found[1])).first() if found else None


def _page(found: re.Match[str]) -> str | None:
    row = Launch.objects.filter(pk=int(found[1])).values_list("replica__name", "generation").first()
    return reverse("launch", args=row) if row else None


scope_add("launch", launch_named, lambda launch: launch.replica.pool.slug)
jump_add(_ID.pattern, _page)
