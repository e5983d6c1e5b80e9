"""Moves of holdings between their states, many at once, along the table. The callers hold the row locks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from django.utils.translation import gettext as _

from fleet.execution.clock import database_now
from fleet.models import Holding
from fleet.rules.holdings import HOLDING_MOVES
from fleet.rules.refusals import Conflict
from fleet.services.node_moves import rows_update

_FIELDS = (
    "state",
    "explanation",
    "distribution",
    "needs",
    "findings",
    "attempt",
    "copies",
    "readings",
    "is_check_only",
    "parent",
    "port",
    "serve",
    "pull",
    "check_run",
    "stop_for",
    "bytes_done",
    "bytes_per_s",
    "file_now",
    "read_at",
    "state_at",
    "verified_at",
)


@dataclass(frozen=True)
class HoldingMove:
    """Where one locked holding goes and why; its own state only renews what was set on the row."""

    holding: Holding
    to: str
    explanation: str


def holdings_move(moves: Iterable[HoldingMove]) -> int:
    """Write these rows with one statement; return how many changed state. Raises Conflict when there is no way."""
    rows, changed, now = [], 0, database_now()
    for move in moves:
        row, to = move.holding, str(move.to)
        if to != row.state:
            if to not in HOLDING_MOVES[row.state]:
                raise Conflict(
                    _("%(what)s is %(state)s and cannot become %(to)s. Reload the page.")
                    % {"what": row, "state": row.state, "to": to}
                )
            changed += 1
            row.state_at = now
            row.stop_for, row.file_now = "", ""
        row.state, row.explanation = to, move.explanation
        rows.append(row)
    if rows:
        rows_update(Holding, rows, *_FIELDS)
    return changed
