"""What the pages and guards read of container images: where each is verified, and which releases pin it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from django.urls import reverse

from fleet.models import Image, ImageHolding, Node
from fleet.selectors.jump import jump_add

IMAGES_SHOWN = 100


@dataclass(frozen=True)
class Pinned:
    """An image that a release pins: `used_by` are the words for the releases, the newest first."""

    name: str
    digest: str
    used_by: tuple[str, ...]


@dataclass(frozen=True)
class ImageSeen:
    """An image that releases pin or that was asked for (then `image` is its row), and how many nodes are where."""

    name: str
    digest: str
    used_by: tuple[str, ...] = ()
    image: Image | None = None
    counts: Counter[str] = field(default_factory=Counter)


Find = Callable[[], Sequence[Pinned]]
_PINNED: list[Find] = []


def pinned_add(find: Find) -> None:
    """Register who tells which images releases pin: an upper app, which this one may not import."""
    _PINNED.append(find)


def images_seen() -> list[ImageSeen]:
    """Return the images that releases pin or people asked for; two queries and those of who tells the pins."""
    pins = {one.digest: one for find in _PINNED for one in find()}
    rows = {row.digest: row for row in Image.objects.all()[:IMAGES_SHOWN]}
    counts: dict[int, Counter[str]] = {}
    held = ImageHolding.objects.filter(image__in=[row.pk for row in rows.values()])
    for image, state in held.values_list("image_id", "state"):
        counts.setdefault(image, Counter())[state] += 1
    found = [
        ImageSeen(
            row.name,
            row.digest,
            pins[row.digest].used_by if row.digest in pins else (),
            row,
            counts.get(row.pk, Counter()),
        )
        for row in rows.values()
    ]
    rest = [
        ImageSeen(one.name, one.digest, one.used_by)
        for one in pins.values()
        if one.digest not in rows
    ]
    return [*found, *rest]


def image_named(name: str) -> Image | None:
    """Return the image of a public id."""
    found = re.fullmatch(r"IMG-(\d{4,9})", name)
    rows = Image.objects.select_related("requested_by")
    return rows.filter(pk=int(found[1])).first() if found else None


def image_holdings(image: Image) -> list[ImageHolding]:
    """Return the nodes of an image, in name order."""
    rows = image.holdings.select_related("node__host", "node__rack__leaf")
    return list(rows.order_by("node__host__name"))


def used_by(image: Image) -> tuple[str, ...]:
    """Return the words for the releases that pin an image."""
    return tuple(
        word
        for find in _PINNED
        for one in find()
        if one.digest == image.digest
        for word in one.used_by
    )


def image_on(nodes: Sequence[Node], digest: str) -> tuple[Image | None, dict[str, str]]:
    """Return the image of a digest and its state on these nodes (name -> state); None when nobody asked for it."""
    image = Image.objects.filter(digest=digest).first()
    if image is None:
        return None, {}
    rows = image.holdings.filter(node__in=list(nodes))
    return image, dict(rows.values_list("node__host__name", "state"))


def _image_page(found: re.Match[str]) -> str | None:
    row = Image.objects.filter(pk=int(found[1])).first()
    return reverse("image", args=[row.public_id]) if row else None


jump_add(r"IMG-(\d{1,9})", _image_page)
