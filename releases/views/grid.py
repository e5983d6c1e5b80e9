"""The launch grid: phases by ranks. The ranks of a node move together; the size is final from the first tick."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fleet.execution.states import SUBJECT_ENDED
from releases.rules import launch as rules
from releases.rules.phases import GOLDEN, PREFLIGHT, Span
from releases.selectors.launch_page import ROW_ORDER, LaunchSeen, PlaceSeen
from releases.views.words import ROW_WORDS

_ENDING = frozenset({rules.FAILED, rules.STOPPED, rules.STOPPING, rules.FREEZING})


@dataclass(frozen=True)
class Cell:
    """look: ok, run, wait, crit or empty; percent only where the log counts."""

    look: str
    percent: int | None = None


@dataclass(frozen=True)
class Row:
    key: str
    word: Any
    groups: list[list[Cell]]
    span: Span | None
    seconds: float | None
    is_running: bool


def launch_grid(seen: LaunchSeen, now: datetime) -> dict[str, Any]:
    """Build the grid: head with rank numbers by node, one row for each phase."""
    per_node = seen.launch.plan.get("world_size", 0) // max(1, len(seen.places))
    ranks = [
        [place.place.position * per_node + n for n in range(per_node)] for place in seen.places
    ]
    spans = seen.spans()
    return {
        "ranks": ranks,
        "nodes": [place.place.node.name for place in seen.places],
        "rows": [_row(seen, row, per_node, spans.get(row), now) for row in ROW_ORDER],
    }


def _row(seen: LaunchSeen, row: str, per_node: int, span: Span | None, now: datetime) -> Row:
    cells = [_cell(seen, place, row) for place in seen.places]
    return Row(
        key=row,
        word=ROW_WORDS[row],
        groups=[[cell] * per_node for cell in cells],
        span=span,
        seconds=span.seconds(now) if span and any(cell.look for cell in cells) else None,
        is_running=any(cell.look == "run" for cell in cells),
    )


def done_rows(seen: LaunchSeen) -> list[str]:
    """Return the rows that every node has finished."""
    return [
        row
        for row in ROW_ORDER
        if all(_cell(seen, place, row).look in {"ok", "wait"} for place in seen.places)
    ]


def _cell(seen: LaunchSeen, place: PlaceSeen, row: str) -> Cell:
    launch, order = seen.launch, ROW_ORDER.index
    at = _standing(seen, place)
    if at == "ready" or order(row) < order(at):
        return Cell("ok")
    if row != at:
        return Cell("")
    if _is_down(launch.state, place):
        return Cell("crit")
    if launch.state in _ENDING or (row == GOLDEN and place.place.position > 0):
        return Cell("wait")
    return Cell("run", _percent(place, row))


def _standing(seen: LaunchSeen, place: PlaceSeen) -> str:
    """The row in which a node stands now, or stood when the launch ended; `ready` behind all rows."""
    launch = seen.launch
    if launch.ready_at:
        return "ready"
    if launch.state in {rules.CREATED, rules.PREFLIGHT} or not place.place.start_id:
        return PREFLIGHT
    if launch.state == rules.WARMING or any(GOLDEN in other.rows for other in seen.places):
        return GOLDEN
    return place.current_row


def _is_down(state: str, place: PlaceSeen) -> bool:
    """Whether this node is where it went wrong: its log says so, or its process ended by itself."""
    subject = place.place.subject
    if place.place.reader_state.get("fatal"):
        return True
    if subject is None:
        return state == rules.FAILED
    return subject.state in SUBJECT_ENDED - {"gone"} and state not in {rules.STOPPED}


def _percent(place: PlaceSeen, row: str) -> int | None:
    facts = place.place.reader_state
    pair = (
        facts.get("shards") if row == "load" else facts.get("shapes") if row == "capture" else None
    )
    if not pair or len(pair) != 2 or not pair[1]:
        return None
    return min(100, round(100 * pair[0] / pair[1]))
