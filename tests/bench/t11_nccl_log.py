"""T11, NCCL logs: the reading of a log of many ranks against a list of expressions tried line by line.

The need is a ratio in the same run and the same bytes. 100 MB/s of a core's time is what 10 GB of logs in 100 s
ask for (design); it is printed, and judged only beside what this machine does with plain bytes.
"""

from __future__ import annotations

import collections
import io
import re
import time
from collections.abc import Callable

from tests.bench.ground import Ground
from tests.bench.nccl_lines import nccl_lines
from tests.bench.targets import Outcome, interleave, target

LINES = 250_000
LEAST_RATIO, LEAST_MB_S = 2.0, 100.0
_SEAT = r"^(\S+?):(\d+):(\d+) \[(\d+)\] NCCL "
_LIST = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        ("channel", _SEAT + r"INFO Channel (\d+)/\d+ : (\d+)\[\S+\] -> (\d+)\[\S+\] via (\S+)"),
        ("ring", _SEAT + r"INFO Channel (\d+)/(\d+) :\s+(\d.*)$"),
        ("tree", _SEAT + r"INFO Trees (.*)$"),
        ("comm", _SEAT + r"INFO comm (0x[0-9a-f]+) rank (\d+) nRanks (\d+)"),
        ("net", _SEAT + r"INFO NET/IB : Using (.*)$"),
        ("warn", _SEAT + r"WARN (.*)$"),
        ("setting", _SEAT + r"INFO (NCCL_\w+) set (?:by environment )?to (.*)$"),
        (
            "timeout",
            r"^\[rank(\d+)\]:.*Watchdog caught collective operation timeout: WorkNCCL\(SeqNum=(\d+)",
        ),
        (
            "engine",
            r"Avg prompt throughput: ([\d.]+) tokens/s, Avg generation throughput: ([\d.]+)",
        ),
    )
)


@target("T11")
def nccl_log_is_read_fast(ground: Ground) -> Outcome:
    """Read the same bytes both ways in turns; both must count the same channels, warnings and timeouts."""
    from fleet.readings.kinds import READERS

    raw = "".join(f"{line}\n" for line in nccl_lines(LINES)).encode()
    report = READERS["nccl-log"](io.BytesIO(raw))
    counted = _by_list(raw)
    is_same = sum(report.values["transport_counts"].values()) == counted["channel"]
    ours_s, peer_s = interleave(
        lambda: _cpu_s(lambda: READERS["nccl-log"](io.BytesIO(raw))),
        lambda: _cpu_s(lambda: _by_list(raw)),
    )
    ratio, speed = peer_s / ours_s, len(raw) / 1e6 / ours_s
    return Outcome(
        is_met=is_same and ratio >= LEAST_RATIO and speed >= LEAST_MB_S,
        values={
            "ratio": ratio,
            "need": f"{LEAST_RATIO:g}",
            "mb_s": speed,
            "need_mb_s": f"{LEAST_MB_S:g}",
            "peer_mb_s": len(raw) / 1e6 / peer_s,
            "mb": len(raw) / 1e6,
            "same_counts": "yes" if is_same else "no",
        },
    )


def _by_list(raw: bytes) -> collections.Counter[str]:
    counts: collections.Counter[str] = collections.Counter()
    for line in raw.decode().splitlines():
        for name, pattern in _LIST:
            if pattern.search(line):
                counts[name] += 1
                break
    return counts


def _cpu_s(run: Callable[[], object]) -> float:
    begun = time.process_time()
    run()
    return time.process_time() - begun
