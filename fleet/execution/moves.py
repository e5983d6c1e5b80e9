"""The only writer of a command's state: every move is a compare-and-swap against COMMAND_MOVES.

Leases, fences and due times use the database's clock. Who holds a command says so by its fence: a write of a
former holder changes no row. Not in charge of what an answer means (verdicts.py) nor of queues (dispatch.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection, transaction
from django.db.models import QuerySet
from django.db.models.functions import Now

from fleet.execution import states
from fleet.execution.faults import scaled
from fleet.execution.message import said_within, say
from fleet.execution.models import Command
from fleet.execution.signals import command_settled
from fleet.execution.storable import storable_json, storable_text

LEASE_S = 30.0
QUEUED_STALE_S = 15.0
BATCH = 64
EXPLANATION_CAP = 4000

_MOVES = [f"{before}>{after}" for before, to in states.COMMAND_MOVES.items() for after in to]
_TOLD = sorted(states.TERMINAL | {states.UNKNOWN})


@dataclass(frozen=True)
class Claimed:
    """A command in this hand, as it was when it was claimed."""

    id: int
    fence: int
    left_s: float | None  # until it is given up; negative: too late to begin; None: never given up
    is_cancelled: bool

    @property
    def is_late(self) -> bool:
        return self.left_s is not None and self.left_s < 0


@dataclass(frozen=True)
class Settlement:
    """Where a command goes: a state, why, and when to try again if it is not the end."""

    id: int
    fence: int
    state: str
    explanation: str = ""
    answer: dict[str, Any] | None = None
    due_in_s: float = 0.0


def states_before(state: str) -> list[str]:
    """Return the states from which a command may become `state`."""
    return sorted(before for before, onward in states.COMMAND_MOVES.items() if state in onward)


@transaction.atomic
def command_move(rows: QuerySet[Command], state: str, **changes: Any) -> list[int]:
    """Move those of `rows` that may become `state`; return their ids. Listeners are told on commit."""
    found = rows.filter(state__in=states_before(state)).order_by("pk")
    moved = list(found.select_for_update().values_list("pk", "topic"))
    if moved:
        if state in states.TERMINAL:
            changes = {"settled_at": Now(), "lease_until": None, "lease_owner": "", **changes}
        Command.objects.filter(pk__in=[pk for pk, _ in moved]).update(state=state, **changes)
        if state in _TOLD:
            _tell_on_commit(moved)
    return [pk for pk, _ in moved]


def commands_claim(ids: Sequence[int], owner: str) -> list[Claimed]:
    """Take those of `ids` that are due and free; each gets a fence of its own, higher than any before.

    What was sent and must happen only once is never taken again: a person decides.
    """
    return [
        Claimed(*row)
        for row in _fetch(
            """
            UPDATE execution_command SET state = 'claimed', lease_owner = %(owner)s,
                lease_until = statement_timestamp() + %(lease)s * interval '1 second',
                fence = nextval('execution_fence'), attempt = attempt + 1,
                claimed_at = statement_timestamp(), heartbeat_at = statement_timestamp()
            WHERE id IN (
                SELECT id FROM execution_command
                WHERE id = ANY(%(ids)s) AND state = ANY(%(before)s) AND due_at <= statement_timestamp()
                AND (lease_until IS NULL OR lease_until < statement_timestamp())
                AND NOT (effect = 'once' AND sent_at IS NOT NULL)
                ORDER BY id LIMIT %(batch)s FOR UPDATE SKIP LOCKED)
            RETURNING id, fence, extract(epoch FROM expires_at - statement_timestamp())::float8,
                cancel_requested_at IS NOT NULL
            """,
            ids=[int(one) for one in ids],
            before=states_before(states.CLAIMED),
            owner=owner[:120],
            lease=scaled(LEASE_S),
            batch=BATCH,
        )
    ]


def commands_permit(held: Iterable[tuple[int, int, str]]) -> set[int]:
    """Write down that effects are about to be sent: (id, fence, running or stopping); return who may.

    Whoever is missing in the result has been taken over or cancelled: it must not touch the node.
    """
    rows = [{"id": pk, "fence": fence, "state": state} for pk, fence, state in held]
    return {
        row[0]
        for row in _fetch(
            """
            UPDATE execution_command c SET state = x.state, sent_at = coalesce(sent_at, statement_timestamp())
            FROM jsonb_to_recordset(%(rows)s) AS x(id bigint, fence bigint, state text)
            WHERE c.id = x.id AND c.fence = x.fence AND c.state || '>' || x.state = ANY(%(moves)s)
            AND (x.state = 'stopping' OR c.cancel_requested_at IS NULL)
            RETURNING c.id
            """,
            rows=json.dumps(rows),
            moves=_MOVES,
        )
    }


def commands_beat(held: dict[int, int]) -> dict[int, bool]:
    """Prolong the lease of {id: fence}; return {id: is a cancel asked} of those that are still ours."""
    return dict(
        _fetch(
            """
            UPDATE execution_command c SET heartbeat_at = statement_timestamp(),
                lease_until = statement_timestamp() + %(lease)s * interval '1 second'
            FROM unnest(%(ids)s::bigint[], %(fences)s::bigint[]) AS x(id, fence)
            WHERE c.id = x.id AND c.fence = x.fence AND c.state = ANY(%(held)s)
            RETURNING c.id, c.cancel_requested_at IS NOT NULL
            """,
            ids=list(held),
            fences=list(held.values()),
            lease=scaled(LEASE_S),
            held=[states.CLAIMED, states.RUNNING, states.STOPPING],
        )
    )


@transaction.atomic
def commands_settle(settlements: Sequence[Settlement]) -> set[int]:
    """Write results, each only while its fence still holds; return the ids that were written."""
    rows = [
        {
            "id": one.id,
            "fence": one.fence,
            "state": one.state,
            "explanation": said_within(storable_text(one.explanation), EXPLANATION_CAP),
            "answer": storable_json(one.answer),
            "due_in": one.due_in_s,
        }
        for one in settlements
    ]
    moved = _fetch(
        """
        UPDATE execution_command c SET state = x.state, explanation = x.explanation,
            answer = coalesce(x.answer, c.answer), lease_owner = '', lease_until = NULL,
            settled_at = CASE WHEN x.state = ANY(%(final)s) THEN statement_timestamp() END,
            due_at = statement_timestamp() + x.due_in * interval '1 second',
            enqueued_at = NULL
        FROM jsonb_to_recordset(%(rows)s) AS x(id bigint, fence bigint, state text, explanation text,
            answer jsonb, due_in float8)
        WHERE c.id = x.id AND c.fence = x.fence AND c.state || '>' || x.state = ANY(%(moves)s)
        RETURNING c.id, c.topic, c.state
        """,
        rows=json.dumps(rows),
        moves=_MOVES,
        final=sorted(states.TERMINAL),
    )
    _tell_on_commit([(pk, topic) for pk, topic, state in moved if state in _TOLD])
    return {row[0] for row in moved}


def commands_release_expired() -> int:
    """Take commands from hands that stopped renewing; return how many.

    Where an effect may have been sent the truth is on the node: unknown, asked for again at once.
    """
    dead = Command.objects.filter(lease_until__lt=Now())
    unsent = dead.filter(state=states.CLAIMED, sent_at=None)
    harmless = dead.filter(state=states.RUNNING, effect="probe")
    free = {"lease_until": None, "lease_owner": "", "due_at": Now(), "enqueued_at": None}
    why = say("the worker that had it stopped answering; it is taken over")
    count = sum(
        len(command_move(rows, states.QUEUED, explanation=why, **free))
        for rows in (unsent, harmless)
    )
    unsure = dead.filter(state__in=[states.CLAIMED, states.RUNNING, states.STOPPING])
    why = say("the worker that had it stopped answering after it may have reached the node")
    return count + len(command_move(unsure, states.UNKNOWN, explanation=why, **free))


def commands_take_due(longer_wait: Sequence[str], limit: int) -> list[tuple[int, str, float]]:
    """Mark due commands as queued now and return (id, queue, deadline_s).

    `longer_wait`: queues in Redis that still hold jobs, so that theirs are probably not lost.
    """
    return _fetch(
        """
        UPDATE execution_command c SET enqueued_at = statement_timestamp()
        WHERE id IN (
            SELECT id FROM execution_command
            WHERE state = ANY(%(before)s) AND due_at <= statement_timestamp()
            AND (lease_until IS NULL OR lease_until < statement_timestamp())
            AND NOT (effect = 'once' AND sent_at IS NOT NULL)
            AND (enqueued_at IS NULL OR enqueued_at < statement_timestamp() - %(stale)s * interval '1 second'
                * CASE WHEN queue = ANY(%(longer)s) THEN 4 ELSE 1 END)
            ORDER BY id LIMIT %(limit)s FOR UPDATE SKIP LOCKED)
        RETURNING id, CASE WHEN cancel_requested_at IS NULL THEN queue ELSE 'stop' END, deadline_s
        """,
        before=states_before(states.CLAIMED),
        stale=scaled(QUEUED_STALE_S),
        longer=list(longer_wait),
        limit=limit,
    )


def last_fence() -> int:
    """Return the highest fence ever given; a node that shows a higher one does not tell the truth."""
    return _fetch("SELECT last_value FROM execution_fence")[0][0]


def _tell_on_commit(moved: Sequence[tuple[int, str]]) -> None:
    for pk, topic in moved:
        transaction.on_commit(
            lambda pk=pk, topic=topic: command_settled.send(
                sender=Command, command_id=pk, topic=topic
            ),
            robust=True,
        )


def _fetch(sql: str, **params: Any) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        return cursor.fetchall()
