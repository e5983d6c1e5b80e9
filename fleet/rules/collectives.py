"""The last collective that each rank of a node is known to have entered, and who is behind.

Counters are compared only inside one node and one size of communicator: a count of another one means
nothing here. A rank that said nothing is not called behind; it is simply not known.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

# COLL lines print opCount in hexadecimal; torch's watchdog prints a decimal SeqNum.
_OP_COUNT = re.compile(
    r"\b(?P<op>[A-Z][A-Za-z]{2,20}): opCount (?P<hex>[0-9a-f]{1,16})\b.{0,200}?nranks[ =](?P<size>\d{1,5})"
)
_SEQ_NUM = re.compile(r"WorkNCCL\(SeqNum=(?P<seq>\d{1,18}), OpType=(?P<op>[A-Z_]{1,24})")


BEHIND_MS = 5000  # ranks of a healthy unit are one number apart for moments, never for this long


class Collective(NamedTuple):
    """An operation by its number in its communicator, and when a rank last spoke of it (ms since 1970)."""

    op: str
    number: int
    kind: str  # only equal kinds are compared
    at_ms: int = 0


def parse_collective(text: str) -> Collective | None:
    """Read the collective that a line names, or None."""
    if "opCount " in text:
        found = _OP_COUNT.search(text)
        if found:
            return Collective(found["op"].upper(), int(found["hex"], 16), f"nccl{found['size']}")
    elif "SeqNum=" in text:
        found = _SEQ_NUM.search(text)
        if found:
            return Collective(found["op"], int(found["seq"]), "torch")
    return None


def last_collectives(lines: Iterable[tuple[int | None, int, str]]) -> dict[int, Collective]:
    """Return the last collective of each rank, from (rank, ms, text) in the order of time.

    Only the kind that most ranks speak of is kept, so that all numbers can be compared.
    """
    last: dict[tuple[int, str], Collective] = {}
    for rank, at_ms, text in lines:
        if rank is None:
            continue
        found = parse_collective(text)
        if found:
            last[rank, found.kind] = found._replace(at_ms=at_ms)
    kinds = Counter(kind for _, kind in last)
    if not kinds:
        return {}
    kind = max(kinds, key=lambda one: (kinds[one], one))
    return {rank: one for (rank, k), one in last.items() if k == kind}


def ranks_behind(last: dict[int, Collective]) -> set[int]:
    """Return the ranks that fell silent below the number that at least half of the ranks reached."""
    if len(last) < 2:
        return set()
    numbers = sorted((one.number for one in last.values()), reverse=True)
    reached = numbers[(len(numbers) - 1) // 2]
    newest_ms = max(one.at_ms for one in last.values())
    return {
        rank
        for rank, one in last.items()
        if one.number < reached and newest_ms - one.at_ms >= BEHIND_MS
    }
