"""Reads the small tools of a host: df, free, uname, nproc, uptime, chronyc, docker, and `.ready` marks of models.

Each parser returns None for a text that is not that tool's whole answer; nothing is guessed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fleet.readings.text import number_lines

_DF = re.compile(r"(\S{1,200})\s+(\d{1,19})\s+(\d{1,19})\s+(\d{1,19})\s+\d{1,3}%\s+(\S.{0,199})")
_FREE = re.compile(
    r"Mem:\s+(\d{1,19})\s+(\d{1,19})\s+(\d{1,19})\s+(\d{1,19})\s+(\d{1,19})\s+(\d{1,19})"
)
_KERNEL = re.compile(r"\d{1,3}\.\d{1,4}[A-Za-z0-9._+-]{0,80}", re.ASCII)
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
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?", re.ASCII)
_PRETTY = re.compile(
    r"^PRETTY_NAME=(\"[^\"\n]{1,120}\"|'[^'\n]{1,120}'|[^\s\"']{1,120})[ \t]*$", re.M
)
_UNIT_STATES = (
    "active",
    "inactive",
    "failed",
    "activating",
    "deactivating",
    "reloading",
    "unknown",
)
_READY = re.compile(r"(/.{1,400}/\.ready):(.*)")
_KIB = 1024


@dataclass(frozen=True)
class Disk:
    """A file system: sizes in bytes."""

    device: str
    mount: str
    total_bytes: int
    used_bytes: int
    free_bytes: int


@dataclass(frozen=True)
class Memory:
    """Main memory in bytes; `available` is what can be taken without swapping."""

    total_bytes: int
    available_bytes: int


@dataclass(frozen=True)
class Clock:
    """How far the clock is from NTP in seconds (positive: fast), and whether it is synchronised.

    `error_bound_s`: what the error cannot exceed, by chronyc(1): offset, dispersion, half the delay.
    """

    offset_s: float
    stratum: int | None
    is_synchronised: bool
    error_bound_s: float | None = None


@dataclass(frozen=True)
class Container:
    """A container as `docker ps` lists it; ours carry the label fleet.subject."""

    id: str
    name: str
    image: str
    state: str
    subject: str


@dataclass(frozen=True)
class ReadyMark:
    """A `.ready` file: the directory of a model whose files were verified, and its manifest's hash."""

    directory: str
    manifest_sha256: str
    files: int
    size_bytes: int


def parse_df(text: str) -> Disk | None:
    """Read `df -kP PATH`: one header, one row."""
    lines = [line.text for line in number_lines(text) if line.text.strip()]
    found = _DF.fullmatch(lines[1].strip()) if len(lines) == 2 else None
    if found is None:
        return None
    total, used, free = (int(found[n]) * _KIB for n in (2, 3, 4))
    return Disk(found[1], found[5], total, used, free)


def parse_free(text: str) -> Memory | None:
    """Read `free -b`."""
    for line in number_lines(text):
        if found := _FREE.fullmatch(line.text.strip()):
            return Memory(int(found[1]), int(found[6]))
    return None


def parse_uname(text: str) -> str | None:
    """Read `uname -r`: the kernel's release."""
    word = text.strip()
    return word if _KERNEL.fullmatch(word) else None


def parse_nproc(text: str) -> int | None:
    """Read `nproc`."""
    word = text.strip()
    return int(word) if word.isascii() and word.isdigit() and len(word) <= 6 else None


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


def parse_hostname(text: str) -> str | None:
    """Read `uname -n`: the node's own name."""
    word = text.strip()
    return word if _NAME.fullmatch(word) else None


def parse_os_release(text: str) -> str | None:
    """Read /etc/os-release: the name of the system as people say it. Source: os-release(5)."""
    found = _PRETTY.findall(text)
    return found[0].strip("\"'") if len(found) == 1 else None


def parse_is_active(text: str) -> str | None:
    """Read `systemctl is-active NAME`: one word. Source: systemctl(1)."""
    word = text.strip()
    return word if word in _UNIT_STATES else None


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


def parse_docker_version(text: str) -> str | None:
    """Read `docker version --format json`: the daemon's version; None when only the client answered."""
    try:
        found = json.loads(text)
    except ValueError:
        return None
    server = found.get("Server") if isinstance(found, dict) else None
    version = server.get("Version") if isinstance(server, dict) else None
    return version[:40] if isinstance(version, str) and version else None


def parse_docker_ps(text: str) -> tuple[Container, ...] | None:
    """Read `docker ps -a --format json`: one object a line; no container is an empty answer."""
    found = []
    for line in number_lines(text):
        if not line.text.strip():
            continue
        try:
            row = json.loads(line.text)
        except ValueError:
            return None
        if not isinstance(row, dict) or not row.get("ID"):
            return None
        labels = dict(_labels(str(row.get("Labels", ""))))
        found.append(
            Container(
                id=str(row["ID"])[:200],
                name=str(row.get("Names", ""))[:200],
                image=str(row.get("Image", ""))[:200],
                state=str(row.get("State", ""))[:200],
                subject=labels.get("fleet.subject", "")[:80],
            )
        )
    return tuple(found)


def parse_ready_marks(text: str) -> tuple[ReadyMark, ...] | None:
    """Read `grep -rH --include=.ready "" ROOT`; None when a mark is not the JSON object it should be."""
    bodies: dict[str, str] = {}
    for line in number_lines(text):
        found = _READY.fullmatch(line.text)
        if found is None:
            return None
        bodies[found[1]] = bodies.get(found[1], "") + found[2] + "\n"
    marks = [_mark(path.removesuffix("/.ready"), body) for path, body in sorted(bodies.items())]
    return None if None in marks else tuple(mark for mark in marks if mark)


def _mark(directory: str, body: str) -> ReadyMark | None:
    try:
        row: Any = json.loads(body)
        return ReadyMark(
            directory, str(row["manifest_sha256"])[:64], int(row["files"]), int(row["bytes"])
        )
    except (ValueError, TypeError, KeyError, OverflowError):
        return None


def _labels(text: str) -> Iterator[tuple[str, str]]:
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if equals:
            yield name, value
