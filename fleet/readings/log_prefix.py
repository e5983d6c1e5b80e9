"""Who wrote a log line: vLLM and Ray process prefixes, torch's rank mark, NCCL's host:pid:tid.

Ranks are numbers in the whole unit: data parallel outermost, then pipeline stage, then tensor rank.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

_PART = re.compile(r"(DP|PP|TP|EP)(\d{1,5})")
_RANK_WORD = re.compile(r"\brank=(\d{1,5})\b")
_NUMBERED = re.compile(r"^\(VllmWorker-(\d{1,5})\b")
_NCCL_SEAT = re.compile(r"([^\s:\[\]]{1,253}):(\d{1,10}):(\d{1,10}) \[(\d{1,4})\]")
# What a shell, a cluster or a container runtime puts before the line.
_OUTER = re.compile(
    r"\s*(?:> )?(?:\| )?"
    r"(?:\[?\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?\]? ?)?"
    r"(?:(?:stdout|stderr) [FP] )?"
)
_NCCL_DATE = re.compile(r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\]")


class Layout(NamedTuple):
    """The shape of a unit and the place of one node in it."""

    position: int
    gpus_per_node: int
    tp: int
    pp: int
    dp: int


class Speaker(NamedTuple):
    """The process behind a prefix: api, engine, worker or other; `rank` when the prefix tells."""

    role: str
    rank: int | None


class NcclSeat(NamedTuple):
    """Where an NCCL line comes from; `device` is the card number inside the process's view."""

    host: str
    pid: int
    device: int
    said_at: str | None


@lru_cache(maxsize=8192)
def parse_speaker(prefix: str, layout: Layout) -> Speaker:
    """Read `(Worker_PP1_TP3 pid=48231)` and its relatives."""
    name = prefix[1:].split(" ", 1)[0].rstrip(")")
    role = _role(name)
    if said := _RANK_WORD.search(prefix) or _NUMBERED.match(prefix):
        return Speaker(role, int(said[1]))
    parts = {kind: int(number) for kind, number in _PART.findall(name)}
    if role == "engine":
        return Speaker(role, _engine_rank(parts, layout))
    if role != "worker" or not parts:
        return Speaker(role, None)
    if parts.keys() == {"EP"}:
        return Speaker(role, parts["EP"])
    stage = parts.get("DP", 0) * layout.pp + parts.get("PP", 0)
    return Speaker(role, stage * layout.tp + parts.get("TP", 0))


def _role(name: str) -> str:
    lowered = name.lower()
    if lowered.startswith("apiserver"):
        return "api"
    if lowered.startswith("enginecore"):
        return "engine"
    if "worker" in lowered:
        return "worker"
    return "other"


def _engine_rank(parts: dict[str, int], layout: Layout) -> int | None:
    """An engine core that owns a single card is that card's rank; others stand above ranks."""
    if layout.tp * layout.pp == 1 and layout.dp > 1:
        return parts.get("DP")
    return None


@lru_cache(maxsize=8192)
def parse_nccl_seat(prefix: str) -> NcclSeat | None:
    """Read `host:pid:tid [3]`, with what a launcher or NCCL 2.28 put before it."""
    seat = _NCCL_SEAT.search(prefix)
    if seat is None:
        return None
    date = _NCCL_DATE.search(prefix, 0, seat.start())
    return NcclSeat(seat[1], int(seat[2]), int(seat[4]), date[1] if date else None)


def skip_outer(text: str) -> str:
    """Drop what was put before the line from outside: quote marks, build log and runtime stamps."""
    found = _OUTER.match(text)
    return text[found.end() :] if found else text
