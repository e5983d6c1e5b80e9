"""How a launch by hand gets into traffic: decided from its gate, its pool and the gates of others."""

import pytest

from fleet.rules.message import said
from releases.rules import gates
from releases.rules.entry import AT_ONCE, TRIES, EntrySeen, decide_entry


def test_it_begins_with_its_gate_and_gets_nothing_before():
    move = decide_entry(EntrySeen(custom_weight=100))
    assert (move.begins_gate, move.weight) == (True, None)


@pytest.mark.parametrize("state", [gates.QUEUED, gates.RUNNING])
def test_while_its_gate_runs_it_waits_and_says_for_what(state):
    move = decide_entry(EntrySeen(custom_weight=100, gate=state, tries=1))
    assert (move.begins_gate, move.weight) == (False, None)
    assert said(move.explanation) == "It gets traffic when its gate has passed."


def test_a_passed_gate_gives_it_the_customs_weight():
    assert decide_entry(EntrySeen(custom_weight=100, gate=gates.PASSED)).weight == 100


@pytest.mark.parametrize("gate", ["", gates.PASSED, gates.FAILED])
def test_beside_a_release_that_serves_it_gets_nothing_by_itself(gate):
    move = decide_entry(EntrySeen(custom_weight=0, gate=gate))
    assert (move.begins_gate, move.weight) == (False, 0)


def test_only_so_many_gates_are_open_at_once():
    assert decide_entry(EntrySeen(100, others_open=AT_ONCE - 1)).begins_gate
    move = decide_entry(EntrySeen(100, others_open=AT_ONCE))
    assert not move.begins_gate
    assert "those of other units are open" in said(move.explanation)


@pytest.mark.parametrize("state", [gates.INCONCLUSIVE, gates.ERRORED, gates.EXPIRED])
def test_a_gate_that_proved_nothing_is_asked_anew_and_not_for_ever(state):
    assert decide_entry(EntrySeen(100, gate=state, tries=TRIES - 1)).begins_gate
    move = decide_entry(EntrySeen(100, gate=state, gate_explanation="nobody spoke", tries=TRIES))
    assert (move.begins_gate, move.weight) == (False, None)
    assert "proved nothing: nobody spoke. Start a gate run again" in said(move.explanation)


@pytest.mark.parametrize("state", [gates.FAILED, gates.CANCELLED])
def test_what_failed_or_was_cancelled_waits_for_a_person(state):
    move = decide_entry(EntrySeen(100, gate=state, gate_explanation="as told", tries=1))
    assert (move.begins_gate, move.weight) == (False, None)
    assert "as told. Start a gate run again" in said(move.explanation)
