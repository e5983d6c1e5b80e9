"""Reads what the nodes of a launch logged since the last tick: phases, world size, what went wrong.

State between ticks is in the position's row, so any conductor goes on where another stopped.
"""

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from django.db.models import Q

from fleet.execution.models import LogStream
from fleet.execution.streams import StoredLine, chunk_lines, chunks_after, lines_after
from fleet.readings.log_prefix import Layout
from fleet.readings.vllm_log import Failure, PhaseReader, phase_rank
from releases.models import Launch, LaunchPhase, LaunchPosition
from releases.rules import launch as rules

LINES_A_TICK = 20_000
# Failures after which no rank of the unit can go on. Other errors may belong to one request.
FATAL_KINDS = frozenset({"worker_died", "engine_fatal", "engine_dead", "watchdog", "rpc_timeout"})
_WEIGHTS = ("cause", "exception", "sign", "echo")
_WORLD = re.compile(r"\bin world size (\d{1,5})\b")


def positions_read(launch: Launch) -> None:
    """Read the new lines of every position; a ready unit's lines only where errors are."""
    places = list(launch.positions.exclude(subject=None))
    streams = {
        s.subject_id: s
        for s in LogStream.objects.filter(subject__in=[p.subject_id for p in places])
    }
    for place in places:
        stream = streams.get(place.subject_id)
        if stream and stream.line_count > place.read_to_line:
            _read(place, stream, only_errors=launch.state == rules.READY)


def phase_open(place: LaunchPosition, name: str, at: datetime) -> None:
    """Close the running phase of a position and open the next; a phase is opened once."""
    place.phases.filter(ended_at=None).exclude(name=name).update(ended_at=at)
    LaunchPhase.objects.get_or_create(position=place, name=name, defaults={"started_at": at})


def phases_close(launch: Launch, at: datetime) -> None:
    """End every phase of a launch that is still open."""
    LaunchPhase.objects.filter(position__launch=launch, ended_at=None).update(ended_at=at)


def _read(place: LaunchPosition, stream: LogStream, *, only_errors: bool) -> None:
    if only_errors:
        lines = list(_lines_of_error_chunks(stream, place.read_to_line))
        place.read_to_line = stream.line_count
    else:
        lines = lines_after(stream, place.read_to_line, LINES_A_TICK)
        place.read_to_line = lines[-1].number if lines else place.read_to_line
    reader = PhaseReader(_layout(stream), phase=place.phase or None)
    for number, line in enumerate(lines):
        for opened in reader.feed(line.text):
            _advance(place, opened.phase, lines[number].at)
        if found := _WORLD.search(line.text):
            place.reader_state["world_size"] = int(found[1])
    _note_failures(place.reader_state, reader.failures)
    _note_numbers(place.reader_state, reader)
    place.save(update_fields=["phase", "read_to_line", "reader_state"])


def _layout(stream: LogStream) -> Layout | None:
    return Layout(**stream.layout) if stream.layout else None


def _lines_of_error_chunks(stream: LogStream, after: int) -> Iterator[StoredLine]:
    for chunk in chunks_after(stream, after, only=Q(error_count__gt=0)):
        yield from (line for line in chunk_lines(chunk) if line.number > after)


def _advance(place: LaunchPosition, phase: str, at: datetime) -> None:
    if phase_rank(phase) > phase_rank(place.phase or None):
        place.phase = phase
        phase_open(place, phase, at)


def _note_failures(state: dict[str, Any], failures: tuple[Failure, ...]) -> None:
    """Keep the first fatal line and the likeliest cause, whichever tick saw them."""
    for failure in failures:
        if failure.kind in FATAL_KINDS:
            state.setdefault("fatal", {"kind": failure.kind, "text": failure.text})
        kept = state.get("cause")
        if kept is None or _WEIGHTS.index(failure.weight) < _WEIGHTS.index(kept["weight"]):
            state["cause"] = {
                "kind": failure.kind,
                "weight": failure.weight,
                "stage": failure.stage,
                "text": failure.text,
            }


def _note_numbers(state: dict[str, Any], reader: PhaseReader) -> None:
    numbers = state.setdefault("numbers", {})
    for name in reader.facts.names():
        numbers[name] = reader.facts.value(name)
    for name in ("shards", "shapes"):  # (done, all); what the launch grid shows as percent
        if pair := getattr(reader.facts, name):
            state[name] = list(pair)
