"""Runs of nccl-tests as they come out of a stream of lines: one after another, or woven together.

Each launcher's mark is a stream of its own, so that `[1,0]<stdout>:` and `[1,1]<stdout>:` keep apart.
Within one stream, what comes too early for the stage a run has reached belongs to another run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from fleet.readings.nccl_tests.marks import Columns, Plan, Seat
from fleet.readings.nccl_tests.rows import Row

VERSION, STARTED, PLANNED, DEVICES, TABLE, ROWS, CHECKED, AVERAGED, CONCLUDED = range(9)
_ROUNDING_BYTES = 16  # sizes are rounded down to this times the ranks
_RUNS_CAP = 512
_ROWS_CAP = 20_000


@dataclass
class TestRun:
    """One run: what its lines said. Nothing here is worked out from rows that are not there."""

    tag: str
    line: int
    stage: int = VERSION
    tool: str | None = None
    versions: tuple[str | None, str | None, str | None] = (None, None, None)
    starts: str | None = None
    concluded: str | None = None
    plan: Plan | None = None
    max_bytes: int | None = None
    seats: list[Seat] = field(default_factory=list)
    columns: Columns | None = None
    rows: list[Row] = field(default_factory=list)
    oob: int | None = None
    oob_word: str | None = None
    averages: list[float] = field(default_factory=list)
    average_word: str | None = None
    summary_lines: list[int] = field(default_factory=list)
    torn: list[int] = field(default_factory=list)
    left_out: list[int] = field(default_factory=list)
    foreign_unit: str | None = None
    unit_line: int = 0
    is_woven: bool = False
    is_capped: bool = False
    steps: dict[int, int] = field(default_factory=dict)

    def enter(self, stage: int) -> None:
        """Note a step; one that comes twice in a run tells another job."""
        self.stage = max(self.stage, stage)
        self.steps[stage] = self.steps.get(stage, 0) + 1

    @property
    def jobs(self) -> int:
        """How many jobs must have printed what stands here; more than one are woven together."""
        counts = [n for stage, n in self.steps.items() if stage not in (DEVICES, ROWS)]
        first_ranks = sum(1 for seat in self.seats if seat.rank == 0)
        return max([1, first_ranks, *counts])

    @property
    def average(self) -> float | None:
        """The printed average in GB/s; None where jobs print different ones."""
        return self.averages[0] if len(set(self.averages)) == 1 else None

    @property
    def listed(self) -> bool:
        """Whether the device list was seen to its end."""
        return bool(self.seats) and self.stage >= TABLE

    @property
    def missing_ranks(self) -> list[int]:
        """Ranks below the highest one that the device list lacks."""
        there = {seat.rank for seat in self.seats}
        return [r for r in range(min(max(there, default=-1), 65_535)) if r not in there][:256]

    @property
    def ranks(self) -> int | None:
        """How many ranks took part; None unless the whole device list stands in the text."""
        if not self.listed or self.missing_ranks or self.is_repeated:
            return None
        return len(self.seats)

    @property
    def is_repeated(self) -> bool:
        """Whether a rank stands twice in the device list: two jobs print into one text."""
        return len({seat.rank for seat in self.seats}) < len(self.seats)

    @property
    def hosts(self) -> list[str]:
        return list(dict.fromkeys(seat.host for seat in self.seats))

    def sweeps(self) -> list[list[Row]]:
        """Split rows where type, operation or root changes, and where sizes begin again."""
        found: list[list[Row]] = []
        for row in self.rows:
            last = found[-1][-1] if found else None
            if last is None or row.group != last.group or row.size < last.size:
                found.append([])
            found[-1].append(row)
        return found

    @property
    def is_monotonic(self) -> bool:
        """Whether sizes never fall while type, operation and root stay."""
        return all(a.size <= b.size or a.group != b.group for a, b in pairwise(self.rows))

    @property
    def is_interleaved(self) -> bool:
        """Whether rows of more than one run stand in this table."""
        return self.is_woven or self.is_repeated or self._has_twins() or not self._has_cycles()

    def _has_twins(self) -> bool:
        """Sizes that stand twice in a row and that rounding does not explain."""
        grain = _ROUNDING_BYTES * max(self.ranks or 4096, 1)
        if self.plan is not None and not self.plan.is_factor and self.plan.step < grain:
            return False
        return any(
            a.size == b.size > 0 and a.group == b.group and not self._is_single_size()
            for a, b in pairwise(self.rows)
        )

    def _is_single_size(self) -> bool:
        """One size measured several times (-b and -e alike, -N cycles)."""
        plan = self.plan
        return plan is not None and plan.sizes() == 1

    def _has_cycles(self) -> bool:
        """Whether sizes that begin again do so as `-N` does: the same sizes each time, from the first."""
        by_group: dict[object, list[tuple[int, ...]]] = {}
        order: list[object] = []
        for sweep in self.sweeps():
            group = sweep[0].group
            if not order or order[-1] != group:
                order.append(group)
            by_group.setdefault(group, []).append(tuple(row.size for row in sweep))
        if len(order) != len(by_group):
            return False
        return all(
            all(sizes == sweeps[0] for sizes in sweeps[1:-1])
            and sweeps[-1] == sweeps[0][: len(sweeps[-1])]
            for sweeps in by_group.values()
        )

    def mean_busbw(self) -> float | None:
        """Work out the mean of all bus bandwidths read, in GB/s, as the tool does for its average."""
        got = [c.busbw for row in self.rows for c in (row.oop, row.ip) if c.busbw is not None]
        return sum(got) / len(got) if got else None

    def wrong(self) -> int | float | None:
        """Sum the cells of #wrong; None where they are no count or were not filled."""
        got = [c.wrong for row in self.rows for c in (row.oop, row.ip) if c.wrong is not None]
        if not got or self.last_cell == "error" or self.validated is False:
            return None
        return sum(got)

    @property
    def last_cell(self) -> str:
        """What the last cell of a row is; without a header its numbers tell an error of values."""
        if self.columns is not None and self.columns.last:
            return self.columns.last
        cells = [c.wrong for row in self.rows for c in (row.oop, row.ip)]
        return "error" if any(isinstance(c, float) for c in cells) else "wrong"

    @property
    def validated(self) -> bool | None:
        """Whether values were checked; None without the plan that tells it, or before any row."""
        if self.plan is None or self.plan.validation is None:
            return None
        if self.plan.validation > 0 and not self.rows:
            return None
        cells = [c.wrong for row in self.rows for c in (row.oop, row.ip)]
        return self.plan.validation > 0 and any(c is not None for c in cells)


class RunLog:
    """Sorts marks and rows into runs by who printed them and by how far the run is."""

    def __init__(self) -> None:
        self.runs: list[TestRun] = []
        self.is_full = False
        self._by_tag: dict[str, TestRun] = {}

    def at(self, tag: str, stage: int, line: int) -> TestRun:
        """Return the run of a speaker that a line of a stage belongs to; open one when it must be new."""
        run = self._by_tag.get(tag)
        if run is not None and (_is_next(run, stage) or _overlaps(run, stage)):
            run.is_woven |= not _is_next(run, stage)
            run.enter(stage)
            return run
        new = TestRun(tag, line)
        new.enter(stage)
        if len(self.runs) < _RUNS_CAP:
            self.runs.append(new)
            self._by_tag[tag] = new
        else:
            self.is_full = True
        return new

    def add_row(self, row: Row, tag: str) -> None:
        run = self.at(tag, ROWS, row.line)
        if len(run.rows) < _ROWS_CAP:
            run.rows.append(row)
        else:
            run.is_capped = True

    def current(self, tag: str) -> TestRun | None:
        """Return the last run of a speaker."""
        return self._by_tag.get(tag)

    def last(self) -> TestRun | None:
        return self.runs[-1] if self.runs else None

    def measured(self) -> Iterator[TestRun]:
        """Runs that told more than a version."""
        yield from (run for run in self.runs if run.stage > VERSION)


def _overlaps(run: TestRun, stage: int) -> bool:
    """Twice the same step before any row, or rows behind a summary: two jobs print at once."""
    return run.stage < ROWS or stage >= ROWS


def _is_next(run: TestRun, stage: int) -> bool:
    if stage in (DEVICES, ROWS):
        return run.stage <= stage
    return run.stage < stage
