"""The forms of an engine log line: vLLM, uvicorn, NCCL, torch, Python logging, and raw text.

Speed matters here: substrings and dictionaries decide, a regular expression only confirms.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from fleet.readings import log_subsystem as sub
from fleet.readings.log_prefix import Layout, parse_nccl_seat, parse_speaker, skip_outer
from fleet.readings.text import strip_ansi

DEBUG, INFO, WARN, ERROR = "debug", "info", "warn", "error"
_SCAN_CHARS = 4096

_LEVELS = {
    "DEBUG": DEBUG, "INFO": INFO, "WARNING": WARN, "WARN": WARN, "ERROR": ERROR,
    "CRITICAL": ERROR, "FATAL": ERROR,
}  # fmt: skip
_UVICORN = {"DEBUG:": DEBUG, "INFO:": INFO, "WARNING:": WARN, "ERROR:": ERROR, "CRITICAL:": ERROR}
_NCCL = {"INFO": INFO, "WARN": WARN, "ERROR": ERROR, "TRACE": DEBUG, "ABORT": ERROR}
_GLOG = {"I": INFO, "W": WARN, "E": ERROR, "F": ERROR}

_TORCH = re.compile(
    r"(?:\[\d{1,9}\] )?(?:\[rank(?P<rank>\d{1,5})\]:\s?)?"
    r"(?:\[?(?P<level>[IWEF])(?P<day>\d{3,4}) (?P<time>\d\d:\d\d:\d\d(?:\.\d{1,9})?)\b)?"
)
_TORCH_BARE = re.compile(r"\[(?P<level>[IWE]) \w{1,64}\.cpp:\d{1,6}\]")
_SAID_RANK = re.compile(r"\[(?:PG [^\]]{0,80})?Rank (\d{1,5})\]")
_PYTHON = re.compile(
    r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?:[,.]\d{1,6})? (?:- |\| )?\[?"
    r"(DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL)\b"
)
_BAD = re.compile(
    r"Traceback \(most recent|terminate called|Segmentation fault|(?:^|[ :])error: "
    r"|^[A-Za-z_][\w.]{0,120}(?:Error|Exception|Interrupt)\b(?::|$)|CUDA error|core dumped"
    r"|^\s*what\(\):|Exception raised from|^Killed\b|Error response from daemon"
)
_ODD = re.compile(r"\b\w{0,40}Warning: |^\s*[Ww]arning\b")
# Words without which the patterns above cannot match; a substring test is much the cheaper.
_BAD_HINTS = (
    "rror", "Traceback", "terminate", "xception", "nterrupt", "fault", "dumped", "what()", "Killed",
)  # fmt: skip
_OUTER_HEADS = frozenset("> |0123456789[")
_TORCH_HEADS = frozenset("[IWEF")


class OwnMarks(NamedTuple):
    """What one line tells; `level` is None when it has none of its own."""

    level: str | None
    rank: int | None
    subsystem: str
    message_at: str | None
    speaker: str
    text: str


def read_marks(text: str, layout: Layout) -> OwnMarks:
    """Read one line as it stands; only its first 4,096 characters are looked at."""
    if len(text) > _SCAN_CHARS:
        text = text[:_SCAN_CHARS]
    if "\x1b" in text:
        text = strip_ansi(text)
    if "\r" in text:
        text = _last_step(text)
    nccl = text.find(" NCCL ")
    if nccl >= 0 and (own := _read_nccl(text, nccl, layout)) is not None:
        return own
    if text[:1] in _OUTER_HEADS:
        return _read_outer(text, layout)
    return _read_inner(text, layout, None)


def _last_step(text: str) -> str:
    """A progress bar redraws its line: only the last drawing counts."""
    steps = [step for step in text.split("\r") if step.strip()]
    if len(steps) < 2:
        return steps[0] if steps else ""
    head = steps[0]
    # The prefix stands once, before the first drawing.
    prefix = head[: head.find(") ") + 2] if head.startswith("(") and ") " in head else ""
    last = steps[-1]
    return last if last.startswith("(") else prefix + last


def _read_nccl(text: str, at: int, layout: Layout) -> OwnMarks | None:
    word, _, message = text[at + 6 :].partition(" ")
    level = _NCCL.get(word)
    if level is None:
        return None
    rank, said_at, speaker = None, None, ""
    if text.startswith("(") and (end := text.find(") ")) > 0:
        speaker = text[: end + 1]
        rank = parse_speaker(speaker, layout).rank
    seat = parse_nccl_seat(text[:at])
    if seat is not None:
        said_at = seat.said_at
        if rank is None:
            rank = layout.position * layout.gpus_per_node + seat.device
    return OwnMarks(level, rank, sub.nccl_subsystem(message, level != INFO), said_at, speaker, text)


def _read_outer(text: str, layout: Layout) -> OwnMarks:
    """Read a line that does not begin with its own prefix: stamps of others, torch's marks."""
    if text[0] == "[" and (own := _read_torch(text, layout, "", None)) is not None:
        return own
    if logged := _PYTHON.match(text):
        return OwnMarks(_LEVELS[logged[2]], None, sub.OTHER, logged[1], "", text)
    rest = skip_outer(text)
    # An indented line stays indented: it may continue a traceback.
    return _read_inner(rest if rest != text.lstrip(" ") else text, layout, None)


def _read_inner(text: str, layout: Layout, rank: int | None) -> OwnMarks:
    role, speaker = "", ""
    for _ in range(3):
        if text[:1] != "(" or (end := text.find(") ", 0, 160)) < 0:
            break
        speaker = text[: end + 1]
        said = parse_speaker(speaker, layout)
        role = said.role
        rank = said.rank if said.rank is not None else rank
        text = text[end + 2 :]
    word, _, rest = text.partition(" ")
    if (level := _LEVELS.get(word)) is not None and rest[2:3] == "-":
        source, _, message = rest[15:].partition("] ")
        file = source[1 : source.find(":")]
        return OwnMarks(
            level, rank, sub.vllm_subsystem(message, file, role), rest[:14], speaker, text
        )
    if (level := _UVICORN.get(word)) is not None:
        return _read_uvicorn(level, rest, rank, speaker, text)
    if text[:1] in _TORCH_HEADS and (own := _read_torch(text, layout, speaker, rank)) is not None:
        return own
    if text[:2] == "20" and (logged := _PYTHON.match(text)):
        place = sub.raw_subsystem(text, role)
        return OwnMarks(_LEVELS[logged[2]], rank, place, logged[1], speaker, text)
    level = INFO if is_progress(text) else None
    return OwnMarks(level, rank, sub.raw_subsystem(text, role), None, speaker, text)


def _read_uvicorn(level: str, rest: str, rank: int | None, speaker: str, text: str) -> OwnMarks:
    request = rest.find(" HTTP/")
    if request < 0:
        return OwnMarks(level, rank, sub.API, None, speaker, text)
    # uvicorn logs a failed request as INFO; a reader who filters by level must see it.
    if rest[request + 6 : request + 12].partition('" ')[2].startswith("5"):
        level = WARN
    return OwnMarks(level, rank, sub.HTTP, None, speaker, text)


def _read_torch(text: str, layout: Layout, speaker: str, rank: int | None) -> OwnMarks | None:
    """Read `[rank8]:[E1129 18:31:07.113 ProcessGroupNCCL.cpp:632] ...` and its older forms."""
    found = _TORCH.match(text)
    bare = None
    if found is None or (found["rank"] is None and found["level"] is None):
        bare = _TORCH_BARE.match(text)
        if bare is None:
            return None
    place = sub.raw_subsystem(text, "worker")
    if bare is not None or found is None:
        said = _SAID_RANK.search(text)
        return OwnMarks(
            _GLOG[bare["level"]] if bare else None,
            int(said[1]) if said else rank,
            place,
            None,
            speaker,
            text,
        )
    number = int(found["rank"]) if found["rank"] is not None else rank
    if found["level"] is None:
        # "[rank3]: Traceback ..." has no level of its own, but its own speaker.
        mark = speaker or f"[rank{number}]"
        return OwnMarks(None, number, place, None, mark, text[found.end() :])
    if number is None and (said := _SAID_RANK.search(text)):
        number = int(said[1])
    day = found["day"].rjust(4, "0")
    at = f"{day[:2]}-{day[2:]} {found['time']}"
    return OwnMarks(_GLOG[found["level"]], number, place, at, speaker, text)


def raw_level(text: str) -> str:
    """Judge the level of a line that names none, by the words in it."""
    for hint in _BAD_HINTS:
        if hint in text:
            if _BAD.search(text):
                return ERROR
            break
    return WARN if "arning" in text and _ODD.search(text) else INFO


def is_progress(text: str) -> bool:
    """Tell whether a line is a step of a progress bar."""
    return "%|" in text or "% Completed |" in text
