"""Rollouts against a fake pool: every `do` is carried out late, anything may fail, and the rules must hold."""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.rules.message import said
from releases.rules import rollout as rules
from releases.rules import waves
from releases.rules.waves import Strategy, UnitSeen, WaveSeen

NOW = datetime(2026, 11, 30, 4, 0, tzinfo=UTC)
OLD, NEW = "REL-0001", "REL-0002"
FAST = Strategy(canary_weights=(1, 25), observe_s=60.0, min_requests=5)


@dataclass
class Pool:
    """Units with their waves; time and effects advance by `pass_time`."""

    strategy: Strategy = FAST
    units: int = 3
    state: str = rules.RUNNING
    now: datetime = NOW
    fired: str = ""
    requests: int | None = 50
    gate_ends: str = "passed"
    launch_ends: str = "ready"
    seen: dict[int, UnitSeen] = field(default_factory=dict)
    wave: dict[int, WaveSeen] = field(default_factory=dict)
    lowest: int = 99

    def __post_init__(self) -> None:
        for number in range(self.units + 1):
            is_canary = number == 0
            self.seen[number] = (
                UnitSeen()
                if is_canary
                else UnitSeen(release=OLD, launch="ready", weight=100, weight_agrees=True)
            )
            self.wave[number] = WaveSeen(
                number=number,
                unit="canary" if is_canary else f"r{number}",
                is_canary=is_canary,
                state=waves.PENDING,
                step=0,
                now=self.now,
                observing_since=None,
                requests=None,
                has_start=True,
                old_release="" if is_canary else OLD,
                new_release=NEW,
                seen=self.seen[number],
                strategy=self.strategy,
            )

    def snapshot(self) -> rules.RolloutSeen:
        whole = tuple(
            replace(w, now=self.now, seen=self.seen[n], requests=self.requests)
            for n, w in sorted(self.wave.items())
        )
        return rules.RolloutSeen(self.state, whole, self.strategy, fired=self.fired)

    def tick(self) -> rules.RolloutMove:
        move = rules.decide_rollout(self.snapshot())
        if move.to:
            assert move.to in rules.ROLLOUT_MOVES[self.state]
            self.state = move.to
        if move.wave and move.number is not None:
            self._carry_out(move.number, move.wave)
        self.lowest = min(self.lowest, self.serving())
        return move

    def _carry_out(self, number: int, move: waves.WaveMove) -> None:
        wave, unit = self.wave[number], self.seen[number]
        if move.to:
            assert move.to in waves.WAVE_MOVES[wave.state], (wave.state, move.to)
            since = self.now if move.to == waves.OBSERVING else None
            wave = replace(wave, state=move.to, observing_since=since)
        if move.next_step:
            wave = replace(wave, step=wave.step + 1)
        self.wave[number] = wave
        self.seen[number] = _apply(unit, move)

    def pass_time(self, seconds: float = 10.0) -> None:
        """Everything under way gets one step further."""
        self.now += timedelta(seconds=seconds)
        for number, unit in self.seen.items():
            self.seen[number] = self._further(unit)

    def _further(self, unit: UnitSeen) -> UnitSeen:
        if unit.drain == "draining":
            return replace(unit, drain="drained")
        if unit.launch == "stopping":
            return replace(unit, release="", launch="", drain="", gate="", weight=0)
        if unit.launch == "loading":
            return replace(unit, launch="warming")
        if unit.launch == "warming":
            if self.launch_ends == "failed" and unit.release == NEW:
                return UnitSeen(failed_release=NEW, failure="out of memory")
            return replace(unit, launch="ready")
        if unit.gate == "running":
            return replace(unit, gate=self.gate_ends, gate_explanation="told so")
        return replace(unit, weight_agrees=True)

    def halt(self) -> None:
        """Pause as people do: nothing that no node has begun is left (releases/services/rollout_entries.py)."""
        self.state = rules.PAUSED
        for number, unit in self.seen.items():
            if unit.launch == "loading":
                self.seen[number] = UnitSeen()
            elif unit.drain and unit.launch == "ready":
                self.seen[number] = replace(unit, drain="", weight=100, weight_agrees=False)

    def serving(self) -> int:
        return sum(
            1
            for number, unit in self.seen.items()
            if number and unit.launch == "ready" and unit.weight > 0 and not unit.drain
        )

    def run(self, until: tuple[str, ...], ticks: int = 2000) -> "Pool":
        for _ in range(ticks):
            if self.state in until:
                return self
            self.tick()
            self.pass_time()
        raise AssertionError(f"still {self.state}: {self.wave}")


def _apply(unit: UnitSeen, move: waves.WaveMove) -> UnitSeen:
    match move.do:
        case "drain":
            assert unit.release
            return replace(unit, drain="draining", weight=0, weight_agrees=False)
        case "stop":
            assert unit.drain in ("drained", "cut"), "never stopped before its drain is proved"
            return replace(unit, launch="stopping")
        case "launch":
            assert not unit.release, "never two launches of one unit"
            return UnitSeen(release=move.value, launch="loading")
        case "gate":
            return replace(unit, gate="running")
        case "weight":
            assert unit.launch == "ready"
            assert unit.gate == "passed" or unit.release == OLD, "no traffic without a gate"
            return replace(unit, weight=int(move.value), weight_agrees=False, drain="")
    return unit


def test_every_wave_passes_and_the_canary_gives_its_spare_back():
    pool = Pool().run((rules.SUCCEEDED,))
    assert [pool.seen[n].release for n in (1, 2, 3)] == [NEW] * 3
    assert {pool.seen[n].weight for n in (1, 2, 3)} == {100}
    assert pool.seen[0].release == ""
    assert pool.wave[0].state == waves.RETIRED
    assert pool.lowest == 2, "one unit out at a time"


def test_a_canary_at_full_weight_is_observed_there_and_gives_its_spare_back():
    pool = Pool(strategy=replace(FAST, canary_weights=(10, 100))).run((rules.SUCCEEDED,))
    assert (pool.wave[0].state, pool.wave[0].step) == (waves.RETIRED, 2)
    assert pool.seen[0].release == ""


@pytest.mark.parametrize("strategy", [FAST, replace(FAST, on_trigger="rollback")])
@pytest.mark.parametrize("after", range(0, 60, 4))
def test_a_trigger_stops_it_at_once_and_the_way_back_restores_the_whole_set(strategy, after):
    pool = Pool(strategy=strategy)
    for _ in range(after):
        pool.tick()
        pool.pass_time()
    pool.fired = "golden: wrong answers"
    before = dict(pool.seen)
    pool.tick()
    assert pool.seen == before, "nothing new starts"
    assert pool.state == (rules.PAUSED if strategy.on_trigger == "ask" else rules.ROLLING_BACK)
    pool.state = rules.ROLLING_BACK
    pool.run((rules.ROLLED_BACK,))
    assert [pool.seen[n].release for n in (1, 2, 3)] == [OLD] * 3
    assert all(pool.seen[n].weight == 100 and pool.seen[n].weight_agrees for n in (1, 2, 3))
    assert pool.seen[0].release == ""
    assert pool.lowest >= 2


@pytest.mark.parametrize(
    ("gate_ends", "state"), [("failed", "failed"), ("inconclusive", "warming")]
)
def test_what_a_gate_did_not_pass_gets_no_traffic(gate_ends, state):
    pool = Pool(gate_ends=gate_ends).run((rules.PAUSED,))
    assert pool.wave[0].state == state
    assert pool.seen[0].weight == 0


def test_a_canary_without_traffic_is_inconclusive_and_not_passed():
    pool = Pool(requests=0).run((rules.PAUSED,))
    assert pool.wave[0].state == waves.OBSERVING
    assert "Inconclusive" in said(pool.tick().explanation or "Inconclusive")


def test_a_unit_that_does_not_come_up_pauses_the_rollout_and_can_be_undone():
    pool = Pool(launch_ends="failed").run((rules.PAUSED,))
    assert pool.wave[0].state == waves.FAILED
    pool.state = rules.ROLLING_BACK
    pool.run((rules.ROLLED_BACK,))


def test_an_unapproved_wave_waits_and_nothing_is_done():
    pool = Pool()
    pool.wave[0] = replace(pool.wave[0], has_start=False)
    move = pool.tick()
    assert move.wave.to == waves.AWAITING
    assert move.wave.do == ""


def test_a_unit_with_a_silent_node_is_not_stopped():
    pool = Pool()
    wave = replace(pool.wave[1], seen=replace(pool.seen[1], is_known=False))
    assert waves.decide_wave(wave, waves.FORWARD).do == ""


@settings(max_examples=60)
@given(
    script=st.lists(
        st.sampled_from(["tick", "time", "pause", "resume", "back", "twice"]), max_size=120
    ),
    data=st.data(),
)
def test_whatever_happens_in_between_the_way_back_ends_at_the_old_release(script, data):
    pool = Pool(units=2)
    for word in script:
        match word:
            case "tick":
                pool.tick()
            case "twice":
                pool.tick()
                pool.tick()
            case "time":
                pool.pass_time(data.draw(st.sampled_from([1.0, 70.0])))
            case "pause" if pool.state == rules.RUNNING:
                pool.halt()
            case "resume" if pool.state == rules.PAUSED:
                pool.state = rules.RUNNING
            case "back" if pool.state in (rules.RUNNING, rules.PAUSED):
                pool.state = rules.ROLLING_BACK
        assert pool.serving() >= 1
    if pool.state in (rules.RUNNING, rules.PAUSED):
        pool.state = rules.ROLLING_BACK
    pool.run((rules.ROLLED_BACK, rules.SUCCEEDED))
    wanted = OLD if pool.state == rules.ROLLED_BACK else NEW
    assert [pool.seen[n].release for n in (1, 2)] == [wanted] * 2


FACTS = rules.GuardFacts("r1", OLD, NEW, "0" * 64, 6, 6, 4, 3, (), (), (), (), "", False)


@pytest.mark.parametrize(
    ("change", "unmet"),
    [
        ({}, []),
        ({"capacity_after": 5}, ["capacity"]),
        ({"spares_after": 2}, ["spares"]),
        ({"open_incidents": ("INC-0001",)}, ["incidents"]),
        ({"fired_triggers": ("golden",)}, ["triggers"]),
        ({"unknown_units": ("r2",)}, ["unknown"]),
        ({"other_rollout": "RO-0002"}, ["other_rollout"]),
        ({"is_braked": True}, ["brake"]),
    ],
)
def test_each_guard_alone_keeps_a_wave_from_starting(change, unmet):
    judged = rules.guards(replace(FACTS, **change))
    assert [guard.name for guard in judged if not guard.is_met] == unmet
    assert all(said(guard.found) and said(guard.needed) for guard in judged)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ({"wave_weights": [10, 50]}, "expected 100 at the end"),
        ({"canary_weights": [5, 1]}, "rising percents"),
        ({"canary_weights": []}, "rising percents"),
        ({"on_trigger": "hope"}, "expected one of"),
        ({"observe": 3}, "known fields"),
        ({"observe_s": -1}, "0 to 86400"),
    ],
)
def test_a_strategy_that_cannot_be_meant_is_refused_in_words(data, told):
    with pytest.raises(ValueError, match=told):
        Strategy.from_data(data)
