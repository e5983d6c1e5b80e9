"""Reads a host's clock: `chronyc tracking`, and when it was booted."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

_OFFSET = re.compile(
    r"^[ \t]{0,20}System time[ \t]{0,20}:[ \t]{0,20}(\d{1,12}\.\d{1,12}) seconds (slow|fast) of NTP time",
    re.M,
)
# The four words of chronyc; a cut one is none of them and says nothing.
_LEAP = re.compile(
    r"^[ \t]{0,20}Leap status[ \t]{0,20}:[ \t]{0,20}(Normal|Insert second|Delete second|Not synchronised)\s*$",
    re.M,
)
_STRATUM = re.compile(r"^[ \t]{0,20}Stratum[ \t]{0,20}:[ \t]{0,20}(\d{1,2})\s*$", re.M)
_ROOT = re.compile(
    r"^[ \t]{0,20}Root (delay|dispersion)[ \t]{0,20}:[ \t]{0,20}(\d{1,12}\.\d{1,12}) seconds", re.M
)
_SINCE = re.compile(r"\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}", re.ASCII)


@dataclass(frozen=True)
class Clock:
    """How far the clock is from NTP in seconds (positive: fast), and whether it is synchronised.

    `error_bound_s`: what the error cannot exceed, by chronyc(1): offset, dispersion, half the delay.
    """

    offset_s: float
    stratum: int | None
    is_synchronised: bool
    error_bound_s: float | None = None


def parse_chronyc_tracking(text: str) -> Clock | None:
    """Read `chronyc tracking`; two of them in one text are none. Source: chronyc(1)."""
    offsets, leaps = _OFFSET.findall(text), _LEAP.findall(text)
    if len(offsets) != 1 or len(leaps) != 1:
        return None
    seconds = float(offsets[0][0]) * (1 if offsets[0][1] == "fast" else -1)
    stratum, root = _STRATUM.findall(text), dict(_ROOT.findall(text))
    bound = None
    if len(root) == 2:
        bound = abs(seconds) + float(root["dispersion"]) + float(root["delay"]) / 2
    is_synchronised = leaps[0] != "Not synchronised"
    return Clock(seconds, int(stratum[0]) if stratum else None, is_synchronised, bound)


def parse_uptime_since(text: str) -> str | None:
    """Read `uptime -s`: the time of the last boot in the node's own zone, as printed."""
    word = text.strip()
    if not _SINCE.fullmatch(word):
        return None
    try:
        datetime.strptime(word, "%Y-%m-%d %H:%M:%S")
    except ValueError:
        return None
    return word
