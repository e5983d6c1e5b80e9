"""Freezes what a stop would destroy: command outputs and the stored log, as bytes with their SHA-256."""

import hashlib
from collections import deque
from datetime import datetime, timedelta

from django.db.models import Max, Q

from fleet.execution.models import Command, LogStream
from fleet.execution.output import command_sections
from fleet.execution.streams import StoredLine, chunk_lines, chunks_after
from fleet.models import Evidence
from fleet.rules.message import say
from releases.models import Launch, LaunchPosition

LOG_SPAN = timedelta(minutes=10)
LOG_LINES = 50_000
# What the sections of an evidence command are (launch_effects.py names them).
SECTION_TITLES = {
    "out": say("output of its engine"),
    "nvidia-smi-L": say("list of GPUs"),
    "compute-apps": say("processes on its GPUs"),
    "docker-ps": say("list of containers"),
    "docker-inspect": say("its container as docker sees it"),
}


def evidence_freeze(*, launch: Launch, title: str, origin: str, body: bytes) -> Evidence:
    """Store bytes as evidence of a launch; what comes from the same place under the same title is frozen once."""
    found = Evidence.objects.filter(
        object_kind="launch", object_id=launch.public_id, title=title, origin=origin
    ).first()
    return found or Evidence.objects.create(
        object_kind="launch",
        object_id=launch.public_id,
        title=title,
        origin=origin,
        body=body,
        size_bytes=len(body),
        sha256=hashlib.sha256(body).hexdigest(),
        is_rehearsal=launch.release.is_rehearsal,
    )


def command_freeze(*, launch: Launch, place: LaunchPosition, command: Command) -> list[Evidence]:
    """Freeze every section that a settled evidence command brought; nothing brought, nothing frozen."""
    return [
        evidence_freeze(
            launch=launch,
            title=say(
                "%(node)s: %(what)s", node=place.node.name, what=SECTION_TITLES.get(name, name)
            ),
            origin=f"{place.node.name}, {command.purpose}",
            body=section.body,
        )
        for name, section in command_sections(command).items()
    ]


def stored_log_freeze(*, launch: Launch, place: LaunchPosition, since: datetime) -> Evidence | None:
    """Freeze the last ten minutes of the stored log of one position (P11): it needs no node.

    `since`: when the loss began that this is about; a log that was frozen of it already is returned as it was.
    """
    title = say("%(node)s log of the last 10 min", node=place.node.name)
    kept = Evidence.objects.filter(
        object_kind="launch", object_id=launch.public_id, title=title, sealed_at__gte=since
    ).first()
    lines = [] if kept else last_lines(place)
    if not lines:
        return kept
    text = "".join(f"{line.number} {line.at.isoformat()} {line.text}\n" for line in lines)
    return evidence_freeze(
        launch=launch,
        title=title,
        origin=f"stream of {place.node.name}, lines {lines[0].number} to {lines[-1].number}",
        body=text.encode(),
    )


def last_lines(place: LaunchPosition) -> list[StoredLine]:
    """Return the last ten minutes that were stored of a position's log, at most `LOG_LINES`; empty without a log."""
    stream = LogStream.objects.filter(subject=place.subject_id).first()
    end = stream and stream.chunks.aggregate(at=Max("ended_at"))["at"]
    return _lines_since(stream, end - LOG_SPAN) if stream and end else []


def _lines_since(stream: LogStream, at: datetime) -> list[StoredLine]:
    """The newest lines since a time; a flood keeps its end, which is where the failure is."""
    lines: deque[StoredLine] = deque(maxlen=LOG_LINES)
    for chunk in chunks_after(stream, 0, only=Q(ended_at__gte=at)):
        lines.extend(line for line in chunk_lines(chunk) if line.at >= at)
    return list(lines)
