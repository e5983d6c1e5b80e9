"""Carries pulls of container images on, from the rows alone; safe to run twice or never."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from fleet.doorbell import ring
from fleet.execution import states
from fleet.execution.clock import database_now
from fleet.execution.dispatch import command_dispatch, subject_create
from fleet.execution.faults import scaled
from fleet.execution.models import Command, Host
from fleet.execution.output import command_sections
from fleet.execution.storable import storable_text
from fleet.models import Distribution, Holding, ImageHolding
from fleet.rules import holdings
from fleet.rules import images as rules
from fleet.rules.fanout import Limits
from fleet.rules.message import say
from fleet.services.images import FIELDS
from fleet.services.node_moves import rows_update
from fleet.services.trail import rule_actor, trail_add_each
from fleet.services.weights import LIVE, TOPIC
from fleet.services.weights_effects import START_S, read_output, stop_subject
from fleet.services.weights_tick import leaves_paused, limits_of

Steps = Mapping[str, Command]


def images_advance() -> int:
    """Carry every open pull and look one step on; return how many rows changed state."""
    rows = _open()
    if not rows:
        return 0
    steps, before = _steps(rows), {row.pk: (row.state, row.explanation) for row in rows}
    paused, now = leaves_paused(), database_now()
    pulling = [row for row in rows if row.state == rules.PULLING]
    changed = [row for row in pulling if _follow(row, steps, paused, now)]
    changed += _begin([row for row in rows if row not in changed], rows, paused)
    if changed:
        rows_update(ImageHolding, changed, *FIELDS)
        ring(TOPIC, *{row.image.topic for row in changed})
    moved = [row for row in changed if row.state != before[row.pk][0]]
    _tell(moved, before)
    return len(moved)


def _open() -> list[ImageHolding]:
    rows = ImageHolding.objects.select_for_update(of=("self",), skip_locked=True)
    rows = rows.select_related("node__host", "node__rack__leaf", "image", "subject__host")
    return list(rows.filter(state__in=(rules.WANTED, rules.PULLING)).order_by("pk"))


def _begin(
    rest: Sequence[ImageHolding], rows: Sequence[ImageHolding], paused: Mapping[int, str]
) -> list[ImageHolding]:
    """Start the next pulls within the limits; a look at a node pulls nothing and waits for nobody."""
    waiting = [row for row in rest if row.state == rules.WANTED]
    dead = {row.node.name for row in waiting if not _answers(row)}
    # One image of a node after the other: its disk and its link are one.
    busy = {row.node_id for row in rows if row.state == rules.PULLING}
    looks = [row for row in waiting if row.is_check_only and row.node.name not in dead]
    pulls: dict[str, ImageHolding] = {}
    for row in waiting:
        if not row.is_check_only and row.node_id not in busy:
            pulls.setdefault(row.node.name, row)
    copies = _copies() if pulls else []
    queue = rules.Queue(
        wanting={name: row.node.rack.leaf.number for name, row in pulls.items()},
        pulling=[
            row.node.rack.leaf.number
            for row in rows
            if row.state == rules.PULLING and not row.is_check_only
        ],
        from_store=[leaf for leaf, parent in copies if parent is None],
        from_nodes=[leaf for leaf, parent in copies if parent is not None],
        paused=paused,
        dead=dead,
    )
    start, why = rules.choose(queue, _limits() if pulls else Limits())
    begun = [*looks, *(pulls[name] for name in start)]
    for row in begun:
        _start(row)
    told = [row for name, row in pulls.items() if name in why and row.explanation != why[name]]
    for row in told:
        row.explanation = why[row.node.name]
    return [*begun, *told]


def _answers(row: ImageHolding) -> bool:
    host = row.node.host
    return host.reach == Host.Reach.OK and host.key_state == Host.Key.PINNED


def _copies() -> list[tuple[int, int | None]]:
    """The copies of weights that run, which load the same ways: the leaf of the child, and the parent."""
    rows = Holding.objects.filter(state=holdings.COPYING)
    return list(rows.values_list("node__rack__leaf__number", "parent_id"))


def _limits() -> Limits:
    """Pulls keep the limits of every distribution that is open; those are one person's word for the same links."""
    return Limits.strictest(map(limits_of, Distribution.objects.filter(state__in=LIVE)))


def _start(row: ImageHolding) -> None:
    row.attempt += 1
    argv = rules.pull_argv(row.image.name, row.image.digest, is_check=row.is_check_only)
    row.subject = subject_create(host=row.node.host, name=f"i{row.pk}-{row.attempt}-pull")
    command_dispatch(
        purpose=_purpose(row, "start"),
        host=row.node.host,
        verb="start",
        queue="start",
        subject=row.subject,
        payload={"argv": argv, "epoch": 1},
        deadline_s=START_S,
        topic=row.image.topic,
    )
    _move(row, rules.PULLING, say("Is verified.") if row.is_check_only else say("Is pulled."))


def _follow(row: ImageHolding, steps: Steps, paused: Mapping[int, str], now: datetime) -> bool:
    """Look what became of a pull; True when the row is to be written."""
    assert row.subject is not None
    if row.stop_for:
        return _stopping(row)
    start = steps.get(_purpose(row, "start"))
    if start is not None and start.is_settled and start.state != states.SUCCEEDED:
        why = start.explanation or str(start.state)
        _move(row, rules.FAILED, say("It could not be started: %(why)s", why=why))
        return True
    if row.subject.has_ended:
        return _judge(row, steps)
    if _is_late(row, now):
        row.stop_for, row.explanation = rules.FAILED, rules.late_text(row.is_check_only)
        return True
    why = paused.get(row.node.rack.leaf.number, "")
    if why and not row.is_check_only:
        row.stop_for, row.explanation = rules.WANTED, why
        return True
    return False


def _is_late(row: ImageHolding, now: datetime) -> bool:
    """Tell a pull that its node should have ended by itself, and a look that docker does not answer."""
    most_s = rules.LOOK_S if row.is_check_only else rules.PULL_S + START_S
    return (now - row.state_at).total_seconds() > scaled(most_s)


def _stopping(row: ImageHolding) -> bool:
    """A pull goes nowhere before its process is proved to be gone."""
    assert row.subject is not None
    if not row.subject.has_ended:
        stop_subject(row.subject, row.image.topic)
        return False
    _move(row, row.stop_for, row.explanation)
    return True


def _judge(row: ImageHolding, steps: Steps) -> bool:
    process = row.subject
    assert process is not None
    rc = process.rc if process.state == states.SUBJECT_DONE else None
    text = ""
    if rc is not None:
        command = steps.get(_purpose(row, "out"))
        if command is None:
            read_output(process, _purpose(row, "out"), row.image.topic)
            return False
        if not command.is_settled:
            return False
        section = command_sections(command).get("out")
        if command.state != states.SUCCEEDED or section is None or section.error:
            why = command.explanation or (section.error if section else "") or str(command.state)
            _move(row, rules.FAILED, say("What it printed could not be read: %(why)s", why=why))
            return True
        text = storable_text(section.text)
    found = rules.judge_pull(rc, text, row.image.digest)
    if found.is_ready:
        row.size_bytes, row.verified_at = found.size_bytes, process.ended_at
    _move(row, rules.READY if found.is_ready else rules.FAILED, found.why)
    return True


def _move(row: ImageHolding, to: str, why: str) -> None:
    if to not in rules.MOVES[row.state]:
        raise ValueError(f"image holding {row.pk}: {row.state} cannot become {to}")
    row.state, row.explanation, row.stop_for, row.state_at = to, why, "", database_now()


def _purpose(row: ImageHolding, step: str) -> str:
    return f"image:{row.pk}/{row.attempt}/{step}"


def _steps(rows: Sequence[ImageHolding]) -> dict[str, Command]:
    wanted = [_purpose(row, step) for row in rows for step in ("start", "out")]
    found = Command.objects.filter(purpose__in=wanted).select_related("output")
    return {row.purpose: row for row in found}


def _tell(moved: Sequence[ImageHolding], before: Mapping[int, tuple[str, str]]) -> None:
    changes = [
        (
            row.node.name,
            {"image": row.image.public_id, "state": before[row.pk][0]},
            {"image": row.image.public_id, "state": row.state},
        )
        for row in moved
    ]
    if changes:
        trail_add_each(
            actor=rule_actor("images"), verb="image.move", object_kind="node", changes=changes
        )
