"""What a bench target is: a registered function that measures and says whether the need is met.

Rules: same ground, same run, interleaved with its peer, medians; a target fails on a ratio or a count,
never on an absolute time of this machine.
"""

import os
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.bench.ground import Ground


class Skip(Exception):
    """The target cannot be measured here; the text is the reason."""


@dataclass(frozen=True)
class Seconds:
    """A time, printed with its unit."""

    value: float

    def __str__(self) -> str:
        return f"{self.value:.2f}s" if self.value >= 0.1 else f"{self.value * 1000:.1f}ms"


@dataclass(frozen=True)
class Outcome:
    """What one target found; `values` are printed in their order."""

    is_met: bool
    values: dict[str, "float | int | str | Seconds"]


Measure = Callable[["Ground"], Outcome]
TARGETS: dict[str, Measure] = {}


def target(name: str) -> Callable[[Measure], Measure]:
    """Register a measuring function under the id that `make bench ONLY=` takes."""

    def register(measure: Measure) -> Measure:
        if name in TARGETS:
            raise ValueError(f"{name}: expected one function, found two")
        TARGETS[name] = measure
        return measure

    return register


# Fewer only for a look in passing; the figures that count have five.
REPS = int(os.environ.get("REPS", "5"))


def interleave(ours: Callable[[], float], peer: Callable[[], float]) -> tuple[float, float]:
    """Run both in turns, so that the machine's load falls on both; return the medians."""
    pairs = [(ours(), peer()) for _ in range(REPS)]
    return (
        statistics.median(mine for mine, _ in pairs),
        statistics.median(theirs for _, theirs in pairs),
    )
