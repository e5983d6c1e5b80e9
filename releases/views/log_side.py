"""Beside the lines: the facts of the marked one, what it means, and how far each rank came."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.utils import timezone
from django.utils.translation import gettext as _

from fleet.models import Gpu
from fleet.readings.vllm_log.failures import read_failure
from fleet.rules.collectives import Collective, parse_collective, ranks_behind
from fleet.rules.log_text import show_text
from fleet.selectors.log_lanes import collectives_of
from fleet.selectors.logs import LogSource, SeenLine
from fleet.templatetags.figures import zone_name
from releases.views.log_drawn import draw_line
from releases.views.log_line import DrawnLine
from releases.views.log_words import MEANINGS


@dataclass(frozen=True)
class Side:
    """The panel of one line."""

    line: DrawnLine
    at: str
    at_utc: str
    node: str
    rank: int | None
    gpu: int | None
    collective: str
    meaning: Any
    url: str
    text: str


def side_of(seen: SeenLine, log_url: str) -> Side:
    """Return the facts of a line; `meaning` is empty unless its message is known."""
    line, source = seen.line, seen.source
    text = show_text(line.text)
    found = parse_collective(text)
    failure = read_failure(text) if line.level in "WE" else None
    return Side(
        line=draw_line(seen),
        at=_moment(timezone.localtime(line.at)),
        at_utc=_moment(line.at.astimezone(UTC)),
        node=source.node,
        rank=line.rank,
        gpu=source.ranks.index(line.rank) if line.rank in source.ranks else None,
        collective=f"{found.op} {found.number}" if found else "",
        meaning=MEANINGS.get(failure[0], "") if failure else "",
        url=f"{log_url}?at={seen.key}#L{seen.key}",
        text=text,
    )


def _moment(at: datetime) -> str:
    ms = at.microsecond // 1000
    return f"{at:%m-%d %H:%M:%S}.{ms:03d} {zone_name(at)}"


Reached = list[tuple[LogSource, dict[int, Collective]]]


def reached_of(sources: list[LogSource]) -> Reached:
    """Return the last collective of every rank, node by node."""
    return [(source, collectives_of(source)) for source in sources]


def collective_table(reached: Reached) -> dict[str, Any] | None:
    """Return how far each rank of one node came, with its card's clock; None when no line tells.

    The first node that has a rank behind is taken, else the first that tells anything.
    """
    told = [(source, last) for source, last in reached if last]
    if not told:
        return None
    source, last = next(((s, found) for s, found in told if ranks_behind(found)), told[0])
    behind = ranks_behind(last)
    clocks = dict(
        Gpu.objects.filter(node__host__name=source.node).values_list("index", "sm_clock_mhz")
    )
    rows = [
        {
            "rank": rank,
            "gpu": index,
            "number": last[rank].number if rank in last else None,
            "is_behind": rank in behind,
            "clock_mhz": clocks.get(index),
        }
        for index, rank in enumerate(source.ranks)
    ]
    return {
        "node": source.node,
        "position": source.position,
        "rows": rows,
        "words": _behind_words(sorted(behind)),
    }


def _behind_words(behind: list[int]) -> str:
    if not behind:
        return ""
    if len(behind) == 1:
        return _("rank %(rank)d is behind") % {"rank": behind[0]}
    return _("ranks %(ranks)s are behind") % {"ranks": ", ".join(map(str, behind))}
