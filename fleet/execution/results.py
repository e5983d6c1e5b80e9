"""From an outcome or an error to rows: what a command becomes, when it is tried again, what its subject is now.

What may have happened on a node and cannot be confirmed is unknown, and is asked again until it is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from django.conf import settings
from django.db import transaction
from django.db.models import F, Q, Value
from django.db.models.functions import Coalesce, Greatest, Now
from django.utils.module_loading import import_string

from fleet.execution import moves, signals, states
from fleet.execution.faults import fault_point, scaled
from fleet.execution.message import said, say, sentence_in
from fleet.execution.models import Command, CommandOutput, Host, Subject
from fleet.execution.output import Section, sections_pack
from fleet.execution.remote_errors import (
    Deadline,
    HostKeyChanged,
    HostKeyError,
    RemoteError,
    ShimRefused,
)
from fleet.execution.verdicts import AnswerLies, Outcome, Seen
from fleet.execution.wire import WireError

FIRST_RETRY_S, LAST_RETRY_S, LAST_CHANCE_S = 5.0, 300.0, 1.0
NEVER_S = 10 * 365 * 86400.0


class Tried(Protocol):
    """What a result needs to know of an attempt."""

    command: Command
    claimed: moves.Claimed
    is_cancelled: bool

    @property
    def left_s(self) -> float | None: ...


@dataclass(frozen=True)
class Result:
    """What is to be written for one command."""

    settlement: moves.Settlement
    command: Command
    sections: Sequence[Section] = ()
    seen: Seen | None = None
    key_error: HostKeyError | None = None


def retry_in_s(attempt: int) -> float:
    """Return the wait before the next attempt: 5 s, doubled up to 5 minutes (scaled)."""
    return scaled(min(LAST_RETRY_S, FIRST_RETRY_S * 2 ** min(10, max(0, attempt - 1))))


def result_of_outcome(tried: Tried, outcome: Outcome) -> Result:
    """Turn an answered call into what is written."""
    command = tried.command
    if outcome.state is None:
        state, due_in_s = states.QUEUED, scaled(1.0)
        if tried.left_s is not None and tried.left_s < due_in_s and command.sent_at is None:
            state = states.FAILED
    else:
        state = outcome.state
        due_in_s = retry_in_s(command.attempt) if state == states.UNKNOWN else 0.0
    settlement = _settlement(tried, state, outcome.explanation, due_in_s, outcome.answer)
    return Result(settlement, command, outcome.sections, outcome.seen)


def result_of_error(tried: Tried, error: RemoteError | AnswerLies | WireError) -> Result:
    """Turn a call that failed into what is written: tried again, failed, or unknown."""
    state, why = _state_after(tried, error)
    due_in_s = 0.0
    if state in (states.QUEUED, states.UNKNOWN):
        due_in_s = retry_in_s(tried.command.attempt)
        if state == states.UNKNOWN and tried.command.effect == "once":
            due_in_s = NEVER_S
            why = say("%(why)s; it must happen once, so a person has to look", why=why)
    if state == states.QUEUED and tried.left_s is not None and tried.left_s < due_in_s:
        # What did not happen is safe to repeat: nobody gives up while there is time for another attempt.
        due_in_s = min(due_in_s, LAST_CHANCE_S)
    if state == states.QUEUED and tried.left_s is not None and tried.left_s < due_in_s:
        state, due_in_s = states.FAILED, 0.0
        tries = tried.command.attempt
        why = say("%(why)s; given up after %(n)s attempts", why=why, n=tries)
    key_error = error if isinstance(error, HostKeyError) else None
    settlement = _settlement(tried, state, why, due_in_s)
    return Result(settlement, tried.command, key_error=key_error)


def _state_after(tried: Tried, error: RemoteError | AnswerLies | WireError) -> tuple[str, str]:
    command, why = tried.command, sentence_in(error)
    is_harmless = command.effect == "probe"
    if isinstance(error, WireError):
        return states.FAILED, why
    if isinstance(error, AnswerLies):
        why = say("the node's answer cannot be believed: it %(why)s", why=why)
        return (states.FAILED if is_harmless else states.UNKNOWN), why
    if command.verb == "stop":
        return states.UNKNOWN, say("not confirmed: %(why)s", why=why)
    if not is_harmless and (error.may_have_run or command.sent_at is not None):
        return states.UNKNOWN, say("may have happened: %(why)s", why=why)
    if tried.is_cancelled:
        return states.CANCELLED, say("cancelled; nothing was sent: %(why)s", why=why)
    if is_harmless and error.may_have_run and isinstance(error, Deadline):
        return states.TIMED_OUT, why
    if error.is_lasting or isinstance(error, ShimRefused):
        return states.FAILED, why
    return states.QUEUED, why


def _settlement(
    tried: Tried,
    state: str,
    why: str,
    due_in_s: float,
    answer: dict[str, Any] | None = None,
) -> moves.Settlement:
    name = tried.command.host.name
    if why and not said(why).startswith(f"{name}:"):
        why = say("%(node)s: %(why)s", node=name, why=why)
    return moves.Settlement(tried.command.pk, tried.claimed.fence, state, why, answer, due_in_s)


def results_store(results: Sequence[Result]) -> set[int]:
    """Write results with output and subjects in one transaction, each only while its fence holds."""
    results = [_with_details(result) for result in results]
    with transaction.atomic():
        written = moves.commands_settle([result.settlement for result in results])
        mine = [result for result in results if result.settlement.id in written]
        _store_outputs(mine)
        for result in mine:
            if result.seen is not None and result.command.subject_id is not None:
                subject_seen(result.command.subject_id, result.seen)
            if result.key_error is not None:
                host_key_seen(result.command.host, result.key_error)
        fault_point("before-settle-commit")
    fault_point("after-settle-commit")
    return written


def subject_seen(subject_id: int, seen: Seen) -> bool:
    """Write what the node said of a subject, unless it has already ended in this epoch."""
    is_over = Q(state__in=sorted(states.SUBJECT_ENDED), epoch__gte=seen.epoch)
    fields: dict[str, Any] = {
        "state": seen.state,
        "explanation": seen.explanation,
        "epoch": Greatest(F("epoch"), Value(seen.epoch)),
        "fence": Greatest(F("fence"), Value(seen.fence)),
        "observed_at": Now(),
        "rc": seen.rc,
    }
    if seen.pid is not None:
        fields |= {"pid": seen.pid, "start_ticks": seen.start_ticks, "boot_id": seen.boot_id}
        fields["started_at"] = Coalesce(F("started_at"), Now())
    fields["ended_at"] = Now() if seen.state in states.SUBJECT_ENDED else None
    rows = Subject.objects.filter(pk=subject_id).exclude(is_over)
    moved = rows.exclude(state=seen.state).exists()
    if not rows.update(**fields):
        return False
    if moved:
        transaction.on_commit(
            lambda: signals.subject_moved.send(
                sender=Subject, subject_id=subject_id, state=seen.state
            ),
            robust=True,
        )
    return True


def host_key_seen(host: Host, error: HostKeyError) -> None:
    """Note the key that a node showed; a changed one blocks the node. Nothing is written once re-pinned."""
    is_changed = isinstance(error, HostKeyChanged)
    fields: dict[str, Any] = {"offered_key": error.offered}
    if is_changed:
        fields |= {"key_state": Host.Key.CHANGED, "explanation": error.sentence}
    rows = Host.objects.filter(pk=host.pk, host_key=host.host_key).exclude(**fields)
    if rows.update(**fields):
        transaction.on_commit(
            lambda: signals.host_moved.send(sender=Host, host_id=host.pk, reach=""), robust=True
        )


def _store_outputs(results: Iterable[Result]) -> None:
    redact = import_string(settings.EXECUTION_REDACT)
    rows = [
        sections_pack(r.command.pk, [_redacted(section, redact) for section in r.sections])
        for r in results
        if r.sections
    ]
    CommandOutput.objects.bulk_create(
        rows, update_conflicts=True, unique_fields=["command"], update_fields=["sections", "body"]
    )


def _redacted(section: Section, redact: Callable[[str], str]) -> Section:
    """Mask secrets before anything is stored; bytes that are no text pass through unharmed.

    `sha256` stays that of the file on the node.
    """
    text = section.body.decode("utf-8", "surrogateescape")
    return replace(section, body=redact(text).encode("utf-8", "surrogateescape"))


def _with_details(result: Result) -> Result:
    """Name subject, process and command where a person may have to look on the node."""
    subject, settlement = result.command.subject, result.settlement
    if settlement.state != states.UNKNOWN or subject is None:
        return result
    start = Command.objects.filter(subject=subject, verb="start").order_by("-pk").first()
    argv = " ".join(map(str, start.payload.get("argv", [])))[:200] if start else say("unknown")
    why = say(
        "%(why)s (on %(node)s: subject %(subject)s, pid %(pid)s, command: %(argv)s)",
        why=settlement.explanation,
        node=result.command.host.name,
        subject=subject.name,
        pid=subject.pid or say("unknown"),
        argv=argv,
    )
    return replace(result, settlement=replace(settlement, explanation=why))
