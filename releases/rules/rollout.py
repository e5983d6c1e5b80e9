"""The life of a rollout: its states, the guards before a wave, and the decision of one tick. Pure.

Source: RELIABILITY.md section 4 (Rollout), UI.md 5.1 and 5.2, manual A 8.1, 13.
"""

from dataclasses import dataclass

from fleet.rules.message import say
from releases.rules.waves import (
    AWAITING,
    BACK,
    FORWARD,
    PASSED,
    PENDING,
    RETIRED,
    SKIPPED,
    UNDONE,
    Strategy,
    WaveMove,
    WaveSeen,
    decide_wave,
)

DRAFT, SUBMITTED, APPROVED, RUNNING, PAUSED = "draft", "submitted", "approved", "running", "paused"
ROLLING_BACK, ROLLED_BACK, ROLLBACK_FAILED = "rolling_back", "rolled_back", "rollback_failed"
SUCCEEDED, CANCELLED = "succeeded", "cancelled"

ROLLOUT_MOVES: dict[str, frozenset[str]] = {
    DRAFT: frozenset({SUBMITTED, CANCELLED}),
    SUBMITTED: frozenset({APPROVED, DRAFT, CANCELLED}),
    APPROVED: frozenset({RUNNING, CANCELLED}),
    RUNNING: frozenset({PAUSED, SUCCEEDED, ROLLING_BACK}),
    PAUSED: frozenset({RUNNING, ROLLING_BACK}),
    ROLLING_BACK: frozenset({ROLLED_BACK, ROLLBACK_FAILED}),
    ROLLBACK_FAILED: frozenset({ROLLING_BACK}),
    ROLLED_BACK: frozenset(),
    SUCCEEDED: frozenset(),
    CANCELLED: frozenset(),
}

# -- guards before a wave


@dataclass(frozen=True)
class GuardFacts:
    """What the approval card shows and its digest binds: the state of the world before a wave starts."""

    unit: str
    old_release: str
    new_release: str
    plan_sha256: str
    capacity_after: int  # serving units of the pool while this one is out
    capacity_promised: int
    spares_after: int
    spare_floor: int
    open_incidents: tuple[str, ...]
    fired_triggers: tuple[str, ...]
    silent_triggers: tuple[str, ...]
    unknown_units: tuple[str, ...]  # out of service until known
    other_rollout: str
    is_braked: bool


@dataclass(frozen=True)
class Guard:
    name: str
    is_met: bool
    found: str
    needed: str


def guards(facts: GuardFacts) -> list[Guard]:
    """Judge every guard of a wave; all must be met before it starts."""
    none = say("none")
    listed = [
        ("incidents", facts.open_incidents),
        ("triggers", facts.fired_triggers),
        ("unknown", facts.unknown_units),
        ("other_rollout", (facts.other_rollout,) if facts.other_rollout else ()),
    ]
    return [
        Guard(
            "capacity",
            facts.capacity_after >= facts.capacity_promised,
            str(facts.capacity_after),
            str(facts.capacity_promised),
        ),
        Guard(
            "spares",
            facts.spares_after >= facts.spare_floor,
            str(facts.spares_after),
            str(facts.spare_floor),
        ),
        *(Guard(name, not names, ", ".join(names) or none, none) for name, names in listed),
        Guard(
            "brake", not facts.is_braked, say("on") if facts.is_braked else say("off"), say("off")
        ),
    ]


# -- the rollout

_OVER = frozenset({PASSED, SKIPPED, RETIRED})
# Waves that a rollback leaves alone: nothing of them began, or it is undone.
UNTOUCHED = frozenset({PENDING, AWAITING, SKIPPED, UNDONE, RETIRED})


@dataclass(frozen=True)
class RolloutSeen:
    """One tick's facts. `fired`: a trigger's sentence. `guards_unmet`: sentences for the wave that would start.

    `out_of_bounds`: sentences on what a wave that has begun may not go on with: a node of its unit of which nothing
    is known, fewer other units than are promised.
    """

    state: str
    waves: tuple[WaveSeen, ...]
    strategy: Strategy
    fired: str = ""
    guards_unmet: tuple[str, ...] = ()
    is_braked: bool = False
    is_incident_open: str = ""
    out_of_bounds: tuple[str, ...] = ()


@dataclass(frozen=True)
class RolloutMove:
    """`to`: the rollout's state (None: stays). `wave`: the move of wave `number`."""

    to: str | None
    explanation: str
    number: int | None = None
    direction: str = FORWARD
    wave: WaveMove | None = None


def decide_rollout(seen: RolloutSeen) -> RolloutMove:
    """Decide the next move of a running, paused or returning rollout; other states wait for a person."""
    if seen.state == RUNNING:
        return _running(seen)
    if seen.state == ROLLING_BACK:
        return _rolling_back(seen)
    if seen.state == PAUSED and seen.fired and seen.strategy.on_trigger == "rollback":
        return RolloutMove(ROLLING_BACK, seen.fired)
    return RolloutMove(None, "")


def _running(seen: RolloutSeen) -> RolloutMove:
    if seen.fired:
        to = ROLLING_BACK if seen.strategy.on_trigger == "rollback" else PAUSED
        return RolloutMove(to, seen.fired)
    if seen.is_incident_open:
        return RolloutMove(PAUSED, seen.is_incident_open)
    if seen.is_braked:
        return RolloutMove(PAUSED, say("The mass-change brake is on."))
    if seen.out_of_bounds:
        return RolloutMove(PAUSED, seen.out_of_bounds[0])
    if retiring := _canary_to_retire(seen):
        return _retire(retiring)
    wave = next((w for w in seen.waves if w.state not in _OVER), None)
    if wave is None:
        return RolloutMove(SUCCEEDED, say("Every wave passed."))
    starts = wave.state in (PENDING, AWAITING) and wave.has_start
    if starts and seen.guards_unmet:
        return RolloutMove(
            None, say("Wave %(n)s waits: %(why)s", n=wave.number, why=seen.guards_unmet[0])
        )
    move = decide_wave(wave, FORWARD)
    return RolloutMove(
        PAUSED if move.halts else None, move.halts or move.explanation, wave.number, FORWARD, move
    )


def _canary_to_retire(seen: RolloutSeen) -> WaveSeen | None:
    """The canary gives its spare nodes back once every other wave is over."""
    if any(w.state not in _OVER for w in seen.waves if not w.is_canary):
        return None
    served = (w for w in seen.waves if w.is_canary and w.step >= len(w.weights))
    return next((w for w in served if w.state != RETIRED), None)


def _retire(canary: WaveSeen) -> RolloutMove:
    move = decide_wave(canary, BACK)
    return RolloutMove(None, move.explanation, canary.number, BACK, move)


def _rolling_back(seen: RolloutSeen) -> RolloutMove:
    """Undo the touched units, the newest first, one at a time."""
    touched = [w for w in reversed(seen.waves) if w.state not in UNTOUCHED]
    if not touched:
        return RolloutMove(
            ROLLED_BACK, say("Every touched unit serves its old release, read back.")
        )
    wave = touched[0]
    move = decide_wave(wave, BACK)
    if move.halts:
        return RolloutMove(ROLLBACK_FAILED, move.halts, wave.number, BACK, move)
    return RolloutMove(None, move.explanation, wave.number, BACK, move)
