"""A run walks its steps in order; people start what changes much, and unknown blocks what is not safe."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.rules.message import said
from runbooks.rules import run as rules
from runbooks.rules.book import read_book, read_catalogue
from runbooks.rules.run import StepSeen, decide_run

BOOKS = Path(__file__).resolve().parents[2] / "runbooks" / "books"


def steps_of_case_c() -> tuple[StepSeen, ...]:
    catalogue = read_catalogue((BOOKS / "catalogue.toml").read_text())
    book, _ = read_book((BOOKS / "case-c.toml").read_text(), catalogue, "case-c.toml")
    return tuple(
        StepSeen(
            id=step.id,
            state=rules.PENDING,
            risk=step.meaning.risk,
            who=step.who,
            action=step.meaning.name if step.kind == "action" else "",
            on_fail=step.on_fail,
            on_unknown=step.on_unknown,
            args=tuple(step.args.items()),
        )
        for step in book.steps
    )


def put(steps, **states):
    return tuple(replace(s, state=states.get(s.id.replace("-", "_"), s.state)) for s in steps)


def test_safe_steps_begin_by_themselves_and_a_stop_waits_for_a_person():
    steps, state, begun = steps_of_case_c(), rules.RUNNING, []
    for _ in range(40):
        move = decide_run(state, steps)
        state = move.to or state
        if move.ask:
            break
        begun.append(move.begin)
        steps = put(steps, **{move.begin.replace("-", "_"): rules.PASSED})
    assert begun == ["weight-zero", "freeze", "alive", "hardware", "lag"]
    assert (move.ask, state) == ("stop", rules.WAITING)


def test_the_brake_turns_automatic_steps_into_proposals():
    move = decide_run(rules.RUNNING, steps_of_case_c(), is_braked=True)
    assert (move.begin, move.ask) == ("", "weight-zero")
    assert "brake" in said(move.explanation)


def test_an_unknown_weight_does_not_keep_the_evidence_from_being_frozen():
    steps = put(steps_of_case_c(), weight_zero=rules.UNKNOWN)
    assert decide_run(rules.RUNNING, steps).begin == "freeze"
    frozen = put(steps, freeze=rules.PASSED, alive=rules.PASSED, hardware=rules.PASSED)
    frozen = put(frozen, lag=rules.PASSED)
    move = decide_run(rules.RUNNING, frozen)
    assert (move.to, move.begin, move.ask) == (rules.WAITING, "", "")
    assert "weight-zero" in said(move.explanation)


def test_a_failed_step_waits_for_a_person_and_a_finding_does_not():
    stopped = put(steps_of_case_c(), weight_zero=rules.STEP_FAILED)
    assert decide_run(rules.RUNNING, stopped).to == rules.WAITING
    done = put(steps_of_case_c(), weight_zero=rules.PASSED, freeze=rules.PASSED)
    assert decide_run(rules.RUNNING, put(done, alive=rules.STEP_FAILED)).begin == "hardware"


def test_a_missing_parameter_is_asked_for_when_its_step_needs_it():
    first, *rest = steps_of_case_c()
    move = decide_run(rules.RUNNING, (replace(first, is_missing_param="unit"), *rest))
    assert (move.to, move.ask) == (rules.WAITING, "weight-zero")


@pytest.mark.parametrize("state", [rules.PROPOSED, rules.SUCCEEDED, rules.FAILED, rules.ABORTED])
def test_what_is_not_under_way_stays(state):
    assert decide_run(state, steps_of_case_c()).to is None


@given(st.lists(st.sampled_from(sorted(rules.STEP_MOVES)), min_size=12, max_size=12), st.booleans())
def test_no_step_that_changes_the_fleet_begins_behind_an_unsettled_unknown(states, is_braked):
    steps = tuple(
        replace(step, state=state) for step, state in zip(steps_of_case_c(), states, strict=False)
    )
    move = decide_run(rules.RUNNING, steps, is_braked=is_braked)
    assert move.to is None or move.to in rules.RUN_MOVES[rules.RUNNING]
    name = move.begin or move.ask
    if not name:
        return
    index = [step.id for step in steps].index(name)
    unsettled = [s for s in steps[:index] if s.state == rules.UNKNOWN and s.on_unknown == "block"]
    step = steps[index]
    assert not unsettled or step.is_safe_side or step.risk == "read_only"
    assert step.state in (rules.PENDING, rules.ASKED)


def test_a_step_is_named_by_the_number_that_its_page_shows():
    catalogue = read_catalogue((BOOKS / "catalogue.toml").read_text())
    book, _ = read_book((BOOKS / "case-c.toml").read_text(), catalogue, "case-c.toml")
    assert book.numbers["stop"] == "3.1"
    first = replace(steps_of_case_c()[0], number="1.1", who="person")
    move = decide_run(rules.RUNNING, (first,))
    assert said(move.explanation) == "Step 1.1 waits for a person."
