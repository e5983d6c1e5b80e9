"""On which leaves copies of weights must rest, because a unit there serves badly or nobody knows how. Pure.

Source: 384-card manual, section 12.8: a storm of copies slows down what serves. What is judged is what stops a
rollout too (rules/triggers.py): golden answers and the rate of errors.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fleet.rules.message import say
from releases.rules.triggers import (
    FIRED,
    NO_DATA,
    UNREAD,
    ErrorReading,
    GoldenReading,
    Limits,
    judge_errors,
    judge_golden,
)


@dataclass(frozen=True)
class UnitSeen:
    """One unit that has traffic: the leaves of its nodes, its golden probe, and what the proxy counted of it."""

    leaves: frozenset[int]
    golden: GoldenReading
    errors: ErrorReading


def leaves_pressed(units: Iterable[UnitSeen], limits: Limits) -> dict[int, str]:
    """Return leaf -> why copies rest there; the first unit by name speaks for a leaf. Unknown is never well."""
    found: dict[int, str] = {}
    for unit in sorted(units, key=lambda one: one.golden.unit):
        if why := _breach(unit, limits):
            for leaf in unit.leaves:
                found.setdefault(leaf, why)
    return found


def _breach(unit: UnitSeen, limits: Limits) -> str:
    name = unit.golden.unit
    golden, errors = judge_golden((unit.golden,), limits), judge_errors(unit.errors, limits)
    if golden.state == FIRED:
        return say("Rests while a unit of this leaf serves badly: %(found)s.", found=golden.found)
    if errors.state == FIRED:
        return say(
            "Rests while %(unit)s of this leaf answers with errors: %(found)s.",
            unit=name,
            found=errors.found,
        )
    if golden.state == NO_DATA:
        return say(
            "Rests while nobody knows how %(unit)s of this leaf serves: its golden probe was not asked lately.",
            unit=name,
        )
    if errors.found == UNREAD:
        return say(
            "Rests while nobody knows how %(unit)s of this leaf serves: the proxy was not read lately.",
            unit=name,
        )
    return ""
