"""What the pages of weights show: artefacts with who holds them, and one distribution with all its nodes."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from django.urls import reverse

from fleet.models import Distribution, Holding, TrailEntry, WeightsArtefact
from fleet.selectors.jump import jump_add

ARTEFACTS_SHOWN = 100
HISTORY_SHOWN = 8


@dataclass(frozen=True)
class ArtefactSeen:
    """An artefact, its newest distribution, and how many nodes hold it in which state."""

    artefact: WeightsArtefact
    newest: Distribution | None
    counts: Counter[str]


def artefacts_seen() -> list[ArtefactSeen]:
    """Return the newest artefacts; three queries however many there are."""
    rows = list(WeightsArtefact.objects.select_related("seed_node__host")[:ARTEFACTS_SHOWN])
    counts: dict[int, Counter[str]] = {row.pk: Counter() for row in rows}
    for artefact, state in Holding.objects.filter(artefact__in=rows).values_list(
        "artefact_id", "state"
    ):
        counts[artefact][state] += 1
    newest = {
        row.artefact_id: row
        for row in Distribution.objects.filter(artefact__in=rows).order_by("pk")
    }
    return [ArtefactSeen(row, newest.get(row.pk), counts[row.pk]) for row in rows]


def artefact_named(name: str) -> WeightsArtefact | None:
    """Return the artefact of a public id."""
    found = re.fullmatch(r"WA-(\d{4,9})", name)
    rows = WeightsArtefact.objects.select_related("seed_node__host", "requested_by")
    return rows.filter(pk=int(found[1])).first() if found else None


def distribution_named(name: str) -> Distribution | None:
    """Return the distribution of a public id."""
    found = re.fullmatch(r"DIST-(\d{4,9})", name)
    rows = Distribution.objects.select_related("artefact", "requested_by")
    return rows.filter(pk=int(found[1])).first() if found else None


def holdings_of(
    artefact: WeightsArtefact, distribution: Distribution | None = None
) -> list[Holding]:
    """Return who holds an artefact, or the nodes of one distribution, in name order."""
    rows = Holding.objects.filter(artefact=artefact).select_related(
        "node__host", "node__rack__leaf", "parent__host", "parent__rack__leaf"
    )
    if distribution is not None:
        rows = rows.filter(distribution=distribution)
    return list(rows.order_by("node__host__name"))


def holding_of(artefact: WeightsArtefact, node: str) -> Holding | None:
    """Return what one node holds of an artefact."""
    return Holding.objects.filter(artefact=artefact, node__host__name=node).first()


def history_of(kind: str, name: str) -> list[TrailEntry]:
    """Return what was last done to an artefact or a distribution."""
    rows = TrailEntry.objects.filter(object_kind=kind, object_id=name).order_by("-id")
    return list(rows[:HISTORY_SHOWN])


def _artefact_page(found: re.Match[str]) -> str | None:
    row = WeightsArtefact.objects.filter(pk=int(found[1])).first()
    return reverse("artefact", args=[row.public_id]) if row else None


def _distribution_page(found: re.Match[str]) -> str | None:
    row = Distribution.objects.filter(pk=int(found[1])).first()
    return reverse("distribution", args=[row.public_id]) if row else None


jump_add(r"WA-(\d{1,9})", _artefact_page)
jump_add(r"DIST-(\d{1,9})", _distribution_page)
