"""The last lines of a launch: what each rank said, without the engine's own head of time and file."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

from fleet.rules.log_text import show_text
from releases.selectors.launch_page import LaunchSeen, last_lines

LONGEST = 300
# `(Worker_PP1_TP6 pid=9262) INFO 11-30 02:12:55 [gpu_model_runner.py:5172] `: rank and time stand beside the line.
_HEAD = re.compile(
    r"^(?:\([A-Za-z_]\w{0,40}(?: pid=\d{1,9})?\) )?(?:[A-Z]{4,8} \d\d-\d\d [\d:]{8} \[[^\]]{1,80}\] )?"
)


@dataclass(frozen=True)
class TailLine:
    at: datetime
    who: str
    tone: str
    text: str


def launch_tail(seen: LaunchSeen) -> list[TailLine]:
    """Return the newest line of each rank that spoke lately, newest first; a line without a rank names its node."""
    return [
        TailLine(
            line.at,
            f"n{place.place.position}" if line.rank is None else f"r{line.rank:02d}",
            {"E": "t-crit", "W": "t-warn"}.get(line.level, ""),
            message_of(line.text),
        )
        for place, line in last_lines(seen)
    ]


def message_of(text: str) -> str:
    """Return what a line says, safe to look at."""
    shown = show_text(text)
    return (_HEAD.sub("", shown, count=1) or shown)[:LONGEST]
