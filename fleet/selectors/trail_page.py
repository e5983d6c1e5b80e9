"""Reads the trail for its page: filtered, newest first, in pages by entry number; and how far it is sealed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Q, QuerySet

from fleet.models import TrailEntry, TrailSeal

PAGE_ROWS = 100
BLOCK_ROWS = 2000
# A row that commits late may carry a lower id than the newest sealed one.
LATE_IDS = 1000
KINDS = ("all", "people", "auto", "refused")
_AUTO = ("rule", "command")


@dataclass(frozen=True)
class TrailFilter:
    """What a person asked for; empty fields do not filter."""

    kind: str = "all"
    actor: str = ""
    verb: str = ""
    words: str = ""
    since: datetime | None = None


@dataclass(frozen=True)
class SealState:
    """The newest sealed entry, and how many committed entries still wait for the sealer."""

    entry: int
    position: int
    waiting: int


def trail_rows(wanted: TrailFilter) -> QuerySet[TrailEntry]:
    """Return the entries that pass, newest first, each with its seal."""
    rows = TrailEntry.objects.select_related("seal").order_by("-id")
    if wanted.kind == "people":
        rows = rows.exclude(source__in=_AUTO)
    elif wanted.kind == "auto":
        rows = rows.filter(source__in=_AUTO)
    elif wanted.kind == "refused":
        rows = rows.filter(outcome="refused")
    if wanted.actor:
        rows = rows.filter(actor=wanted.actor)
    if wanted.verb:
        rows = rows.filter(verb=wanted.verb)
    for word in wanted.words.split():
        rows = rows.filter(
            Q(object_id__icontains=word) | Q(reason__icontains=word) | Q(verb__icontains=word)
        )
    return rows.filter(at__gte=wanted.since) if wanted.since else rows


def trail_page(wanted: TrailFilter, before: int | None) -> tuple[list[TrailEntry], bool]:
    """Return one page of entries below a number, and whether older ones follow."""
    rows = trail_rows(wanted)
    if before is not None:
        rows = rows.filter(pk__lt=before)
    found = list(rows[: PAGE_ROWS + 1])
    return found[:PAGE_ROWS], len(found) > PAGE_ROWS


def trail_block(wanted: TrailFilter, before: int | None) -> list[TrailEntry]:
    """Return the next block of an export: entries below a number, newest first; empty at the end."""
    rows = trail_rows(wanted)
    return list((rows.filter(pk__lt=before) if before is not None else rows)[:BLOCK_ROWS])


def trail_choices() -> dict[str, list[str]]:
    """Return the actors and verbs that occur, for the filter's menus."""
    actors = TrailEntry.objects.order_by("actor").values_list("actor", flat=True).distinct()
    verbs = TrailEntry.objects.order_by("verb").values_list("verb", flat=True).distinct()
    return {"actors": list(actors[:200]), "verbs": list(verbs[:200])}


def seal_state() -> SealState:
    """Return how far the chain of seals reaches."""
    newest = TrailSeal.objects.order_by("-position").values_list("entry_id", "position").first()
    entry, position = newest or (0, 0)
    waiting = TrailEntry.objects.filter(seal=None, pk__gt=entry - LATE_IDS).count()
    return SealState(entry, position, waiting)


def fields_changed(before: Any, after: Any) -> list[tuple[str, Any, Any]]:
    """Return (field, before, after) for a trail entry's two halves; a missing half is None."""
    old = before if isinstance(before, dict) else {} if before is None else {"": before}
    new = after if isinstance(after, dict) else {} if after is None else {"": after}
    return [(name, old.get(name), new.get(name)) for name in {**old, **new}]
