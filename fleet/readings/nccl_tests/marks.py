"""The lines around the table of nccl-tests: plan, devices, columns, summary, and how a run breaks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

_PLAN = re.compile(
    r"nThread (\d{1,6}) nGpus (\d{1,6}) minBytes (\d{1,20}) maxBytes (\d{1,20})"
    r" step: (\d{1,20})\((factor|bytes)\)"
)
_VALIDATION = re.compile(r"\bvalidation: (\d{1,9})\b")
_ITERS = re.compile(r"(?<!warmup )(?<!agg )\biters: (\d{1,9})\b")
_REDUCED = re.compile(r"[Rr]educing maxBytes to (\d{1,20})\b")
_RANK = re.compile(
    r"Rank +(\d{1,6}) +(?:Group +\d{1,6} +)?(?:Pid +(\d{1,10}) +)?on +(\S{1,253}) +device +(\d{1,4})"
    r" +\[([0-9A-Fa-fx:.]{1,20})\]"
)
_VERSION = re.compile(
    r"([nr]ccl-tests) version (\S{1,40})(?: nccl-headers=(\d{1,7}) nccl-library=(\d{1,7}))?"
)
_EDGE = re.compile(r"Collective test (starting|concluded): (\w{1,40})")
_OOB = re.compile(r"Out of bounds values {0,8}: {0,8}(\d{1,20})(?: {1,8}(OK|FAILED))?")
_AVERAGE = re.compile(
    r"Avg bus bandwidth {0,8}: {0,16}(\d{1,20}(?:\.\d{1,12})?(?:e[+-]\d{1,3})?)(?![\w.])"
    r"(?: {1,8}(OK|FAILED))?"
)
_COMMAND = re.compile(r"(?<![\w.])(\w{1,40})_perf(?![\w.])")

_CALL_FAILED = re.compile(r"Test (NCCL|CUDA|MPI) failure (\S{1,200}):(\d{1,6})(?: '([^']{0,400}))?")
_TEST_FAILED = re.compile(r"Test failure (\S{1,200}):(\d{1,6})")
_BROKEN = (
    "Segmentation fault", "exited on signal", "MPI_ABORT was invoked", "srun: error:",
    "slurmstepd: error:", "error while loading shared libraries", "command not found", "Bus error",
    "Aborted (core dumped)", "terminate called", "lost communication with a remote daemon",
    "not enough slots available", "CANCELLED AT", "non-zero exit",
    "unable to find the specified executable",
)  # fmt: skip
_STAMP = re.compile(
    r"\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.,\d]{0,10}(?:Z|[+-]\d\d:?\d\d)?\]?"
    r"|\[?\d\d:\d\d:\d\d[.,\d]{0,10}\]?|<std(?:out|err|diag)>"
)
_MPI_RANK = re.compile(r"^\[\d{1,6},(\d{1,6})\]<|^(\d{1,6}):\s")
_LEFT_OUT = re.compile(r"[#\s]*(?:\[?\.{2,}\]?|…|<?snip>?|\[?truncated\]?)[\s.]*")
_UNITS = frozenset(("(B)", "(elements)", "(us)", "(GB/s)"))
_NEEDLES = tuple(
    word.encode()
    for word in (
        *_BROKEN, " float", " half", " double", "int8", "int32", "int64", " char", " bf", " fp", " f8",
        "nThread", "Rank", "bounds", "bus bandwidth", "busbw", "Collective", "ccl-tests", "_perf",
        " failure ", "maxBytes", "(elements)", "out-of-place", "devices", "..", "…", "snip",
        "truncated", "Killed",
    )
)  # fmt: skip


class Plan(NamedTuple):
    """What a run is going to do: sizes in bytes; `validation` is None where the line was cut."""

    line: int
    min_bytes: int
    max_bytes: int
    step: int
    is_factor: bool
    iters: int | None
    validation: int | None

    def sizes(self) -> int | None:
        """How many sizes one sweep has; None when the plan never ends."""
        if self.max_bytes < self.min_bytes or self.step < 1:
            return None
        if not self.is_factor:
            return (self.max_bytes - self.min_bytes) // self.step + 1
        if self.step < 2 or self.min_bytes < 1:
            return None
        count, size = 0, self.min_bytes
        while size <= self.max_bytes:
            count, size = count + 1, size * self.step
        return count


class Seat(NamedTuple):
    """The place of one rank as the device list prints it."""

    rank: int
    pid: int | None
    host: str
    device: int
    bus: str
    name: str


class Columns(NamedTuple):
    """The layout that the header tells: whether a root stands in it, and what the last cell is."""

    has_root: bool
    last: str


@dataclass(frozen=True)
class Failure:
    """A line with which a run broke off."""

    line: int
    text: str
    error: str | None = None
    source: str | None = None
    mpi_rank: int | None = None


def parse_plan(text: str, line: int) -> tuple[int, Plan] | None:
    """Read `nThread 1 nGpus 1 minBytes 8 ... validation: 1`; also where it begins."""
    found = _PLAN.search(text)
    if found is None:
        return None
    checked, iters = _VALIDATION.search(text), _ITERS.search(text)
    return found.start(), Plan(
        line,
        int(found[3]),
        int(found[4]),
        int(found[5]),
        found[6] == "factor",
        int(iters[1]) if iters else None,
        int(checked[1]) if checked else None,
    )


def parse_seat(text: str) -> tuple[int, Seat] | None:
    """Read one line of the device list."""
    found = _RANK.search(text)
    if found is None:
        return None
    name = text[found.end() :].strip()[:80]
    pid = int(found[2]) if found[2] else None
    seat = Seat(int(found[1]), pid, found[3], int(found[4]), found[5], name)
    return found.start(), seat


def foreign_unit(words: list[str]) -> str | None:
    """Return the first unit of the table's header that is not the tool's own: its numbers then mean something else."""
    return next((w[:16] for w in words if w.startswith("(") and w not in _UNITS), None)


def parse_columns(words: list[str]) -> Columns | None:
    """Read the line of the table's header that names the columns, by words and not by place."""
    if "size" not in words[:8] or "algbw" not in words or "busbw" not in words[-6:]:
        return None
    last = next((w.lstrip("#") for w in reversed(words) if w.lstrip("#") in ("wrong", "error")), "")
    return Columns("root" in words, last)


def parse_reduced(text: str) -> int | None:
    """Return the size in bytes to which memory reduced the plan."""
    found = _REDUCED.search(text)
    return int(found[1]) if found else None


def parse_version(text: str) -> re.Match[str] | None:
    """Find tool, its version, and NCCL's version numbers of headers and library."""
    return _VERSION.search(text)


def parse_edge(text: str) -> re.Match[str] | None:
    """Find the sentence with which newer versions begin and end a run."""
    return _EDGE.search(text)


def parse_oob(text: str) -> re.Match[str] | None:
    """Find the count of values out of bounds and what was made of it."""
    return _OOB.search(text)


def parse_average(text: str, *, may_be_cut: bool) -> re.Match[str] | None:
    """Find the average in GB/s. At the open end of a text only six digits show that none is lost.

    Source: nccl-tests prints it as %g, which gives six significant digits and drops zeros.
    """
    found = _AVERAGE.search(text)
    if found is None or not may_be_cut or found.end() < len(text):
        return found
    digits = found[1].split("e")[0].replace(".", "").lstrip("0")
    return found if len(digits) >= 6 or found[2] else None


def parse_command(text: str) -> str | None:
    """Return the collective of a command such as `./build/all_reduce_perf -b 8`."""
    found = _COMMAND.search(text) if "_perf" in text else None
    return found[1] if found else None


def parse_failure(text: str, line: int) -> Failure | None:
    """Read the test's own sentences of failure, or those of a launcher or a shell."""
    said = text.strip()[:240]
    rank = _MPI_RANK.match(text)
    mpi_rank = int(rank[1] or rank[2]) if rank else None
    if " failure " in text:
        if found := _CALL_FAILED.search(text):
            error = found[4].partition(" / ")[0].strip() if found[4] else None
            return Failure(line, said, error or None, found[2], mpi_rank)
        if found := _TEST_FAILED.search(text):
            return Failure(line, said, None, found[1], mpi_rank)
    if said == "Killed" or said.endswith(" Killed") or any(word in text for word in _BROKEN):
        return Failure(line, said, None, None, mpi_rank)
    return None


def may_matter(raw: bytes) -> bool:
    """Tell quickly that a line cannot be one of these: most of a long log is somebody else's."""
    for needle in _NEEDLES:  # noqa: SIM110 - a generator costs twice the time
        if needle in raw:
            return True
    return False


def is_left_out(text: str) -> bool:
    """Tell the dots by which an author marks rows that were left out."""
    return len(text) < 64 and _LEFT_OUT.fullmatch(text) is not None


@lru_cache(maxsize=4096)
def speaker(prefix: str) -> str:
    """Return who printed a line: the launcher's mark before it, without stamps and hash signs."""
    return _STAMP.sub("", prefix[-256:]).strip(" \t#|>:-")
