"""One holding's next step from what its processes and commands tell: the copy, its check, their ends.

It sets fields of the locked row and returns where it goes; weights_tick.py writes all rows at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from fleet.execution import states
from fleet.execution.faults import scaled
from fleet.execution.models import Command, Subject
from fleet.execution.output import command_sections
from fleet.execution.storable import storable_text
from fleet.models import Holding
from fleet.rules import copier, holdings, shards
from fleet.rules.fanout import Limits
from fleet.rules.message import say
from fleet.services import weights_effects as effects
from fleet.services.holding_moves import HoldingMove

COPIES_MAX = 3  # of the same bad file: then it is no accident of the way
LOST_MAX = 8  # parents that went away under one child
READ_EVERY_S = 5.0
Steps = Mapping[str, Command]


def step(row: Holding, steps: Steps, limits: Limits, now: datetime) -> HoldingMove | None:
    """Return the move of this row, or None when nothing is to be written."""
    if row.stop_for:
        return _stopping(row)
    if row.state == holdings.WANTED:
        return _unchecked(row)
    if row.state == holdings.VERIFYING:
        return _verifying(row, steps)
    return _copying(row, steps, limits, now)


def _unchecked(row: Holding) -> HoldingMove | None:
    """What lies on the disk is looked at before anything is copied."""
    if row.needs is not None:
        return None
    row.attempt += 1
    effects.start_check(row)
    return HoldingMove(row, holdings.VERIFYING, say("Is being verified."))


def _stopping(row: Holding) -> HoldingMove | None:
    """A copy goes nowhere before its process is proved to be gone: two must never write one directory."""
    process = row.pull if row.state == holdings.COPYING else row.check_run
    if process is not None and not process.has_ended:
        effects.stop_subject(process, row.artefact.topic)
        return None
    _end_serve(row)
    if row.state == holdings.VERIFYING:
        row.needs = None
    return HoldingMove(row, row.stop_for, row.explanation)


def _end_serve(row: Holding) -> None:
    if row.serve is not None and not row.serve.has_ended:
        effects.stop_subject(row.serve, row.artefact.topic)


# -- the check


def _verifying(row: Holding, steps: Steps) -> HoldingMove | None:
    if row.check_run is None:  # asked by a person: the row waits for its start
        effects.start_check(row)
        return HoldingMove(row, row.state, row.explanation)
    if why := _start_failed(steps.get(effects.step_purpose(row, "check"))):
        return _failed(row, say("The check could not be started: %(why)s", why=why))
    if not row.check_run.has_ended:
        return None
    text, why = _output(row, row.check_run, steps)
    if text is None:
        return _failed(row, why) if why else None
    return _judge(row, text)


def _judge(row: Holding, text: str) -> HoldingMove:
    """Both must agree: what the node said of each file, and that it wrote the marker (exit code 0)."""
    wanted = shards.shards_of(row.artefact.manifest)
    process = row.check_run
    rc = process.rc if process and process.state == states.SUBJECT_DONE else None
    if rc is None:
        return _again(row, say("The check was lost with its process."))
    read = None if row.needs is None else set(row.needs)
    found = shards.read_found(text)
    if read is not None:  # the others were read by the check before the copy
        known = {one.name: one.sha256 for one in wanted if one.name not in read}
        found = {
            name: shards.FileFound(file.size, file.sha256 or known.get(name, ""))
            for name, file in found.items()
        }
    differences = shards.compare(wanted, found)
    bad = shards.bad_files(differences)
    row.findings = [{"name": d.name, "kind": d.kind, "text": d.text} for d in differences[:200]]
    if rc == 0 and not bad:
        return _ready(row)
    if rc not in (0, copier.DIFFERS_RC) or not bad:
        words = storable_text(text[-300:])
        return _failed(row, say("The check ended with %(rc)s: %(text)s", rc=rc, text=words))
    row.needs = bad
    return _bad(row, [d for d in differences if d.kind in shards.BAD])


def _ready(row: Holding) -> HoldingMove:
    row.needs, row.copies, row.is_check_only = [], 0, False
    row.bytes_done, row.bytes_per_s = row.artefact.total_bytes, None
    row.verified_at = row.check_run.ended_at if row.check_run else None
    return HoldingMove(row, holdings.READY, "")


def _bad(row: Holding, found: list[shards.Difference]) -> HoldingMove:
    first, count = found[0].text, len(found)
    more = say("%(first)s %(n)s files in all.", first=first, n=count) if count > 1 else first
    row.verified_at = None
    if row.is_check_only:
        return _failed(row, more)
    if row.copies >= COPIES_MAX:
        parent = row.parent.name if row.parent else say("the store")
        why = say(
            "Bad after %(n)s copies, the last from %(parent)s; verify that source. %(found)s",
            n=row.copies,
            parent=parent,
            found=more,
        )
        return _failed(row, why)
    return HoldingMove(row, holdings.WANTED, more)


def _again(row: Holding, why: str) -> HoldingMove:
    row.needs = None
    row.copies += 1
    return _failed(row, why) if row.copies > LOST_MAX else HoldingMove(row, holdings.WANTED, why)


# -- the copy


def _copying(row: Holding, steps: Steps, limits: Limits, now: datetime) -> HoldingMove | None:
    if row.pull is None:
        return _serving(row, steps, limits)
    if why := _start_failed(steps.get(effects.step_purpose(row, "pull"))):
        return _ended(row, copier.Ended(copier.PARENT, why))
    if row.pull.has_ended:
        return _pulled(row, steps)
    if row.serve is not None and row.serve.has_ended:
        row.stop_for = holdings.WANTED
        why = say("The daemon of %(node)s is gone.", node=row.parent.name if row.parent else "-")
        return HoldingMove(row, row.state, why)
    return _progress(row, steps, now)


def _serving(row: Holding, steps: Steps, limits: Limits) -> HoldingMove | None:
    """The child starts once the parent's daemon was started."""
    command = steps.get(effects.step_purpose(row, "serve"))
    if why := _start_failed(command):
        return _ended(row, copier.Ended(copier.PARENT, why))
    if row.serve is not None and row.serve.has_ended:
        why = copier.judge_serve(row.serve.rc, "")
        return _ended(row, copier.Ended(copier.PARENT, why))
    if command is None or command.state != states.SUCCEEDED:
        return None
    effects.start_pull(row, limits)
    return HoldingMove(row, row.state, row.explanation)


def _pulled(row: Holding, steps: Steps) -> HoldingMove | None:
    assert row.pull is not None
    rc = row.pull.rc if row.pull.state == states.SUBJECT_DONE else None
    if rc == 0 or rc is None:
        return _ended(row, copier.judge_pull(rc, ""))
    text, why = _output(row, row.pull, steps)
    if text is None and not why:
        return None
    return _ended(row, copier.judge_pull(rc, storable_text(text or why)))


def _ended(row: Holding, ended: copier.Ended) -> HoldingMove:
    """A copy that was whole is verified; one whose parent went away finds another; a full disk is told."""
    _end_serve(row)
    row.bytes_per_s = None
    if ended.kind == copier.DONE:
        row.attempt += 1
        effects.start_check(row)
        return HoldingMove(row, holdings.VERIFYING, say("Is being verified."))
    if ended.kind == copier.PARENT and row.copies <= LOST_MAX:
        return HoldingMove(row, holdings.WANTED, ended.text)
    return _failed(row, ended.text)


def _progress(row: Holding, steps: Steps, now: datetime) -> HoldingMove | None:
    """Read the bytes on the disk every few seconds; an answer that does not come leaves the last one, with its age."""
    last = steps.get(effects.step_purpose(row, f"bytes#{row.readings}"))
    if last is not None and not last.is_settled:
        return None
    moved = last is not None and _take_reading(row, last)
    if last is not None and (now - last.created_at).total_seconds() < scaled(READ_EVERY_S):
        return HoldingMove(row, row.state, row.explanation) if moved else None
    effects.read_progress(row)
    return HoldingMove(row, row.state, row.explanation)


def _take_reading(row: Holding, command: Command) -> bool:
    at = command.settled_at
    section = command_sections(command).get(copier.PROGRESS)
    if command.state != states.SUCCEEDED or section is None or at is None:
        return False
    if row.read_at is not None and at <= row.read_at:
        return False
    wanted = shards.shards_of(row.artefact.manifest)
    count = copier.bytes_of(section.text, wanted)
    row.file_now = copier.copying_of(section.text, wanted)[:300]
    if row.read_at is not None and row.bytes_done is not None:
        row.bytes_per_s = max(0.0, (count - row.bytes_done) / (at - row.read_at).total_seconds())
    row.bytes_done, row.read_at = count, at
    return True


# -- what they share


def _failed(row: Holding, why: str) -> HoldingMove:
    _end_serve(row)
    row.is_check_only = False
    return HoldingMove(row, holdings.FAILED, why)


def _start_failed(command: Command | None) -> str:
    """Say why a start did not happen; empty when it did, or may still."""
    if command is None or not command.is_settled or command.state == states.SUCCEEDED:
        return ""
    return command.explanation or str(command.state)


def _output(row: Holding, process: Subject, steps: Steps) -> tuple[str | None, str]:
    """Return what an ended process printed; (None, "") while it is being fetched, (None, why) when it cannot be."""
    command = steps.get(effects.step_purpose(row, "out"))
    if command is None:
        effects.read_output(process, effects.step_purpose(row, "out"), row.artefact.topic)
        return None, ""
    if not command.is_settled:
        return None, ""
    section = command_sections(command).get("out")
    if command.state != states.SUCCEEDED or section is None or section.error:
        why = command.explanation or (section.error if section else "") or str(command.state)
        return None, say("What it printed could not be read: %(why)s", why=why)
    return section.text, ""
