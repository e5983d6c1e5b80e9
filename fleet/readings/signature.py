"""The signature of a log line: its text without what differs between ranks and runs.

Equal signatures fold on screen, so the level stands in front: an error never folds into less.
"""

from __future__ import annotations

import re

from fleet.readings.text import strip_ansi

_SCAN_CHARS = 320
_KEEP_CHARS = 160
# vLLM and Ray prefixes, torch's rank mark, outer stamps, NCCL's seat, the time of the line.
_HEAD = re.compile(
    r"^(?:\s*(?:\[\d{4}-\d\d-\d\d[T ][^\]]{1,32}\]|\d{4}-\d\d-\d\d[T ]\S{1,32}"
    r"|\([A-Za-z][^()]{0,80}\)|\[rank\d{1,5}\]:"
    r"|[^\s:]{1,253}:\d{1,10}:\d{1,10} \[\d{1,4}\])\s*){1,4}"
)
# A word with a digit in it: numbers, hex words, times, pids, addresses, numbered hosts and devices.
_VARYING = re.compile(r"\b\w*\d\w*(?:[.,:-]\w*\d\w*)*")
_BLANKS = re.compile(r"\s+")


def signature(text: str, level: str = "") -> str:
    """Return the folded form of a line: numbers, hex words, times, pids and hosts become `#`."""
    text = strip_ansi(text[:_SCAN_CHARS])
    head = _HEAD.match(text)
    if head is not None:
        text = text[head.end() :]
    folded = _BLANKS.sub(" ", _VARYING.sub("#", text)).strip()[:_KEEP_CHARS]
    return f"{level}|{folded}" if level else folded
