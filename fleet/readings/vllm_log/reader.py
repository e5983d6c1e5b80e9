"""Follows one node's engine log line by line: phase transitions, numbers, failures.

It keeps no lines and asks no clock; times are the log's own words.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import NamedTuple

from fleet.readings.log_forms import ERROR, OwnMarks, read_marks
from fleet.readings.log_prefix import Layout, parse_speaker
from fleet.readings.text import progress_steps
from fleet.readings.vllm_log.facts import FactTaker
from fleet.readings.vllm_log.failures import Failure, pick_cause, read_failure
from fleet.readings.vllm_log.phases import PHASES, framed_phase, opened_phase, phase_rank

_FAILURES_CAP = 64
_TEXT_CAP = 400
_UNREAD_CAP = 200
_RANKS_CAP = 4096
_UNKNOWN_LAYOUT = Layout(0, 8, 1, 1, 1)
_NAME = re.compile(r"\(([A-Za-z_]\w{0,63})")
_HEADER = re.compile(r"^(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) [\d-]{5} [\d:]{8} \[?[^\]]{1,80}\] ?")
_TORCH_HEADER = re.compile(r"^(?:\[rank\d{1,5}\]:)?\[?[IWEF]\d{3,4} [\d:.]{8,18} [^\]]{1,120}\] ?")
_SERVING = re.compile(r"ERROR [\d-]{5} [\d:]{8} \[?serving\w{0,40}\.py:")
_OF_A_REQUEST = frozenset(
    f"exception:{name}"
    for name in (
        "ValueError",
        "VLLMValidationError",
        "ValidationError",
        "TemplateError",
        "JSONDecodeError",
    )
)
_TRACE_TEXTS = ("  File ", "    ", "Traceback (most recent")


# The last one is the shell's.
_STOPPED = ("Application shutdown complete.", "Waiting for application shutdown.", "Terminated")
# What a journal, a cluster or a launcher puts before each line; a host's name only before what an engine prints.
_WRAP = re.compile(
    r"(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \S{1,253} [\w./@-]{1,64}\[\d{1,10}\]: "
    r"|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\S{0,16} [\w.-]{1,253} [\w./@-]{1,64}\[\d{1,10}\]: "
    r"|\[pod/[\w./-]{1,253}\] |[a-z][\w.-]{0,62} +\| "
    r"|(?=[\w.-]{0,62}\d)[a-zA-Z][\w.-]{1,62}: ?(?=\([A-Z]|(?:INFO|WARNING|ERROR|DEBUG|CRITICAL)[: ]|Traceback ))"
)


class Transition(NamedTuple):
    """A phase that has begun: which, at which line, and the log's own time of it."""

    phase: str
    line: int
    message_at: str | None


class PhaseReader:
    """Reads the lines of one engine's log in order.

    `layout` gives ranks their numbers in the unit; without it only lone tensor ranks are numbered.
    `phase` is where an earlier reader of the same log stopped, so that stages stay right.
    """

    def __init__(self, layout: Layout | None = None, *, phase: str | None = None) -> None:
        self.facts = FactTaker()
        self.transitions: list[Transition] = []
        self.lines = 0
        self.c10d_warnings = 0
        self.first_error_speaker: str | None = None
        self.speakers: dict[str, int | None] = {}
        self.failed_core_procs: str | None = None
        self.restarts = 0
        self.refused_connections = 0
        self.refused_requests: list[int] = []
        self.shutdown_line: int | None = None
        self.stopped_line: int | None = None  # uvicorn's own last words, whoever asked for them
        self.cuda_error_ranks: set[int] = set()
        self.has_traceback = False
        self.unread: list[int] = []
        self._layout = layout
        self._begun = phase
        self._failures: dict[str, Failure] = {}
        self._ranks: dict[str, list[int]] = {}
        self._frame: str | None = None
        self._has_nccl = False

    @property
    def phase(self) -> str | None:
        """The phase that runs now, None before any mark was seen."""
        return self.transitions[-1].phase if self.transitions else self._begun

    @property
    def failures(self) -> tuple[Failure, ...]:
        """All kinds of failure in the order in which they were first seen."""
        return tuple(self._failures.values())

    @property
    def cause(self) -> Failure | None:
        """The failure that most likely started the others."""
        return pick_cause(self.failures)

    def ranks_of(self, kind: str) -> list[int]:
        """Return the ranks whose own lines tell of a kind of failure, in the order of telling."""
        return list(self._ranks.get(kind, ()))

    def feed(self, text: str) -> tuple[Transition, ...]:
        """Read the next line; return the phases that it opens."""
        self.lines += 1
        if not text:
            return ()
        if " NCCL INFO " in text:
            return self._feed_nccl(text)
        # What a serving engine prints all day: requests and throughput.
        if " HTTP/1." in text or ": Avg prompt throughput:" in text:
            return ()
        opened: list[Transition] = []
        for step in progress_steps(text) or [""]:
            opened += self._feed_step(step)
        return tuple(opened)

    def _feed_nccl(self, text: str) -> tuple[Transition, ...]:
        if self._has_nccl:
            return ()
        self._has_nccl = True
        return self._open("rendezvous", None)

    def _feed_step(self, text: str) -> tuple[Transition, ...]:
        if (wrap := _WRAP.match(text)) is not None:
            text = text[wrap.end() :]
        marks = read_marks(text, self._layout or _UNKNOWN_LAYOUT)
        speaker = self._note_speaker(marks)
        message = _HEADER.sub("", marks.text[:2048], count=1)
        message = _TORCH_HEADER.sub("", message, count=1)
        if "[c10d] The client socket" in message:
            self.c10d_warnings += 1
            self.refused_connections += "Connection refused" in message
        if "API server: shutdown triggered" in message and self.shutdown_line is None:
            self.shutdown_line = self.lines
        if self.stopped_line is None and message.rstrip().endswith(_STOPPED):
            self.stopped_line = self.lines
        self._note_marks(marks, message)
        told = self.facts.take(message, speaker)
        told = self._note_failure(marks, message, speaker) or told
        phase = opened_phase(message)
        is_formed = marks.level is not None or marks.speaker or message.startswith(_TRACE_TEXTS)
        if not (told or phase or is_formed or message.isspace() or not message):
            self.unread.append(self.lines)
            del self.unread[_UNREAD_CAP:]
        if phase is None or message.startswith(_TRACE_TEXTS):
            return ()
        starts = self.restarts
        opened = self._open(phase, marks.message_at)
        if self.restarts > starts:
            # The line that begins a second start is the first to tell of it.
            self.facts.take(message, speaker)
        return opened

    def _note_marks(self, marks: OwnMarks, message: str) -> None:
        """Note what belongs to a failure without naming it."""
        if "Traceback (most recent call last)" in message:
            self.has_traceback = True
        elif message.startswith("CUDA kernel errors might be") or "CUDA error: " in message:
            rank = self._rank(marks)
            if rank is not None and len(self.cuda_error_ranks) < _RANKS_CAP:
                self.cuda_error_ranks.add(rank)

    def _open(self, phase: str, message_at: str | None) -> tuple[Transition, ...]:
        if phase == "config" and phase_rank(self.phase) > phase_rank("rendezvous"):
            # The same stream carries a second start.
            self.restarts += 1
            self._failures.clear()
            self._ranks.clear()
            self.shutdown_line = self.stopped_line = None
            # What the first start measured says nothing of the second.
            self.facts = FactTaker()
            self.cuda_error_ranks.clear()
            self.has_traceback = False
            self.failed_core_procs = self.first_error_speaker = self._frame = None
        elif phase_rank(phase) <= phase_rank(self.phase):
            return ()
        opened = Transition(phase, self.lines, message_at)
        self.transitions.append(opened)
        del self.transitions[: -4 * len(PHASES)]
        return (opened,)

    def _note_speaker(self, marks: OwnMarks) -> str:
        found = _NAME.match(marks.speaker)
        name = found[1] if found else ""
        if name and name not in self.speakers and len(self.speakers) < 1024:
            self.speakers[name] = self._rank(marks)
        return name

    def _rank(self, marks: OwnMarks) -> int | None:
        said = parse_speaker(marks.speaker, self._layout or _UNKNOWN_LAYOUT)
        if self._layout is None and any(p in marks.speaker for p in ("_PP", "_DP")):
            return None
        return said.rank

    def _note_failure(self, marks: OwnMarks, message: str, speaker: str) -> bool:
        if frame := framed_phase(message):
            self._frame = frame
        if "Failed core proc(s): " in message:
            self.failed_core_procs = message.partition("Failed core proc(s): ")[2][:200]
        if not _may_tell_failure(marks, message):
            return False
        if marks.level == ERROR and self.first_error_speaker is None:
            self.first_error_speaker = speaker
        found = None if message.startswith(_TRACE_TEXTS) else read_failure(message)
        if found is None:
            return False
        kind, weight, worker = found
        if self.phase == "ready" and kind in _OF_A_REQUEST and _SERVING.match(marks.text):
            # Whoever asked, asked wrongly; the engine goes on.
            self.refused_requests.append(self.lines)
            del self.refused_requests[_UNREAD_CAP:]
            return True
        if self.shutdown_line is not None:
            # Whoever stops an engine sees its requests and its core go; that is no fault.
            weight = "echo"
        rank = self._rank(marks)
        if rank is not None and rank not in self._ranks.setdefault(kind, []):
            self._ranks[kind].append(rank)
        seen = self._failures.get(kind)
        if seen is not None:
            self._failures[kind] = replace(seen, count=seen.count + 1)
        elif len(self._failures) < _FAILURES_CAP:
            text = message.strip()[:_TEXT_CAP]
            self._failures[kind] = Failure(
                kind, weight, self.stage, text, self.lines, speaker, worker
            )
        return True

    @property
    def stage(self) -> str | None:
        """Where the start stands: what the lines told, or a traceback's frame when they miss."""
        if self._frame == "capture" and phase_rank(self.phase) < phase_rank("api"):
            return "capture"
        if self.phase is None:
            return self._frame
        return self.phase


def _may_tell_failure(marks: OwnMarks, message: str) -> bool:
    """Advice of healthy starts is INFO or WARNING; only NCCL and a lost core warn of real faults."""
    if marks.level is None or marks.level == ERROR:
        return True
    return " NCCL WARN " in marks.text or "engine core exited unexpectedly" in message
