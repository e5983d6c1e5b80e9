"""Golden pairs of network acceptance as golden profiles are listed: by class and way, each with its versions."""

from __future__ import annotations

from dataclasses import dataclass

from fleet.models import NetGolden, TrailEntry
from fleet.rules.golden import Wanted
from fleet.rules.netgold import keys_of
from fleet.selectors.network import load_of

HISTORY_SHOWN = 12


@dataclass(frozen=True)
class PairVersion:
    """One choice of a golden pair and its number among those of its class and way."""

    number: int
    gold: NetGolden


@dataclass(frozen=True)
class PairLine:
    """The versions of one class and way, newest first."""

    node_class: str
    topology: str
    versions: list[PairVersion]

    def of(self, pk: int) -> PairVersion | None:
        """Return the version of a key; None for one of another line."""
        return next((one for one in self.versions if one.gold.pk == pk), None)


def pair_lines() -> list[PairLine]:
    """Return every golden pair by class and way, newest version first. One query."""
    rows = NetGolden.objects.select_related(
        "pair__run", "pair__a__host", "pair__b__host", "chosen_by"
    ).order_by("node_class", "topology", "pk")
    lines: dict[tuple[str, str], list[PairVersion]] = {}
    for gold in rows:
        versions = lines.setdefault((gold.node_class, gold.topology), [])
        versions.insert(0, PairVersion(len(versions) + 1, gold))
    return [PairLine(*line, versions) for line, versions in lines.items()]


def pair_line_of(pk: int) -> tuple[PairLine, PairVersion] | None:
    """Return the line and the version of a golden pair, or None."""
    for line in pair_lines():
        if (version := line.of(pk)) is not None:
            return line, version
    return None


def keys_wanted(gold: NetGolden) -> list[Wanted]:
    """Return what a golden pair wants of others, each with its bar. Up to one query."""
    pair = gold.pair
    return keys_of(pair.busbw_gbs, pair.rails, load_of(pair), gold.bar)


def history_of(line: PairLine) -> list[TrailEntry]:
    """Return the newest entries of the trail about the golden pairs of a line."""
    rows = TrailEntry.objects.filter(
        verb__in=("network_golden.choose", "network_golden.bar"),
        after__node_class=line.node_class,
        after__topology=line.topology,
    )
    return list(rows.order_by("-id")[:HISTORY_SHOWN])
