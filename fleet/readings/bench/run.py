"""One summary of one load test, whatever printed it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from fleet.readings.told import tell

_VALUES_CAP = 400
_NUMBER = re.compile(r"[+-]?(?:\d{1,3}(?:,\d{3}){1,6}|\d{1,24})(?:\.\d{1,24})?(?:e[+-]?\d{1,3})?")


@dataclass
class BenchRun:
    """What a summary says. `values` hold finite numbers, or None where a word stands for none."""

    tool: str
    form: str
    line: int
    values: dict[str, Any] = field(default_factory=dict)
    labels: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    problem_lines: list[int] = field(default_factory=list)
    is_closed: bool = False

    def put(self, key: str, value: Any, line: int) -> None:
        """Take a value. A second, other one makes it unknown: two outputs are woven together."""
        if key in self.labels:
            if self.values.get(key) != value:
                self.values[key] = None
            woven = tell("a line stands twice in one summary: two outputs are woven together")
            self.note(woven, line)
            return
        if len(self.values) < _VALUES_CAP:
            self.labels[key] = line
            self.values[key] = value

    def note(self, problem: str, line: int | None = None) -> None:
        """Keep what makes this summary less than whole."""
        if problem not in self.problems:
            self.problems.append(problem)
        if line is not None and len(self.problem_lines) < 64:
            self.problem_lines.append(line)

    @property
    def is_whole(self) -> bool:
        return self.is_closed and not self.problems

    def number(self, key: str) -> float | None:
        """Return a value that is a number."""
        value = self.values.get(key)
        return value if isinstance(value, int | float) and not isinstance(value, bool) else None

    def numbers(self) -> Iterator[float]:
        yield from (n for key in self.values if (n := self.number(key)) is not None)


def parse_number(text: str) -> int | float | None:
    """Read a number with thousands separators; None for anything else, `inf` and `nan` included."""
    if not text.isascii() or _NUMBER.fullmatch(text) is None:
        return None
    plain = text.replace(",", "")
    if plain.lstrip("+-").isdigit():
        return int(plain)
    return finite(float(plain))


def finite(value: Any) -> Any:
    """Return the value, None for infinity and NaN: neither is a measured quantity."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 2**63:
        return None  # JSON has no limit for integers; our own output and its readers have
    return None if isinstance(value, float) and not math.isfinite(value) else value


def plain_number(value: Any) -> int | float | None:
    """Return a value of a JSON object that is a finite number, else None."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return finite(value) if is_number else None


def contradictions(run: BenchRun) -> Iterator[str]:
    """Yield rates that do not follow from the counts and the duration beside them.

    They are worked out from the same figures by the tool, so only lost or foreign lines part them.
    """
    duration = run.number("duration_s")
    if run.tool not in ("vllm", "sglang") or not duration or duration < 0.1:
        return
    for count_key, rate_key in (("successful", "req_s"), ("output_tokens", "out_tok_s")):
        count, rate = run.number(count_key), run.number(rate_key)
        if count is None or rate is None:
            continue
        # Two decimals are printed of the rate and of the duration.
        wanted = count / duration
        if abs(rate - wanted) > 0.006 + wanted * (0.01 + 0.006 / duration):
            yield tell(
                "%(key)s %(rate)s does not follow from %(count)s in %(duration)s s",
                key=rate_key,
                rate=f"{rate:g}",
                count=f"{count:g}",
                duration=f"{duration:g}",
            )
