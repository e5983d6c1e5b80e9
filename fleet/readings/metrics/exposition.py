"""Reads Prometheus' text format, quickly when the same endpoint is read again and again.

Between two scrapes only values change, and of most series not even those: the text of a series is parsed once and
remembered, and so is a whole line until it changes.
A series that is absent is unknown, never zero.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]{0,255}")
_LABEL = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_]{0,127})="((?:[^"\\]|\\.){0,4096})"\s*(?:,|$)')
_ESCAPE = re.compile(r"\\(.)")
_CACHE_CAP = 65_536
_SERIES_BYTES_CAP = 16_384
_LINES_SPARE = 64
# What DCGM prints for a field that is blank, not found, not supported or not permitted: four numbers of each width.
# Source: DCGM dcgm_fields.h, DCGM_INT32_BLANK, DCGM_INT64_BLANK, DCGM_FP64_BLANK.
SENTINELS = frozenset(
    float(blank + n)
    for blank in (0x7FFFFFF0, 0x7FFFFFFFFFFFFFF0, 140737488355328)
    for n in range(4)
)
# OpenMetrics writes an example of the measured things behind a value.
_EXEMPLAR = " # {"


class Series(NamedTuple):
    """A name and its labels."""

    name: str
    labels: Mapping[str, str]


class Sample(NamedTuple):
    """One value of one series."""

    series: Series
    value: float


@dataclass(frozen=True)
class Exposition:
    """All samples of one text. `bad_lines` were neither samples nor comments.

    `ends` is False when the last line is cut, or announces a family that does not follow.
    """

    samples: tuple[Sample, ...]
    bad_lines: tuple[int, ...]
    ends: bool

    @property
    def complete(self) -> bool:
        """Whether all lines were understood and the text does not end in the middle."""
        return bool(self.samples) and not self.bad_lines and self.ends

    def named(self, name: str) -> list[Sample]:
        """Return the samples of exactly this name; a longer name is another family."""
        return [s for s in self.samples if s.series.name == name]


class SeriesCache:
    """The series of one endpoint, known from its last scrape; a new one starts empty."""

    def __init__(self) -> None:
        self._known: dict[bytes, Series] = {}
        self._lines: dict[bytes, Sample] = {}

    def parse(self, raw: bytes) -> Exposition:
        """Read one scrape."""
        rows = raw.split(b"\n")
        # A last line without its line feed may have lost digits: its value is not taken.
        cut = rows.pop()
        # Lines of older scrapes are met no more.
        if len(self._lines) > 2 * len(rows) + _LINES_SPARE:
            self._lines.clear()
        lines = self._lines
        seen, known = lines.get, self._known.get
        new = tuple.__new__  # the constructor of a NamedTuple costs half of the loop
        samples: list[Sample] = []
        take = samples.append
        bad: list[int] = []
        for number, line in enumerate(rows, 1):
            sample = seen(line)
            if sample is not None:
                take(sample)
                continue
            if not line or line[0] == 35:
                continue
            key, _, text = line.rpartition(b" ")
            series = known(key)
            if series is not None and b"_" not in text:
                try:
                    sample = lines[line] = new(Sample, (series, float(text)))
                    take(sample)
                    continue
                except ValueError:
                    pass
            sample = self._learn(line)
            if sample is not None:
                samples.append(sample)
            elif not line.isspace():
                bad.append(number)
        if cut and not cut.isspace():
            bad.append(len(rows) + 1)
        return Exposition(tuple(samples), tuple(bad), _ends(raw))

    def _learn(self, line: bytes) -> Sample | None:
        text = line[:_SERIES_BYTES_CAP].decode("utf-8", "replace").strip()
        end = _series_end(text)
        value_text, exemplar, _ = text[end:].partition(_EXEMPLAR)
        words = value_text.split()
        series = parse_series(text[:end]) if end and 0 < len(words) <= 2 else None
        if series is None:
            return None
        value = _number(words[0])
        if value is None:
            return None
        # A time stamp behind the value changes with each scrape: such a key is never met again.
        if len(words) == 1 and not exemplar and len(line) < _SERIES_BYTES_CAP:
            if len(self._known) >= _CACHE_CAP:
                self._known.clear()
            self._known[line.rpartition(b" ")[0]] = series
        return Sample(series, value)


def parse_exposition(raw: bytes) -> Exposition:
    """Read one text without remembering anything."""
    return SeriesCache().parse(raw)


def parse_series(text: str) -> Series | None:
    """Read `name{label="value",..}`; values may hold blanks, braces and escaped quotes."""
    name, brace, rest = text.partition("{")
    name = name.strip()
    if not _NAME.fullmatch(name):
        return None
    if not brace:
        return Series(name, {})
    labels: dict[str, str] = {}
    body = rest.rstrip()[:-1]
    at = 0
    while at < len(body):
        found = _LABEL.match(body, at)
        if found is None:
            return None
        labels[found[1]] = _unescape(found[2])
        at = found.end()
    return Series(name, labels)


def _number(word: str) -> float | None:
    # Python's float also takes 1_000 and digits of other scripts, which the format does not know.
    if "_" in word or not word.isascii():
        return None
    try:
        return float(word)
    except ValueError:
        return None


def _ends(raw: bytes) -> bool:
    last = raw[-_SERIES_BYTES_CAP:].rstrip().rpartition(b"\n")[2]
    is_announcement = last.startswith(b"#") and not last.startswith(b"# EOF")
    return raw.endswith(b"\n") and not is_announcement


def _series_end(text: str) -> int:
    """Return where the series ends: behind its closing brace, which a value may also hold."""
    brace = text.find("{")
    if brace < 0:
        words = text.split(None, 1)
        return len(words[0]) if len(words) == 2 else 0
    quoted = False
    at = brace
    while at < len(text):
        sign = text[at]
        if sign == "\\" and quoted:
            at += 1
        elif sign == '"':
            quoted = not quoted
        elif sign == "}" and not quoted:
            return at + 1
        at += 1
    return 0


def _unescape(value: str) -> str:
    if "\\" not in value:
        return value
    return _ESCAPE.sub(lambda m: "\n" if m[1] == "n" else m[1], value)


def read_value(value: float) -> float | None:
    """Return a measured value; not-a-number, infinity and DCGM's sentinels say that there is none."""
    return None if not math.isfinite(value) or value in SENTINELS else value


def total(samples: Iterable[Sample]) -> float | None:
    """Return the sum of samples, None when there are none."""
    values = [v for s in samples if (v := read_value(s.value)) is not None]
    return read_value(sum(values)) if values else None
