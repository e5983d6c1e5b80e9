"""What is answered: an engine's golden answer, its metrics, a port's text. Pure; the watch asks and records."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from fleet.execution.message import say

FOUND_CAP = 2000
_TOKEN_COUNTER = "_tokens_total"


@dataclass(frozen=True)
class Scraped:
    """The result of one scrape. `error` is empty when it was good."""

    status: int | None = None
    latency_ms: float | None = None
    error: str = ""
    found: str = ""
    answer: str = ""
    values: dict[str, float] = field(default_factory=dict)

    @property
    def is_ok(self) -> bool:
        return not self.error


def judge_golden(status: int, body: bytes, expect: str, latency_ms: float) -> Scraped:
    """Compare an engine's answer with the one it must give."""
    if status != 200:
        return _bad(
            status, latency_ms, say("HTTP %(status)s, 200 expected", status=status), _head(body)
        )
    try:
        found = json.loads(body)["choices"][0]["message"]["content"]
    except (ValueError, KeyError, IndexError, TypeError):
        return _bad(status, latency_ms, say("the answer is not a chat completion"), _head(body))
    if not isinstance(found, str) or found != expect:
        error = say("the answer differs from the golden one")
        return _bad(status, latency_ms, error, str(found)[:FOUND_CAP])
    return Scraped(status, latency_ms, "", found[:FOUND_CAP])


def judge_metrics(status: int, body: bytes, keep: Iterable[str], latency_ms: float) -> Scraped:
    """Sum the wanted families over their series."""
    if status != 200:
        return _bad(status, latency_ms, say("HTTP %(status)s, 200 expected", status=status), "")
    values = sum_families(body, keep)
    if not values:
        return _bad(status, latency_ms, say("none of the wanted metrics is in the answer"), "")
    return Scraped(status, latency_ms, values=values)


def judge_exchange(body: bytes, latency_ms: float) -> Scraped:
    """Take what a port answered as text; whether it is whole is for its reader to say."""
    text = body.decode("utf-8", "replace").replace("\0", "\u2400")
    return Scraped(latency_ms=latency_ms, answer=text)


def sum_families(body: bytes, keep: Iterable[str]) -> dict[str, float]:
    """Return family -> sum over its series, for the wanted families that are there.

    A value that is no number (NaN) is left out: no reading is not 0.
    """
    wanted = {name.encode(): name for name in keep}
    sums: dict[str, float] = {}
    for line in body.split(b"\n"):
        if line[:1] == b"#" or not line:
            continue
        at, gap = line.find(b"{"), line.find(b" ")
        name = wanted.get(line[: at if 0 <= at < gap else gap])
        if name is None:
            continue
        value = _value(line[line.rfind(b"}") + 1 :] if at >= 0 else line[gap:])
        if value is not None:
            sums[name] = sums.get(name, 0.0) + value
    return sums


def token_counters(values: dict[str, float]) -> dict[str, float]:
    """Return the counters that move while an engine works."""
    return {name: value for name, value in values.items() if name.endswith(_TOKEN_COUNTER)}


def _value(rest: bytes) -> float | None:
    words = rest.split()
    try:
        value = float(words[0]) if words else math.nan
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _bad(status: int, latency_ms: float, error: str, found: str) -> Scraped:
    return Scraped(status, latency_ms, error, found)


def _head(body: bytes) -> str:
    return body[:FOUND_CAP].decode("utf-8", "replace").replace("\0", "\u2400")
