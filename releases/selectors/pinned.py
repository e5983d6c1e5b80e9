"""Tells the page of images which releases pin which image."""

from __future__ import annotations

from fleet.selectors.images import Pinned, pinned_add
from releases.models import Release

_LIVE = (Release.State.SEALED, Release.State.REVIEWED, Release.State.IN_SERVICE)


def images_pinned() -> list[Pinned]:
    """Return the images of the releases that may be launched, with the pool of each; one query."""
    found: dict[str, Pinned] = {}
    rows = Release.objects.filter(state__in=_LIVE).select_related("pool")
    for row in rows.only("content", "pool__name").order_by("-pk"):
        image = row.content.get("image") or {}
        name, digest = str(image.get("name", "")), str(image.get("digest", ""))
        if not (name and digest):
            continue
        before = found[digest].used_by if digest in found else ()
        found[digest] = Pinned(name, digest, (*before, f"{row.public_id} {row.pool.name}"))
    return list(found.values())


pinned_add(images_pinned)
