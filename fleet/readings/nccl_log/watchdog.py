"""torch's watchdog: which rank waited for which collective, and how far each rank had come.

The number in the first bracket of a line is neither pid nor rank. `last completed` may never have
been set. A rank that asks for help is mostly a victim; who is behind, is behind in `enqueued`.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_TIMEOUT = re.compile(
    r"Watchdog caught collective operation timeout:\s*WorkNCCL\(SeqNum=(\d{1,19}), OpType=(\w{1,64}), "
    r"NumelIn=(\d{1,19}),\s*NumelOut=(\d{1,19}), Timeout\(ms\)=(\d{1,15})\)(?: ran for (\d{1,15}))?"
)
_STATUS = re.compile(
    r"last enqueued (?:NCCL )?work: (-?\d{1,20})"
    r"(?:,\s*last started (?:NCCL )?work: (-?\d{1,20}))?"
    r",\s*last completed (?:NCCL )?work: (-?\d{1,20})"
)
_MARK = re.compile(r"\[rank(\d{1,6})\]:")
_GROUP_RANK = re.compile(
    r"\[(?:PG (?:ID )?(\d{1,6})(?: PG GUID [^\]]{1,60}?)?,? )?Rank (\d{1,6})\]"
)
_GROUP = re.compile(r"\bPG ID (\d{1,6})\b")
_REPEATED = re.compile(r"\[repeated (\d{1,6})x across cluster\]")
_UNSET = 2**63
_CUT_CAP = 64
# Half a message: the rest stands on the next lines.
_OPEN_STARTS = ("Watchdog caught collective operation timeout", "last enqueued")


class Timeout(NamedTuple):
    """One rank's watchdog line. Milliseconds as configured and as passed."""

    rank: int | None
    group_rank: int | None
    group: int | None
    seq: int
    op: str
    numel_in: int
    numel_out: int
    timeout_ms: int
    ran_ms: int | None
    line: int


class Progress(NamedTuple):
    """How far one rank of one group had come; None where the number was never set."""

    rank: int | None
    group: int | None
    enqueued: int | None
    started: int | None
    completed: int | None
    line: int


class WatchdogLog:
    """Collects watchdog lines; at most one timeout and one progress a group and rank are kept."""

    _CAP = 16_384

    def __init__(self) -> None:
        self.timeouts: dict[tuple[int | None, int | None], Timeout] = {}
        self.progress: dict[tuple[int | None, int | None], Progress] = {}
        self.repeated = 0
        self.cut: list[tuple[int | None, int]] = []

    def take(self, text: str, line: int) -> bool:
        """Take what a line tells, several messages in it included; return whether it told any."""
        told = False
        if "repeated" in text and (repeated := _REPEATED.search(text)):
            self.repeated += int(repeated[1])
        if "Watchdog" in text:
            for found in _TIMEOUT.finditer(text):
                self._put(self.timeouts, _timeout(text, found, line))
                told = True
        if "last enqueued" in text:
            for found in _STATUS.finditer(text):
                self._put(self.progress, _progress(text, found, line))
                told = True
        return told

    def take_cut(self, text: str, line: int) -> bool:
        """Take the beginning of a time-out whose operation and numbers did not follow."""
        at = text.find(_OPEN_STARTS[0])
        if at < 0:
            return False
        if len(self.cut) < _CUT_CAP:
            self.cut.append((_ranks(text, at)[0], line))
        return True

    def behind(self) -> dict[int | None, list[int]]:
        """Return by group the ranks that had entered fewer collectives than the foremost."""
        slow: dict[int | None, list[int]] = {}
        for group in {p.group for p in self.progress.values()}:
            entered = {
                p.rank: p.enqueued
                for p in self.progress.values()
                if p.group == group and p.rank is not None and p.enqueued is not None
            }
            most = max(entered.values(), default=None)
            found = sorted(r for r, n in entered.items() if most is not None and n < most)
            if found:
                slow[group] = found
        return slow

    def _put(self, kept: dict, found: Timeout | Progress) -> None:
        key = (found.group, found.rank)
        if key not in kept and len(kept) < self._CAP:
            kept[key] = found


def is_open_message(text: str) -> bool:
    """Tell a watchdog message that is wrapped: it began here and does not end here."""
    if _OPEN_STARTS[0] in text:
        return _TIMEOUT.search(text) is None
    return _OPEN_STARTS[1] in text and _STATUS.search(text) is None


def _ranks(text: str, at: int) -> tuple[int | None, int | None, int | None]:
    """Return global rank, rank in the group, group, from the marks before a message."""
    before = text[:at]
    marks = _MARK.findall(before)
    groups = _GROUP_RANK.findall(before)
    named = _GROUP.findall(before)
    inside = int(groups[-1][1]) if groups else None
    group = int(groups[-1][0]) if groups and groups[-1][0] else int(named[-1]) if named else None
    return (int(marks[-1]) if marks else inside), inside, group


def _timeout(text: str, found: re.Match[str], line: int) -> Timeout:
    rank, inside, group = _ranks(text, found.start())
    return Timeout(
        rank=rank,
        group_rank=inside,
        group=group,
        seq=int(found[1]),
        op=found[2],
        numel_in=int(found[3]),
        numel_out=int(found[4]),
        timeout_ms=int(found[5]),
        ran_ms=int(found[6]) if found[6] else None,
        line=line,
    )


def _progress(text: str, found: re.Match[str], line: int) -> Progress:
    rank, _, group = _ranks(text, found.start())
    return Progress(rank, group, _set(found[1]), _set(found[2]), _set(found[3]), line)


def _set(text: str | None) -> int | None:
    """An unset counter prints -1 or the largest 64-bit number."""
    if text is None:
        return None
    number = int(text)
    return number if 0 <= number < _UNSET else None
