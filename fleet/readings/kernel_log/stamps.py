"""Takes the stamps off a kernel line: dmesg in six forms, kmsg, journal, serial console.

Stamps are kept as printed: uptimes of two boots cannot be compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import NamedTuple

from fleet.readings.text import clean_line, decode

_DECODED = re.compile(r"^\w{1,10}\s*:\w{1,8}\s*: (\d{4}-\d\d-\d\dT[\d:,.]{8,18}[+-]\d\d:?\d\d) ")
_KMSG = re.compile(r"^(\d{1,3}),(\d{1,12}),(\d{1,18}),[^;]{1,32};")
# Uptime, date, or dmesg's relative times; a word in brackets such as [sudo] is no stamp.
_BRACKET = re.compile(
    r"^(?:<\d{1,3}>)?\[\s{0,8}(?=[^\]]{0,40}[.:])((?:[A-Z][a-z]{2} )?(?:[A-Z][a-z]{2} {0,2}\d{1,2} )?"
    r"[\d<+][\dT<>+:.,Z -]{1,38})\]\s{0,2}"
)
# Behind the uptime: a second clock, or the thread or processor that printed.
_SECOND = re.compile(r"^\[\s{0,8}(?:[CT]\d{1,8}|\d{1,12}\.\d{1,9})\]\s{0,2}")
# A journal holds lines of programs beside the kernel's; those keep their text.
_ISO = re.compile(
    r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[^ ]{0,16}) (\S{1,253}) (kernel|[\w./@-]{1,64}(?:\[\d{1,10}\])?): "
)
_SYSLOG = re.compile(
    r"^([A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d) (\S{1,253}) (kernel|[\w./@-]{1,64}(?:\[\d{1,10}\])?): "
)
_PLAIN_ISO = re.compile(r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[,.]\d{1,9}[+-]\d\d:?\d\d) ")
_HOST = re.compile(r"^(?:(\S{1,253}) )?kernel: ")
_STAMP_CHARS = 400
_UPTIME = re.compile(r"^\[ *\d{1,12}\.\d{6}\] ")


class KernelLine(NamedTuple):
    """A message without its stamps. `form` is empty for a bare line."""

    text: str
    form: str
    said_at: str | None
    host: str | None
    seq: int | None


def read_stamp(text: str) -> KernelLine:
    """Split one line."""
    if found := _DECODED.match(text):
        return KernelLine(text[found.end() :], "decoded", found[1], None, None)
    if found := _KMSG.match(text):
        return KernelLine(text[found.end() :], "kmsg", found[3], None, int(found[2]))
    if found := _ISO.match(text) or _SYSLOG.match(text):
        inner = _inner(text[found.end() :]) if found[3] == "kernel" else text
        return KernelLine(inner, "journal", found[1], found[2], None)
    if found := _PLAIN_ISO.match(text):
        return KernelLine(text[found.end() :], "dmesg", found[1], None, None)
    if found := _BRACKET.match(text):
        rest = text[found.end() :]
        if second := _SECOND.match(rest) or _BRACKET.match(rest):
            rest = rest[second.end() :]
        host = _HOST.match(rest)
        rest = rest[host.end() :] if host else rest
        name = host[1] if host else None
        return KernelLine(rest, "dmesg", found[1].strip(), name, None)
    if found := _HOST.match(text):
        return KernelLine(_inner(text[found.end() :]), "journal", None, found[1], None)
    return KernelLine(text, "", None, None, None)


def _inner(text: str) -> str:
    """A journal line may carry the uptime too."""
    found = _UPTIME.match(text)
    return text[found.end() :] if found else text


def lines_since(lines: Iterable[bytes], since: datetime) -> Iterator[bytes]:
    """Yield the lines that were said at `since` or later.

    A line without a time of day goes with the one before it; while there was none, nothing is left out.
    """
    is_late = True
    for line in lines:
        at = _time_of(line)
        is_late = is_late if at is None else at >= since
        if is_late:
            yield line


def _time_of(line: bytes) -> datetime | None:
    """The time of a line that says it with its offset; any other clock may be another zone's."""
    said_at = read_stamp(clean_line(decode(line[:_STAMP_CHARS]))).said_at
    try:
        at = datetime.fromisoformat(said_at or "")
    except ValueError:
        return None
    return at if at.tzinfo else None
