"""T12, metrics: a scrape of an endpoint against prometheus_client, with equal results on every dump there is.

The watch reads the same endpoint again and again, so a series that was seen is remembered: that is what is measured,
over scrapes of a busy engine in each of which every second sample has a new value. The first scrape, with nothing
remembered, and an idle engine's, in which nothing changes, are printed beside it.
"""

from __future__ import annotations

import itertools
import math
import os
import time
from collections.abc import Callable
from pathlib import Path

from tests.bench.ground import ROOT, Ground
from tests.bench.targets import Outcome, Skip, interleave, target

LEAST_RATIO = 20.0
_TIMES = 20
_SCRAPES = 41


@target("T12")
def metrics_are_read_fast(ground: Ground) -> Outcome:
    """Parse the largest dump both ways in turns; every dump must give the same samples."""
    families = ground.peer_module("prometheus_client.parser").text_string_to_metric_families
    from fleet.readings.metrics.exposition import SeriesCache, parse_exposition

    shared = Path(os.environ.get("SHARED_DIR") or ROOT.parent / "shared")
    dumps = [path.read_bytes() for path in sorted((shared / "corpus" / "metrics").glob("*.txt"))]
    if not dumps:
        raise Skip(f"no dump of metrics under {shared}; set SHARED_DIR")

    def theirs(raw: bytes) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
        return {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in families(raw.decode())
            for sample in family.samples
        }

    compared = different = 0
    for raw in dumps:
        try:
            wanted = theirs(raw)
        except ValueError:
            continue  # a torn dump, which the peer refuses as a whole
        ours = {
            (sample.series.name, frozenset(sample.series.labels.items())): sample.value
            for sample in parse_exposition(raw).samples
        }
        compared += 1
        different += not _same(ours, wanted)
    largest = max(dumps, key=len)
    busy, idle = SeriesCache(), SeriesCache()
    scrapes = itertools.cycle([_busy(largest, turn) for turn in range(_SCRAPES)])
    busy.parse(largest)
    for _ in range(2):
        idle.parse(largest)
    first_s = _cpu_s(lambda: parse_exposition(largest))
    idle_s = _cpu_s(lambda: idle.parse(largest))
    ours_s, peer_s = interleave(
        lambda: _cpu_s(lambda: busy.parse(next(scrapes))),
        lambda: _cpu_s(lambda: theirs(next(scrapes))),
    )
    return Outcome(
        is_met=peer_s / ours_s >= LEAST_RATIO and not different and compared > 0,
        values={
            "ratio": peer_s / ours_s,
            "need": f"{LEAST_RATIO:g}",
            "ours_ms": f"{ours_s * 1000:.3f}",
            "first_ms": f"{first_s * 1000:.3f}",
            "idle_ms": f"{idle_s * 1000:.3f}",
            "peer_ms": f"{peer_s * 1000:.3f}",
            "dumps": compared,
            "different": different,
        },
    )


def _busy(raw: bytes, turn: int) -> bytes:
    """Give every second sample of a dump a value of its own in this turn."""
    lines = raw.split(b"\n")
    for place, line in enumerate(lines):
        if line and not line.startswith(b"#") and place % 2:
            lines[place] = line.rpartition(b" ")[0] + b" %d.0" % (turn * 100_000 + place)
    return b"\n".join(lines)


def _same(ours: dict[object, float], theirs: dict[object, float]) -> bool:
    return ours.keys() == theirs.keys() and all(
        ours[key] == value or (math.isnan(ours[key]) and math.isnan(value))
        for key, value in theirs.items()
    )


def _cpu_s(run: Callable[[], object]) -> float:
    begun = time.process_time()
    for _ in range(_TIMES):
        run()
    return (time.process_time() - begun) / _TIMES
