"""What answers mean, and which are not believed."""

import pytest

from fleet.execution import states
from fleet.execution.verdicts import (
    ANSWERS,
    FENCES_MEANWHILE,
    AnswerLies,
    check_answer,
    judge_start,
    judge_stop,
    seen_in,
)


def answer(word: str, **changes) -> dict:
    facts = {"subject": "s1", "fence": 5, "pid": 10, "start_ticks": 3, "boot_id": "b", "rc": None}
    return {"answer": word, **facts, "epoch": 1, "explanation": "why", **changes}


def check(found: dict, verb: str = "start") -> None:
    check_answer(found, verb=verb, subject="s1", fence=5, last_fence=9)


@pytest.mark.parametrize(
    ("word", "state", "subject"),
    [
        ("STARTED", states.SUCCEEDED, states.SUBJECT_LIVE),
        ("ADOPTED", states.SUCCEEDED, states.SUBJECT_LIVE),
        ("RUNNING", states.SUCCEEDED, states.SUBJECT_LIVE),
        ("DONE", states.SUCCEEDED, states.SUBJECT_DONE),
        ("LOST", states.FAILED, states.SUBJECT_LOST),
        ("GONE", states.FAILED, states.SUBJECT_GONE),
        ("ABSENT", states.FAILED, states.SUBJECT_GONE),
        ("NOSPACE", states.FAILED, None),
        ("ERROR", states.FAILED, None),
        ("BUSY", None, None),
        ("FENCED", None, None),
    ],
)
def test_a_start_is_judged(word, state, subject):
    outcome = judge_start(answer(word, rc=0))
    assert outcome.state == state
    assert (outcome.seen.state if outcome.seen else None) == subject


@pytest.mark.parametrize(
    ("word", "state"),
    [
        ("GONE", states.SUCCEEDED),
        ("ABSENT", states.SUCCEEDED),
        ("ALIVE", states.UNKNOWN),
        ("UNCONFIRMED", states.UNKNOWN),
        ("FENCED", states.UNKNOWN),
        ("BUSY", states.UNKNOWN),
        ("ERROR", states.UNKNOWN),
    ],
)
def test_a_stop_succeeds_only_with_proof(word, state):
    assert judge_stop(answer(word, alive="12:sleep")).state == state
    is_proved = state == states.SUCCEEDED
    expected = states.CANCELLED if is_proved else states.UNKNOWN
    assert judge_stop(answer(word), is_cancel=True).state == expected


@pytest.mark.parametrize("verb", sorted(ANSWERS))
def test_every_word_of_a_verb_is_accepted(verb):
    for word in ANSWERS[verb]:
        check(answer(word, rc=0), verb)


@pytest.mark.parametrize(
    "found",
    [
        answer("GONE", subject="other"),
        answer("STARTED", subject=None),
        answer("STARTED", fence=9 + FENCES_MEANWHILE + 1),
        answer("STARTED", fence=4),
        answer("STARTED", fence="5"),
        answer("STARTED", fence=True),
        answer("STARTED", fence=-1),
        answer("STARTED", pid=None),
        answer("STARTED", pid=2**40),
        answer("STARTED", boot_id="x" * 41),
        answer("STARTED", boot_id=7),
        answer("DONE", rc=None),
        answer("DONE", rc=4711),
        answer("DONE", rc=0.5),
        answer("PROBE"),
        answer("RUNNING"),
        answer("<script>"),
    ],
)
def test_an_answer_that_cannot_be_is_not_believed(found):
    with pytest.raises(AnswerLies):
        check(found)


def test_a_line_of_a_listing_is_read():
    assert seen_in(answer("DONE", rc=3)).rc == 3
    with pytest.raises(AnswerLies):
        seen_in(answer("STARTED"))
