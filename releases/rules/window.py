"""Counts within a window that slides: samples of counters, and what came since the oldest of them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

SAMPLES = 10
Counts = Mapping[str, Sequence[int]]  # key -> [requests, errors], both since ever


def sample_of(counts: Counts, now: datetime) -> dict[str, Any]:
    """Return one sample as rows keep it."""
    return {"at": now.isoformat(), "counts": {key: list(pair) for key, pair in counts.items()}}


def window_add(
    samples: Sequence[dict[str, Any]], counts: Counts, now: datetime, span: timedelta
) -> list[dict[str, Any]]:
    """Add a sample when one is due, and drop those behind the newest that is as old as the window."""
    found = list(samples)
    if not found or now - _at(found[-1]) >= span / SAMPLES:
        found.append(sample_of(counts, now))
    while len(found) > 1 and now - _at(found[1]) >= span:
        found = found[1:]
    return found


def counted_since(
    samples: Sequence[Mapping[str, Any]], key: str, requests: int, errors: int
) -> tuple[int, int]:
    """Return (requests, errors) of one key since the oldest sample that knows it; nothing before it was sampled."""
    for sample in samples:
        if key in sample["counts"]:
            before = sample["counts"][key]
            return requests - before[0], errors - before[1]
    return 0, 0


def _at(sample: Mapping[str, Any]) -> datetime:
    return datetime.fromisoformat(sample["at"])
