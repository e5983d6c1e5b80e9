"""Takes the stamps off a kernel line: dmesg in all its forms, kmsg, journal and syslog, serial console.

Stamps are kept as printed: uptimes of two boots cannot be compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import NamedTuple

from fleet.readings.text import clean_line, decode

# Names of days and months in any language of a shell; Chinese ones are `一` and `11月`.
_DAY = r"[^\W\d_]{1,5}\.?"
_MONTH = r"(?:[^\W\d_]{3,5}\.?|\d{1,2}月)"
# `dmesg -x`: facility and level stand before whichever time was asked for.
_DECODED = re.compile(r"^[a-z]\w{1,9}\s*:[a-z]\w{1,7}\s*: ?(?=\[|\d{4}-)")
_KMSG = re.compile(r"^(\d{1,3}),(\d{1,12}),(\d{1,18}),[^;]{1,32};")
# Uptime, date, or dmesg's relative times; a word in brackets such as [sudo] is no stamp.
_BRACKET = re.compile(
    rf"^(?:<\d{{1,3}}>)?\[\s{{0,8}}(?=[^\]]{{0,40}}[.:])((?:{_DAY} )?(?:{_MONTH} {{0,2}}\d{{1,2}} )?"
    r"[\d<+][\dT<>+:.,Z -]{1,38})\]\s{0,2}"
)
# Behind the uptime: a second clock, or the thread or processor that printed.
_SECOND = re.compile(r"^\[\s{0,8}(?:[CT]\d{1,8}|\d{1,12}\.\d{1,9})\]\s{0,2}")
# A journal holds lines of programs beside the kernel's; those keep their text.
_WHO = r"(\S{1,253}) (kernel|[\w./@-]{1,64}(?:\[\d{1,10}\])?): "
_ISO = re.compile(rf"^(\d{{4}}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[^ ]{{0,16}}) {_WHO}")
# The journal's other clocks: with the day of the week and the zone, with parts of a second, in seconds since 1970.
_SYSLOG = re.compile(
    rf"^(?:<\d{{1,3}}>)?({_MONTH} [ \d]?\d \d\d:\d\d:\d\d(?:\.\d{{1,9}})?"
    rf"|{_DAY} \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{{1,9}})? [\w+:-]{{1,8}}|\d{{9,12}}\.\d{{3,6}}) {_WHO}"
)
_RFC5424 = re.compile(
    r"^<\d{1,3}>1 (\d{4}-\d\d-\d\dT\S{8,32}) (\S{1,253}) (\S{1,48}) \S{1,128} \S{1,32} (?:-|\[[^\]]{1,400}\]) "
)
_PLAIN_ISO = re.compile(r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[,.]\d{1,9}(?:[+-]\d\d:?\d\d|Z)) ")
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
    """Split one line; one that was pasted with blanks before it loses them."""
    text = text.lstrip(" \t")
    if found := _DECODED.match(text):
        inner = _read_dmesg(text[found.end() :])
        return inner._replace(form="decoded") if inner else KernelLine(text, "", None, None, None)
    if found := _KMSG.match(text):
        return KernelLine(text[found.end() :], "kmsg", found[3], None, int(found[2]))
    # dmesg writes a comma into its ISO times and no host behind them.
    if text[19:20] == "," and (own := _read_dmesg(text)):
        return own
    if found := _RFC5424.match(text) or _ISO.match(text) or _SYSLOG.match(text):
        rest = _inner(text[found.end() :]) if found[3] == "kernel" else text
        return KernelLine(rest, "journal", found[1], found[2], None)
    if own := _read_dmesg(text):
        return own
    if found := _HOST.match(text):
        return KernelLine(_inner(text[found.end() :]), "journal", None, found[1], None)
    return KernelLine(text, "", None, None, None)


def _read_dmesg(text: str) -> KernelLine | None:
    if found := _PLAIN_ISO.match(text):
        return KernelLine(text[found.end() :], "dmesg", found[1], None, None)
    found = _BRACKET.match(text)
    if found is None:
        return None
    rest = text[found.end() :]
    if second := _SECOND.match(rest) or _BRACKET.match(rest):
        rest = rest[second.end() :]
    host = _HOST.match(rest)
    rest = rest[host.end() :] if host else rest
    return KernelLine(rest, "dmesg", found[1].strip(), host[1] if host else None, None)


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
