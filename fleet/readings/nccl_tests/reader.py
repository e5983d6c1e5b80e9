"""Streams the output of nccl-tests with the NCCL lines between it; memory is bounded.

NCCL's own lines go to the reader of NCCL logs: they are the proof of which network carried the test.
"""

from __future__ import annotations

from collections.abc import Iterable

from fleet.readings.nccl_log import NcclReader
from fleet.readings.nccl_tests import marks, runs
from fleet.readings.nccl_tests.nccom import NccomTable, is_nccom_header
from fleet.readings.nccl_tests.rows import find_row, parse_row
from fleet.readings.text import LINE_CAP_BYTES, Line, clean_line, decode

_UNREAD_CAP = 200
_SEATS_CAP = 65_536
_FAILURES_CAP = 64
_TAG = b" NCCL "
_BROKEN_BYTES = (b"Test NCCL failure", b"Out of bounds values", b"Avg bus bandwidth", b"nThread")
_LINE_CAP = 2048


class NcclTestsReader:
    """Reads lines of one or many processes, in the order in which they were captured."""

    def __init__(self) -> None:
        self.log = runs.RunLog()
        self.nccl = NcclReader()
        self.nccom: NccomTable | None = None
        self.failures: list[marks.Failure] = []
        self.failure_count = 0
        self.command: str | None = None
        self.root_warn: str | None = None
        self.root_warn_line: int | None = None
        self.unread: list[int] = []
        self.unread_count = 0
        self.lines = 0
        self.ends_open = False

    def feed(self, lines: Iterable[bytes], *, is_open: bool = False) -> None:
        """Read the next lines, without line ends. `is_open`: no line feed came after the last one."""
        batch = list(lines)
        self.nccl.feed(batch)
        last = len(batch) - 1
        for place, raw in enumerate(batch):
            self.lines += 1
            if _TAG in raw and not any(mark in raw for mark in _BROKEN_BYTES):
                self._read_nccl(raw)
                continue
            if not marks.may_matter(raw):
                if raw.strip(b" \t\r#"):
                    self._note_unread(self.lines)
                continue
            line = Line(self.lines, clean_line(decode(raw[:LINE_CAP_BYTES]))[:_LINE_CAP])
            may_be_cut = is_open and place == last
            if not self._read(line, may_be_cut=may_be_cut) and line.text.strip(" \t#"):
                self._note_unread(line.number)
        self.ends_open = is_open

    def finish(self) -> None:
        """Read what NCCL's reader held back."""
        self.nccl.finish()

    def _read_nccl(self, raw: bytes) -> None:
        if self.root_warn is None and b" NCCL WARN " in raw:
            text = clean_line(decode(raw[:LINE_CAP_BYTES]))
            message = text.partition(" NCCL WARN ")[2].strip()
            self.root_warn = message.removeprefix("Error :").strip()[:240]
            self.root_warn_line = self.lines
        head = raw[: min(raw.find(_TAG), 512)]
        # A row into which NCCL's line was written: neither can be trusted.
        if len(head) > 40 and find_row(decode(head).split()[:12]) is not None:
            self._note_torn(self.lines)

    def _read(self, line: Line, *, may_be_cut: bool) -> bool:
        text = line.text
        words = text.split()
        if not words:
            return True
        if (at := find_row(words)) is not None:
            return self._read_row(words, at, line, may_be_cut)
        if self._read_end(line, may_be_cut) or self._read_failure(line):
            return True
        if may_be_cut:
            return False
        return self._read_head(line, words)

    def _read_row(self, words: list[str], at: int, line: Line, may_be_cut: bool) -> bool:
        tag = marks.speaker(" ".join(words[: at - 2]))
        run = self.log.current(tag)
        has_root = run.columns.has_root if run is not None and run.columns is not None else None
        row = None if may_be_cut else parse_row(words, at, line.number, has_root=has_root)
        if row is not None:
            self.log.add_row(row, marks.speaker(row.tag))
        elif self.nccom is None or not self.nccom.take(line, may_be_cut=may_be_cut):
            self._note_torn(line.number, tag)
            return False
        return True

    def _read_end(self, line: Line, may_be_cut: bool) -> bool:
        """Read the summary and the sentence that concludes a run."""
        text = line.text
        if found := marks.parse_oob(text):
            if may_be_cut and not found[2]:
                return False
            run = self._run(text, found.start(), runs.CHECKED, line)
            run.oob = int(found[1]) + (run.oob or 0)
            run.oob_word = "FAILED" if run.oob_word == "FAILED" else found[2]
            run.summary_lines.append(line.number)
            return True
        if self.nccom is not None and self.nccom.take(line, may_be_cut=may_be_cut):
            return True
        if found := marks.parse_average(text, may_be_cut=may_be_cut):
            run = self._run(text, found.start(), runs.AVERAGED, line)
            run.averages.append(float(found[1]))
            run.average_word = "FAILED" if run.average_word == "FAILED" else found[2]
            run.summary_lines.append(line.number)
            return True
        found = marks.parse_edge(text)
        if found and found[1] == "concluded":
            run = self._run(text, found.start(), runs.CONCLUDED, line)
            run.concluded = found[2]
            return True
        return False

    def _read_head(self, line: Line, words: list[str]) -> bool:
        """Read what stands before the table."""
        text = line.text
        if is_nccom_header(words):
            self.nccom = self.nccom or NccomTable()
            return True
        if found := marks.parse_version(text):
            run = self._run(text, found.start(), runs.VERSION, line)
            run.tool, run.versions = found[1], (found[2], found[3], found[4])
            return True
        if (found := marks.parse_edge(text)) is not None:
            self._run(text, found.start(), runs.STARTED, line).starts = found[2]
            return True
        if (plan := marks.parse_plan(text, line.number)) is not None:
            run = self._run(text, plan[0], runs.PLANNED, line)
            run.plan, run.max_bytes = plan[1], plan[1].max_bytes
            return True
        if (seat := marks.parse_seat(text)) is not None:
            run = self._run(text, seat[0], runs.DEVICES, line)
            if len(run.seats) < _SEATS_CAP:
                run.seats.append(seat[1])
            return True
        if (columns := marks.parse_columns(words)) is not None:
            prefix = text[: text.find("size")]
            self._run(prefix, len(prefix), runs.TABLE, line).columns = columns
            return True
        return self._read_aside(line, words)

    def _read_aside(self, line: Line, words: list[str]) -> bool:
        run = self.log.last()
        if marks.is_left_out(line.text):
            if run is not None:
                run.left_out.append(line.number)
            return True
        if run is not None and (reduced := marks.parse_reduced(line.text)) is not None:
            run.max_bytes = reduced
            return True
        if self.command is None and (command := marks.parse_command(line.text)) is not None:
            self.command = command
            return True
        if "(elements)" in words:
            if run is not None and (unit := marks.foreign_unit(words)) is not None:
                run.foreign_unit, run.unit_line = unit, line.number
            return True
        return "out-of-place" in words or "Using devices" in line.text

    def _read_failure(self, line: Line) -> bool:
        failure = marks.parse_failure(line.text, line.number)
        if failure is None:
            return False
        self.failure_count += 1
        if len(self.failures) < _FAILURES_CAP:
            self.failures.append(failure)
        return True

    def _run(self, text: str, start: int, stage: int, line: Line) -> runs.TestRun:
        return self.log.at(marks.speaker(text[:start]), stage, line.number)

    def _note_torn(self, number: int, tag: str | None = None) -> None:
        run = (self.log.current(tag) if tag is not None else None) or self.log.last()
        if run is not None and len(run.torn) < _UNREAD_CAP:
            run.torn.append(number)

    def _note_unread(self, number: int) -> None:
        self.unread_count += 1
        if len(self.unread) < _UNREAD_CAP:
            self.unread.append(number)
