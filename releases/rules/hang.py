"""Whether a ready unit hangs: what its golden probe and its token counters prove. Pure.

Not in charge of what is done about it (releases/rules/launch.py).
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from fleet.rules.message import say

if TYPE_CHECKING:
    from releases.rules.launch import Snapshot


def answers_rightly(seen: Snapshot) -> bool:
    """A fresh right answer is the work of every rank, also of those on a node that cannot be reached."""
    golden = seen.golden
    if golden.ok_at is None or golden.misses:
        return False
    return _age(seen, golden.ok_at) <= seen.limits.scrape_stale_s


def find_hang(seen: Snapshot) -> str:
    """Judge the golden probe of a ready unit; a probe that was not tried lately says nothing.

    A lone miss is no proof: two misses in a row and no right answer for `hang_s`. Wrong text is a
    correctness failure and needs no wait beyond the second miss.
    """
    golden, limits = seen.golden, seen.limits
    if golden.tried_at is None or _age(seen, golden.tried_at) > limits.scrape_stale_s:
        return ""
    if golden.misses < 2 or not seen.positions[0].is_reachable:
        return ""
    if golden.is_wrong_answer:
        return say(
            "Golden prompt answered wrongly %(times)s times: %(why)s",
            times=golden.misses,
            why=golden.error,
        )
    since = golden.ok_at or seen.state_at
    if _age(seen, since) <= limits.hang_s or _is_generating(seen):
        return ""
    return say(
        "The endpoint generates nothing: %(times)s golden probes without an answer, "
        "the last right answer %(seconds)s s ago. %(stalled)s",
        times=golden.misses,
        seconds=round(_age(seen, since)),
        stalled=_stalled(seen),
    )


def _is_generating(seen: Snapshot) -> bool:
    """Token counters that move prove a slow unit, not a dead one: it is left to serve."""
    at = seen.golden.progress_at
    return at is not None and _age(seen, at) <= seen.limits.hang_s


def _stalled(seen: Snapshot) -> str:
    golden = seen.golden
    if not golden.running or golden.progress_at is None:
        return ""
    return say(
        "No token came for %(seconds)s s; requests that run: %(running)s.",
        running=round(golden.running),
        seconds=round(_age(seen, golden.progress_at)),
    )


def _age(seen: Snapshot, at: datetime) -> float:
    return (seen.now - at) / timedelta(seconds=1)
