"""Adoption: what a node says it runs, compared with the rows. First adopt, then decide, never stop silently.

Called by the watch every minute and after every reconnect. Not in charge of asking the node (watch_adopt.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models.functions import Now

from fleet.execution import moves, signals, states
from fleet.execution.dispatch import command_dispatch
from fleet.execution.faults import scaled
from fleet.execution.message import foreign, say
from fleet.execution.models import Command, Host, Orphan, Subject
from fleet.execution.results import subject_seen
from fleet.execution.storable import storable_text
from fleet.execution.verdicts import AnswerLies, Seen, seen_in

# A subject that was started during the listing may be missing in it.
SETTLING_S = 30.0
LIVING_CONTAINERS = {"running", "paused", "restarting"}
LABELS_CAP = 64
TEXT_CAP = 300


@dataclass(frozen=True)
class Stray:
    """Something that lives on the node and that no row owns."""

    kind: str
    name: str
    explanation: str
    labels: dict[str, Any] = field(default_factory=dict)


@transaction.atomic
def host_adopt(host: Host, answer: dict[str, Any], found: Sequence[dict[str, Any]]) -> None:
    """Compare one listing of a node with the rows: adopt, record orphans, stop what should not live.

    `answer` is the first line of the shim's `list`, `found` the objects after it. Whatever waits for this
    node is tried again at once, because the node is there.
    """
    host_wake(host)
    rows = [row for row in found if isinstance(row.get("subject"), str)]
    boxes = [row["container"] for row in found if isinstance(row.get("container"), dict)]
    known = _subjects(host, {row["subject"] for row in rows} | set(map(_subject_of, boxes)))
    fences = moves.last_fence()
    strays = [stray for row in rows if (stray := _adopt(known.get(row["subject"]), row, fences))]
    strays += [stray for box in boxes if (stray := _adopt_box(known.get(_subject_of(box)), box))]
    _miss(host, {row["subject"] for row in rows})
    has_containers = answer.get("containers") == "ok"
    orphans_record(host, strays, are_containers_known=has_containers)


def host_wake(host: Host) -> None:
    """Make due now what waits for this node to come back."""
    Command.objects.filter(
        host=host, state__in=[states.QUEUED, states.UNKNOWN], attempt__gt=0, due_at__gt=Now()
    ).exclude(effect="once", sent_at__isnull=False).update(due_at=Now(), enqueued_at=None)


def _subjects(host: Host, names: set[str]) -> dict[str, Subject]:
    return {row.name: row for row in Subject.objects.filter(host=host, name__in=names)}


def _adopt(subject: Subject | None, row: dict[str, Any], last_fence: int) -> Stray | None:
    is_living = row.get("answer") == "RUNNING"
    if subject is None:
        return _stray(row, say("no row of this console knows it")) if is_living else None
    try:
        seen = seen_in(row)
    except AnswerLies as error:
        why = say("what the node says of it cannot be believed: %(why)s", why=error.sentence)
        return _stray(row, why)
    if seen.fence > last_fence:
        why = say(
            "it shows fence %(found)s, but the last one given is %(last)s",
            found=seen.fence,
            last=last_fence,
        )
        return _stray(row, why)
    if seen.fence < subject.fence or (seen.epoch < subject.epoch and is_living):
        why = say(
            "it is of an older claim (fence %(found)s, known %(known)s)",
            found=seen.fence,
            known=subject.fence,
        )
        return _stray(row, why) if is_living else None
    if is_living and subject.has_ended and seen.epoch <= subject.epoch:
        why = say(
            "it runs on %(node)s though it ended as %(state)s; it is being stopped",
            node=subject.host.name,
            state=subject.state,
        )
        _stop(subject, why)
    else:
        _believe(subject, seen)
    return None


def _believe(subject: Subject, seen: Seen) -> None:
    if subject.state == seen.state == states.SUBJECT_LIVE and subject.pid == seen.pid:
        Subject.objects.filter(pk=subject.pk).update(observed_at=Now())
    else:
        subject_seen(subject.pk, seen)


def _adopt_box(subject: Subject | None, box: dict[str, Any]) -> Stray | None:
    if str(box.get("State", "")).lower() not in LIVING_CONTAINERS:
        return None
    if subject is None:
        labels = _labels_of(box)
        why = say(
            "container %(name)s lives, and no row knows its subject", name=_text(box.get("Names"))
        )
        return Stray(Orphan.Kind.CONTAINER, _text(box.get("ID"))[:120], why, labels)
    if subject.has_ended:
        why = say(
            "its container %(name)s lives though it ended as %(state)s; it is being stopped",
            name=_text(box.get("Names")),
            state=subject.state,
        )
        _stop(subject, why)
    return None


def _stop(subject: Subject, why: str) -> None:
    """Order a stop of what is alive and should not be; an open stop is only made due again."""
    stops = Command.objects.filter(subject=subject, verb="stop")
    if _is_recent(subject):
        return  # it may have ended while the node was listing; the next scan knows
    if stops.exclude(state__in=sorted(states.TERMINAL)).exists():
        return
    Subject.objects.filter(pk=subject.pk).update(explanation=why)
    command_dispatch(
        purpose=f"adopt:stop/{subject.name}#{stops.count() + 1}",
        host=subject.host,
        verb="stop",
        queue="stop",
        payload={"container": subject.container},
        subject=subject,
    )


def _is_recent(subject: Subject) -> bool:
    return Subject.objects.filter(pk=subject.pk, ended_at__gt=_settled_before()).exists()


def _settled_before() -> Any:
    return Now() - timedelta(seconds=max(5.0, scaled(SETTLING_S)))


def _miss(host: Host, listed: set[str]) -> None:
    """What should live and is not in the listing at all: its home was emptied, or the disk replaced."""
    missing = Subject.objects.filter(
        host=host,
        state=states.SUBJECT_LIVE,
        started_at__lt=_settled_before(),
    ).exclude(name__in=listed)
    for subject in missing:
        why = say("%(node)s has no record of it any more; was its home emptied?", node=host.name)
        if Subject.objects.filter(pk=subject.pk, state=states.SUBJECT_LIVE).update(
            state=states.SUBJECT_UNKNOWN, explanation=why
        ):
            _tell_subject(subject.pk)


def orphans_record(host: Host, strays: Iterable[Stray], *, are_containers_known: bool) -> None:
    """Open a row for each stray, and close those that the node shows no more."""
    seen = {(stray.kind, stray.name): stray for stray in strays}
    open_rows = {(row.kind, row.name): row for row in host.orphans.filter(resolved_at=None)}
    fresh = [stray for key, stray in seen.items() if key not in open_rows]
    Orphan.objects.bulk_create(
        [
            Orphan(
                host=host,
                kind=stray.kind,
                name=stray.name,
                labels=stray.labels,
                explanation=stray.explanation,
                seen_at=Now(),
            )
            for stray in fresh
        ],
        ignore_conflicts=True,
    )
    still = [row.pk for key, row in open_rows.items() if key in seen]
    Orphan.objects.filter(pk__in=still).update(seen_at=Now())
    gone = [
        row.pk
        for key, row in open_rows.items()
        if key not in seen and (are_containers_known or row.kind != Orphan.Kind.CONTAINER)
    ]
    Orphan.objects.filter(pk__in=gone).update(resolved_at=Now())
    if fresh or gone:
        transaction.on_commit(
            lambda: signals.orphans_changed.send(sender=Orphan, host_id=host.pk), robust=True
        )


def _stray(row: dict[str, Any], explanation: str) -> Stray:
    kept = ("answer", "pid", "fence", "epoch", "plan_sha", "boot_id")
    labels = {name: _text(row[name]) for name in kept if row.get(name) not in (None, "")}
    return Stray(Orphan.Kind.SUBJECT, _text(row["subject"])[:120], explanation, labels)


def _labels_of(box: dict[str, Any]) -> dict[str, str]:
    pairs = (part.partition("=") for part in str(box.get("Labels", ""))[:8192].split(","))
    labels = {_text(name): _text(value) for name, _, value in pairs if name}
    return dict(list(labels.items())[:LABELS_CAP])


def _subject_of(box: dict[str, Any]) -> str:
    return _labels_of(box).get("fleet.subject", "")


def _text(value: Any) -> str:
    return foreign(storable_text(str(value), TEXT_CAP))


def _tell_subject(subject_id: int) -> None:
    transaction.on_commit(
        lambda: signals.subject_moved.send(
            sender=Subject, subject_id=subject_id, state=states.SUBJECT_UNKNOWN
        ),
        robust=True,
    )
