"""Checks what a profile may say: which readings can be gold, and how a person may change a key. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from fleet.rules.golden import IGNORE, RANGE, RATIO, TOLERANCES, Found, Wanted, is_number
from fleet.rules.golden_defaults import ONE_WORD, tolerance_of
from fleet.rules.message import foreign, said, say

# Without these a profile says nothing of the cards (384-card manual, section 4.3).
NEEDED = ("gpu_count", "gpu_name", "driver_version")
TEXT_MAX = 200


class BadKey(Exception):
    """A change of a key that cannot be; the message is a stored sentence."""

    def __init__(self, sentence: str) -> None:
        super().__init__(said(sentence))
        self.sentence = sentence


@dataclass(frozen=True)
class KeyEdit:
    """What a person wants of a key, as typed. `value` None keeps it; lists and matrices are only taken from a node."""

    tolerance: str
    ratio: str = ""
    low: str = ""
    high: str = ""
    value: str | None = None


def wanted_of(found: Mapping[str, Found], left_out: Iterable[str] = ()) -> list[Wanted]:
    """Return the keys of a profile taken from these readings, in order; what has no value is no key."""
    keys = []
    for key in sorted(set(found) - set(left_out)):
        if not _is_empty(found[key].value):
            rule = tolerance_of(key)
            numbers = {"ratio": rule.ratio, "low": rule.low, "high": rule.high}
            keys.append(Wanted(key, found[key].value, rule.tolerance, **numbers))
    return keys


def take_problems(
    found: Mapping[str, Found], gpu_count: int, left_out: Iterable[str] = ()
) -> list[str]:
    """Say everything that keeps a node's readings from being gold; `gpu_count` is what its class has."""
    problems, out = [], set(left_out)
    for key in sorted({*found, *NEEDED} - (out - set(NEEDED))):
        reading = found.get(key)
        if reading is None or _is_empty(reading.value):
            if tolerance_of(key).tolerance != IGNORE:
                problems.append(say("%(key)s: no reading", key=key))
        elif reading.is_expired and tolerance_of(key).tolerance != IGNORE:
            problems.append(say("%(key)s: the reading has expired", key=key))
        elif key in ONE_WORD and isinstance(reading.value, dict):
            problems.append(say("%(key)s: the cards disagree", key=key))
        elif key == "gpu_count" and reading.value != gpu_count:
            problems.append(
                say(
                    "%(key)s: expected %(expected)s, found %(found)s",
                    key=key,
                    expected=gpu_count,
                    found=foreign(str(reading.value)[:20]),
                )
            )
    return problems


def edited(want: Wanted, edit: KeyEdit) -> Wanted:
    """Return a key as a person wants it. Raises BadKey, which says what was expected and found."""
    if edit.tolerance not in TOLERANCES:
        raise BadKey(
            say(
                "%(key)s: expected one of %(known)s, found %(found)s.",
                key=want.key,
                known=", ".join(TOLERANCES),
                found=edit.tolerance[:20],
            )
        )
    value = want.value if edit.value is None else _value(want, edit.value)
    ratio = _number(want.key, edit.ratio) if edit.tolerance == RATIO else None
    low = _number(want.key, edit.low) if edit.tolerance == RANGE else None
    high = _number(want.key, edit.high) if edit.tolerance == RANGE else None
    changed = replace(want, value=value, tolerance=edit.tolerance, ratio=ratio, low=low, high=high)
    _check(changed)
    return changed


def is_scalar(value: Any) -> bool:
    """Tell whether a value can be typed into one field."""
    return isinstance(value, str | int | float)


def _check(want: Wanted) -> None:
    if want.tolerance == RATIO and (want.ratio is None or not 0 < want.ratio <= 1):
        raise BadKey(say("%(key)s: expected a ratio above 0 and up to 1.", key=want.key))
    if want.tolerance == RANGE:
        if want.low is None and want.high is None:
            raise BadKey(say("%(key)s: expected a lowest or a highest value.", key=want.key))
        if want.low is not None and want.high is not None and want.low > want.high:
            raise BadKey(say("%(key)s: expected a lowest value below the highest.", key=want.key))
    if want.tolerance in (RATIO, RANGE) and not _all_numbers(want.value):
        raise BadKey(
            say("%(key)s: is no number, so it can only be equal or ignored.", key=want.key)
        )


def _all_numbers(value: Any) -> bool:
    if isinstance(value, dict):
        return bool(value) and all(_all_numbers(part) for part in value.values())
    if isinstance(value, list):
        return bool(value) and all(_all_numbers(part) for part in value)
    return is_number(value)


def _value(want: Wanted, typed: str) -> Any:
    if not is_scalar(want.value):
        raise BadKey(
            say(
                "%(key)s: a list or a matrix is not typed. Take a profile from a node.",
                key=want.key,
            )
        )
    text = typed.strip()
    if not text or len(text) > TEXT_MAX:
        raise BadKey(
            say("%(key)s: expected a value of 1 to %(max)s characters.", key=want.key, max=TEXT_MAX)
        )
    if isinstance(want.value, bool):
        return _truth(want.key, text)
    if isinstance(want.value, int | float):
        number = _number(want.key, text)
        return int(number) if number is not None and number.is_integer() else number
    return foreign(text)


def _truth(key: str, text: str) -> bool:
    known = {"true": True, "false": False}
    if text.lower() not in known:
        raise BadKey(say("%(key)s: expected true or false, found %(found)s.", key=key, found=text))
    return known[text.lower()]


def _number(key: str, text: str) -> float | None:
    if not text.strip():
        return None
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise BadKey(
            say("%(key)s: expected a number, found %(found)s.", key=key, found=foreign(text[:20]))
        )
    return number


def _is_empty(value: Any) -> bool:
    return value is None or value == ""
