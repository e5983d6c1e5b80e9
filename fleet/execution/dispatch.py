"""Asking for effects on nodes: the committed row is the order, the queue in Redis only a nudge.

Dispatching twice under one purpose is harmless. Whatever Redis loses, the sweep queues again from the rows.
Not in charge of who may ask (services) nor of carrying it out (hands.py).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import django_rq
from django.db import connection, transaction
from django.db.models import F, Value
from django.db.models.functions import Coalesce, Now
from redis.exceptions import RedisError

from fleet.execution import moves, states
from fleet.execution.faults import fault_point
from fleet.execution.message import said_within, say
from fleet.execution.models import Command, Host, LogStream, Subject
from fleet.execution.verbs import check_order

logger = logging.getLogger(__name__)

JOB = "fleet.execution.hands.carry_out"
# Connecting, and a stop with its grace and a docker that does not answer; then the horse is killed.
JOB_MARGIN_S = 150
SWEEP_LIMIT = 1024


class PurposeTaken(ValueError):
    """Two different orders under one purpose: a mistake of ours that would lose one of them."""


@dataclass(frozen=True)
class Order:
    """One effect on one node that somebody wants; `due_at` None means now."""

    purpose: str
    host: Host
    verb: str
    queue: str
    payload: dict[str, Any]
    effect: str = "ensure"
    subject: Subject | None = None
    deadline_s: float = 30.0
    topic: str = ""
    due_at: datetime | None = None

    def to_row(self) -> Command:
        """Return the row of this order, not saved."""
        due = Now() if self.due_at is None else Value(self.due_at)
        is_stop = self.verb == "stop"
        return Command(
            purpose=self.purpose,
            host=self.host,
            subject=self.subject,
            verb=self.verb,
            queue=self.queue,
            effect=self.effect,
            payload=self.payload,
            deadline_s=self.deadline_s,
            topic=self.topic,
            due_at=due,
            expires_at=None if is_stop else due + timedelta(seconds=self.deadline_s),
            enqueued_at=Now() if self.due_at is None else None,
        )


def command_dispatch(**order: Any) -> Command:
    """Order one effect on one node; takes the fields of Order, and else as commands_dispatch()."""
    return commands_dispatch([Order(**order)])[0]


def commands_dispatch(orders: Sequence[Order]) -> list[Command]:
    """Order effects; return their commands in order, the existing one where a purpose was used.

    The number of queries does not grow with the orders. A stop is never given up; anything else is not
    begun `deadline_s` seconds after it was due. Raises WireError for what cannot be said to a node,
    PurposeTaken for a purpose of another order.
    """
    for order in orders:
        check_order(
            verb=order.verb,
            queue=order.queue,
            effect=order.effect,
            payload=order.payload,
            subject=order.subject,
        )
    with transaction.atomic():
        Command.objects.bulk_create([order.to_row() for order in orders], ignore_conflicts=True)
        rows = Command.objects.filter(purpose__in=[order.purpose for order in orders])
        by_purpose = {row.purpose: row for row in rows}
        stored = [by_purpose[order.purpose] for order in orders]
        for order, row in zip(orders, stored, strict=True):
            _refuse_other_order(order, row)
        if stopped := [o.subject.pk for o in orders if o.verb == "stop" and o.subject is not None]:
            _forget_unsent_starts(stopped)
        for order, row in zip(orders, stored, strict=True):
            if row.state == states.QUEUED and order.due_at is None:
                _enqueue_on_commit(row, order.queue)
    return stored


def _refuse_other_order(order: Order, row: Command) -> None:
    subject_id = order.subject.pk if order.subject else None
    if (row.host_id, row.verb, row.subject_id) != (order.host.pk, order.verb, subject_id):
        raise PurposeTaken(
            f"purpose {order.purpose!r} belongs to a {row.verb} on host {row.host_id}"
        )


def subject_create(
    *,
    host: Host,
    name: str,
    container: str = "",
    plan_sha: str = "",
    layout: dict[str, Any] | None = None,
) -> Subject:
    """Return the subject of this name with its log stream, made now or before."""
    subject, _ = Subject.objects.get_or_create(
        name=name, defaults={"host": host, "container": container, "plan_sha": plan_sha}
    )
    if subject.host_id != host.pk:
        raise PurposeTaken(f"subject {name!r} lives on host {subject.host_id}, not on {host.pk}")
    LogStream.objects.get_or_create(subject=subject, defaults={"layout": layout or {}})
    return subject


@dataclass(frozen=True)
class NewSubject:
    """A subject that is wanted on a host, with its docker name when it runs in a container."""

    host: Host
    name: str
    container: str = ""


def subjects_create(wanted: Sequence[NewSubject]) -> dict[str, Subject]:
    """Return subjects by name with their log streams, made now or before; few queries, whatever their number."""
    names = [one.name for one in wanted]
    Subject.objects.bulk_create(
        [Subject(host=one.host, name=one.name, container=one.container) for one in wanted],
        ignore_conflicts=True,
    )
    found = {row.name: row for row in Subject.objects.filter(name__in=names)}
    for one in wanted:
        if found[one.name].host_id != one.host.pk:
            raise PurposeTaken(
                f"subject {one.name!r} lives on host {found[one.name].host_id}, not on {one.host.pk}"
            )
    LogStream.objects.bulk_create(
        [LogStream(subject=row) for row in found.values()], ignore_conflicts=True
    )
    return found


def command_cancel(*, command: Command) -> Command:
    """Ask that a command does not happen, or is undone on the node; return the command that carries it.

    Cancelled is only what was never sent or is proved gone. A start that has succeeded cannot become
    cancelled any more: its subject is stopped by a command of its own, which is returned.
    """
    return commands_cancel([command])[command.pk]


@transaction.atomic
def commands_cancel(commands: Iterable[Command]) -> dict[int, Command]:
    """Ask the same of many commands; return by key the command that carries it. Few queries, whatever their number."""
    keys = {command.pk for command in commands}
    rows = Command.objects.select_for_update(of=("self",)).select_related("host", "subject")
    locked = {row.pk: row for row in rows.filter(pk__in=keys).order_by("pk")}
    stops = {row.pk: _stop_of(row) for row in locked.values() if _is_to_be_stopped(row)}
    open_rows = [row for row in locked.values() if not row.is_settled and not _is_sent_stop(row)]
    unsent = [row for row in open_rows if _is_unsent(row)]
    asked = [row for row in open_rows if not _is_unsent(row)]
    moves.command_move(
        Command.objects.filter(pk__in=[row.pk for row in unsent]),
        states.CANCELLED,
        explanation=say("cancelled before anything was sent to the node"),
    )
    _ask_to_cancel(asked)
    stored = commands_dispatch(list(stops.values())) if stops else []
    if open_rows:
        locked |= {row.pk: row for row in rows.filter(pk__in=[row.pk for row in open_rows])}
    return locked | dict(zip(stops, stored, strict=True))


def _is_to_be_stopped(row: Command) -> bool:
    subject = row.subject
    is_started = row.verb == "start" and row.state == states.SUCCEEDED
    return is_started and subject is not None and not subject.has_ended


def _stop_of(row: Command) -> Order:
    assert row.subject is not None
    return Order(
        purpose=f"{row.purpose}/cancel"[:200],
        host=row.host,
        verb="stop",
        queue="stop",
        payload={"container": row.subject.container},
        subject=row.subject,
        topic=row.topic,
    )


def _is_sent_stop(row: Command) -> bool:
    return (
        row.verb == "stop" and row.sent_at is not None
    )  # what was asked to go is not asked to stay


def _is_unsent(row: Command) -> bool:
    return row.state == states.QUEUED and (row.sent_at is None or row.effect == "probe")


def _ask_to_cancel(rows: Sequence[Command]) -> None:
    """Note the wish on what was sent; what nobody carries now goes to the queue of stops."""
    if not rows:
        return
    mine = Command.objects.filter(pk__in=[row.pk for row in rows])
    mine.update(cancel_requested_at=Coalesce(F("cancel_requested_at"), Now()))
    idle = [row for row in rows if row.state in (states.QUEUED, states.UNKNOWN)]
    if idle:
        mine.filter(pk__in=[row.pk for row in idle]).update(due_at=Now(), enqueued_at=Now())
    for row in idle:
        _enqueue_on_commit(row, "stop")


def sweep() -> int:
    """Take over what dead hands held, give up what is too late, queue again what is due; return how many."""
    count = moves.commands_release_expired()
    late = Command.objects.filter(state=states.QUEUED, expires_at__lt=Now(), sent_at=None)
    for command in late.only("deadline_s", "explanation", "attempt")[:SWEEP_LIMIT]:
        count += len(_give_up(command))
    due = moves.commands_take_due(_busy_queues(), SWEEP_LIMIT)
    for queue in states.QUEUES:
        rows = [(pk, deadline_s) for pk, name, deadline_s in due if name == queue]
        _push(queue, rows)
    return count + len(due)


def _give_up(command: Command) -> list[int]:
    tries = say("no worker took it")
    if command.attempt:
        tries = say("%(n)s attempts", n=command.attempt)
    why = say(
        "given up after its %(seconds)s s (%(tries)s); nothing was started on the node",
        seconds=f"{command.deadline_s:g}",
        tries=tries,
    )
    if command.explanation:
        why = say("%(why)s. Last: %(last)s", why=why, last=command.explanation)
    rows = Command.objects.filter(pk=command.pk, sent_at=None)
    explanation = said_within(why, moves.EXPLANATION_CAP)
    return moves.command_move(rows, states.FAILED, explanation=explanation)


def _forget_unsent_starts(subject_ids: Sequence[int]) -> None:
    starts = Command.objects.filter(subject__in=subject_ids, verb="start", sent_at=None)
    moves.command_move(
        starts.filter(state=states.QUEUED),
        states.CANCELLED,
        explanation=say("a stop came before it"),
    )


class _Batch:
    """Commands of one transaction on their way to the queues."""

    def __init__(self) -> None:
        self.rows: dict[str, list[tuple[int, float]]] = {}

    def flush(self) -> None:
        fault_point("after-commit-before-enqueue")
        for queue, rows in self.rows.items():
            _push(queue, rows)
        fault_point("after-enqueue")


def _enqueue_on_commit(command: Command, queue: str) -> None:
    batch = getattr(connection, "execution_batch", None)
    # A rolled back transaction has dropped its hook, and with it the batch.
    if batch is None or not any(entry[1] == batch.flush for entry in connection.run_on_commit):
        batch = connection.execution_batch = _Batch()
        batch.rows.setdefault(queue, []).append((command.pk, command.deadline_s))
        transaction.on_commit(batch.flush)
    else:
        batch.rows.setdefault(queue, []).append((command.pk, command.deadline_s))


def _push(queue: str, rows: Sequence[tuple[int, float]]) -> None:
    """Queue ids in jobs of up to 64. A lost job is found by the sweep, so Redis may be away."""
    try:
        for batch in _batches(rows):
            django_rq.get_queue(queue).enqueue_call(
                JOB,
                args=([pk for pk, _ in batch],),
                timeout=int(max(deadline_s for _, deadline_s in batch)) + JOB_MARGIN_S,
                result_ttl=0,
                failure_ttl=60,
            )
    except RedisError as error:
        logger.warning("queue %s is not reachable, the sweep will queue again: %s", queue, error)


def _batches(rows: Sequence[tuple[int, float]]) -> Iterable[Sequence[tuple[int, float]]]:
    return (rows[start : start + moves.BATCH] for start in range(0, len(rows), moves.BATCH))


def _busy_queues() -> list[str]:
    try:
        return [name for name in states.QUEUES if django_rq.get_queue(name).count]
    except RedisError:
        return []
