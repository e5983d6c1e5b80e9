"""One wave of a rollout: its states, its strategy, and the one next thing to do for its unit. Pure.

A wave does not remember what it did: it compares its unit with what the unit should be (release, gate, weight),
forward and back alike. So a crash anywhere repeats a decision and nothing else.
Source: RELIABILITY.md section 4 (Wave), UI.md 5.2, manual A 8.1.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from fleet.rules.message import said, say

PENDING, AWAITING, DRAINING, REPLACING = "pending", "awaiting_approval", "draining", "replacing"
WARMING, SHIFTING, OBSERVING = "warming", "shifting", "observing"
PASSED, FAILED, UNDONE, SKIPPED = "passed", "failed", "rolled_back", "skipped"
RETIRED = "retired"  # a canary that did its work, or was taken back
_AT_WORK = frozenset({DRAINING, REPLACING, WARMING, SHIFTING, OBSERVING})

WAVE_MOVES: dict[str, frozenset[str]] = {
    PENDING: frozenset({AWAITING, SKIPPED, *_AT_WORK}),
    AWAITING: frozenset({PENDING, SKIPPED, *_AT_WORK}),
    **{state: _AT_WORK - {state} | {PASSED, FAILED, UNDONE, RETIRED} for state in _AT_WORK},
    PASSED: frozenset({UNDONE, RETIRED, FAILED, *_AT_WORK}),
    FAILED: frozenset({UNDONE, RETIRED, *_AT_WORK}),
    UNDONE: frozenset(),
    RETIRED: frozenset(),
    SKIPPED: frozenset(),
}
FORWARD, BACK = "forward", "back"
FULL_WEIGHT = 100


class BadStrategy(ValueError):
    """A strategy that cannot be meant; `sentence` names the field, what was expected and what was found."""

    def __init__(self, sentence: str) -> None:
        super().__init__(said(sentence))
        self.sentence = sentence


FIELD_WORDS = {
    "canary_weights": say("Canary weights, %"),
    "wave_weights": say("Weights of a unit, %"),
    "observe_s": say("Window at each weight, s"),
    "min_requests": say("Requests needed in a window"),
    "drain_deadline_s": say("Drain deadline, s"),
    "on_trigger": say("When a trigger fires"),
    "approve": say("Signatures"),
}


@dataclass(frozen=True)
class Strategy:
    """How a pool is taken to another release. Times in seconds, weights in percent of a full unit."""

    canary_weights: tuple[int, ...] = (1, 5, 25)
    wave_weights: tuple[int, ...] = (10, FULL_WEIGHT)
    observe_s: float = 600.0
    min_requests: int = 20
    drain_deadline_s: float = 600.0
    on_trigger: str = "ask"  # or rollback
    approve: str = "every"  # or canary: the rollout's own approval opens all waves

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> "Strategy":
        """Read the stored form. Raises BadStrategy naming the field, what was expected and what was found."""
        unknown = sorted(set(data) - set(cls.__dataclass_fields__))
        if unknown:
            raise BadStrategy(
                say(
                    "strategy: expected only known fields, found %(found)s",
                    found=", ".join(unknown),
                )
            )
        values: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list) else v for k, v in data.items()
        }
        strategy = cls(**values)
        strategy._check()
        return strategy

    def _check(self) -> None:
        for name in ("canary_weights", "wave_weights"):
            weights = getattr(self, name)
            whole = all(isinstance(w, int) and 1 <= w <= FULL_WEIGHT for w in weights)
            if not weights or not whole or list(weights) != sorted(set(weights)):
                raise BadStrategy(
                    say(
                        "%(field)s: expected rising percents of 1 to 100, found %(found)s",
                        field=FIELD_WORDS[name],
                        found=_listed(weights),
                    )
                )
        if self.wave_weights[-1] != FULL_WEIGHT:
            found = _listed(self.wave_weights)
            raise BadStrategy(
                say(
                    "%(field)s: expected 100 at the end, found %(found)s",
                    field=FIELD_WORDS["wave_weights"],
                    found=found,
                )
            )
        for name in ("observe_s", "drain_deadline_s", "min_requests"):
            value = getattr(self, name)
            if not isinstance(value, int | float) or not 0 <= value <= 86_400:
                raise BadStrategy(
                    say(
                        "%(field)s: expected 0 to 86400, found %(found)s",
                        field=FIELD_WORDS[name],
                        found=value,
                    )
                )
        for name, allowed in (
            ("on_trigger", ("ask", "rollback")),
            ("approve", ("every", "canary")),
        ):
            if getattr(self, name) not in allowed:
                raise BadStrategy(
                    say(
                        "%(field)s: expected one of %(allowed)s, found %(found)s",
                        field=FIELD_WORDS[name],
                        allowed=", ".join(allowed),
                        found=getattr(self, name),
                    )
                )


def _listed(weights: Any) -> str:
    return ", ".join(map(str, weights)) or "-"


# -- one wave


@dataclass(frozen=True)
class UnitSeen:
    """A unit as it is. `release` is that of its live launch, empty without one."""

    release: str = ""
    launch: str = ""  # state of the live launch
    failed_release: str = ""  # release of the newest launch of this wave that failed
    failure: str = ""
    drain: str = ""  # state of the newest drain of this wave and direction
    gate: str = ""  # state of the gate run of the live launch
    gate_explanation: str = ""
    weight: int = 0  # desired
    weight_agrees: bool = False  # read back equal, after the last order
    is_known: bool = True  # every node reachable


@dataclass(frozen=True)
class WaveSeen:
    """A wave and its unit. `step` counts the weights that were reached and observed."""

    number: int
    unit: str
    is_canary: bool
    state: str
    step: int
    now: datetime
    observing_since: datetime | None
    requests: int | None  # answered by the new revision's unit since observing began
    has_start: bool  # approved, or needs no approval of its own
    old_release: str  # empty for a canary: rolled back means gone
    new_release: str
    seen: UnitSeen
    strategy: Strategy = field(default_factory=Strategy)
    void: str = ""  # why a signature that was given opens nothing
    unread: tuple[str, ...] = ()  # triggers of the rollout whose readings stopped

    @property
    def weights(self) -> tuple[int, ...]:
        return self.strategy.canary_weights if self.is_canary else self.strategy.wave_weights


@dataclass(frozen=True)
class WaveMove:
    """`to`: the wave's state (None: stays). `do`: what is to be done now: drain, stop, launch, gate, weight or ''.

    `value`: the release to launch or the weight to set. `halts`: why the whole rollout must pause.
    """

    to: str | None
    explanation: str
    do: str = ""
    value: str = ""
    halts: str = ""
    next_step: bool = False


def decide_wave(wave: WaveSeen, direction: str) -> WaveMove:
    """Decide the next move of the wave at work, forward to the new release or back to the old one."""
    if direction == FORWARD and not wave.has_start:
        text = wave.void or say("Waits for approval.")
        return WaveMove(AWAITING if wave.state == PENDING else None, text)
    if direction == FORWARD and wave.state in _AT_WORK and not wave.seen.is_known:
        return WaveMove(None, say("A node of %(unit)s does not answer.", unit=wave.unit))
    target = wave.new_release if direction == FORWARD else wave.old_release
    move = _leave_other(wave, target) or _arrive(wave, target, direction)
    if move is None:
        move = _weigh(wave, direction)
    return move if move.to != wave.state else _stay(move)


def _stay(move: WaveMove) -> WaveMove:
    return WaveMove(None, move.explanation, move.do, move.value, move.halts, move.next_step)


def _leave_other(wave: WaveSeen, target: str) -> WaveMove | None:
    """Drain with proof, then stop with proof, whatever runs there that is not the target."""
    seen = wave.seen
    if not seen.release or seen.release == target:
        return None
    if not seen.is_known:
        return WaveMove(None, say("A node of %(unit)s does not answer.", unit=wave.unit))
    if seen.launch == "stopping":
        return WaveMove(REPLACING, say("Stopping every rank of %(unit)s.", unit=wave.unit))
    if seen.drain in ("drained", "cut"):
        return WaveMove(REPLACING, say("Drained; stopping %(unit)s.", unit=wave.unit), do="stop")
    if seen.drain:
        return WaveMove(DRAINING, say("Draining %(unit)s.", unit=wave.unit))
    return WaveMove(DRAINING, say("Draining %(unit)s.", unit=wave.unit), do="drain")


def _arrive(wave: WaveSeen, target: str, direction: str) -> WaveMove | None:
    """Launch the target and wait for its golden warm-up; forward also for its gate."""
    seen = wave.seen
    if not target:
        return WaveMove(RETIRED, say("%(unit)s is gone again.", unit=wave.unit))
    if not seen.release:
        if seen.failed_release == target:
            text = say("%(unit)s did not come up: %(why)s", unit=wave.unit, why=seen.failure)
            return WaveMove(FAILED, text, halts=text)
        text = say("Launching %(release)s on %(unit)s.", release=target, unit=wave.unit)
        return WaveMove(REPLACING, text, do="launch", value=target)
    if seen.launch != "ready":
        state = WARMING if seen.launch == "warming" else REPLACING
        return WaveMove(state, say("%(unit)s: %(state)s.", unit=wave.unit, state=seen.launch))
    return _gate(wave) if direction == FORWARD else None


def _gate(wave: WaveSeen) -> WaveMove | None:
    seen = wave.seen
    if seen.gate == "passed":
        return None
    if not seen.gate:
        return WaveMove(WARMING, say("Ready; the gate begins."), do="gate")
    if seen.gate in ("queued", "running"):
        return WaveMove(WARMING, say("The gate runs."))
    if seen.gate == "failed":
        text = say("The gate failed: %(why)s", why=seen.gate_explanation)
        return WaveMove(FAILED, text, halts=text)
    text = say("The gate proved nothing: %(why)s", why=seen.gate_explanation)
    return WaveMove(WARMING, text, halts=text)


def _weigh(wave: WaveSeen, direction: str) -> WaveMove:
    """Bring the unit to its weight by steps, each read back and observed; back again at once."""
    seen = wave.seen
    if direction == BACK:
        return _set_weight(wave, FULL_WEIGHT) or WaveMove(
            UNDONE, say("%(unit)s serves its old release again.", unit=wave.unit)
        )
    if wave.step >= len(wave.weights):
        return WaveMove(PASSED, say("%(unit)s passed.", unit=wave.unit))
    setting = _set_weight(wave, wave.weights[wave.step])
    if setting:
        return setting
    is_full = seen.weight == FULL_WEIGHT and wave.weights[-1] == FULL_WEIGHT
    if is_full and len(wave.weights) > 1 and not wave.is_canary:
        # The low weight was observed; the full one needs its read-back only. A canary is there to be observed.
        return WaveMove(PASSED, say("%(unit)s serves at full weight.", unit=wave.unit))
    return _observe(wave)


def _set_weight(wave: WaveSeen, weight: int) -> WaveMove | None:
    if wave.seen.weight != weight:
        text = say("Weight of %(unit)s to %(weight)s %%.", unit=wave.unit, weight=weight)
        return WaveMove(SHIFTING, text, do="weight", value=str(weight))
    if not wave.seen.weight_agrees:
        return WaveMove(SHIFTING, say("Waiting for the proxy to read back the weight."))
    return None


def _observe(wave: WaveSeen) -> WaveMove:
    since = wave.observing_since
    if wave.state != OBSERVING or since is None:
        return WaveMove(OBSERVING, say("Observing at %(weight)s %%.", weight=wave.seen.weight))
    left_s = wave.strategy.observe_s - (wave.now - since) / timedelta(seconds=1)
    if left_s > 0:
        text = say(
            "Observing at %(weight)s %%; requests so far: %(requests)s.",
            weight=wave.seen.weight,
            requests="-" if wave.requests is None else wave.requests,
        )
        return WaveMove(OBSERVING, text)
    if wave.unread:
        # Nothing was judged of the end of the window: it goes on until something is.
        names = ", ".join(wave.unread)
        return WaveMove(OBSERVING, say("Observing on: no data of %(names)s.", names=names))
    if wave.requests is None or wave.requests < wave.strategy.min_requests:
        text = say(
            "Inconclusive. Requests in the window: %(found)s, needed: %(needed)s.",
            found="-" if wave.requests is None else wave.requests,
            needed=wave.strategy.min_requests,
        )
        return WaveMove(OBSERVING, text, halts=text)
    return WaveMove(SHIFTING, say("Observed; on to the next weight."), next_step=True)
