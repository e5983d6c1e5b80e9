"""What an acceptance lets a node do: accepted ones first, marginal ones once a person answers, ended ones never."""

import pytest

from fleet.rules.acceptance import why_held
from fleet.rules.acceptance_stand import (
    FIRST,
    LET_IN,
    NEVER,
    NOT_ACCEPTED,
    Stand,
    rank_of,
    refusal_of,
    remark_of,
    says_its_hold,
)
from fleet.rules.message import said

ACCEPTED = Stand("accepted", "AC-0001", "All 17 checks passed.")
HELD = Stand("marginal", "AC-0002", "0.87 of gold", held_for="0.87 of gold")
ANSWERED = Stand("marginal", "AC-0002", "0.87 of gold", let_in_by="bo", let_in_why="for the night")
REJECTED = Stand("rejected", "AC-0003", "uncorrected ECC", held_for="uncorrected ECC")
UNHELD = Stand("marginal", "AC-0002", "0.87 of gold")
ENDED = [
    Stand(one.verdict, one.run, one.summary, ended="another boot", let_in_by=one.let_in_by)
    for one in (ACCEPTED, ANSWERED)
]


@pytest.mark.parametrize(
    ("stand", "rank"),
    [(ACCEPTED, FIRST), (ANSWERED, LET_IN)]
    + [(one, NOT_ACCEPTED) for one in (HELD, UNHELD, REJECTED, NEVER, *ENDED)],
)
def test_only_accepted_and_answered_ones_are_placed_where_a_pool_asks(stand, rank):
    assert rank_of(stand) == rank
    assert bool(refusal_of("h1", stand, is_asked=True)) == (rank == NOT_ACCEPTED)
    assert bool(remark_of("h1", stand)) == (rank != FIRST)


@pytest.mark.parametrize(
    ("stand", "words"),
    [
        (NEVER, "h1 has no valid acceptance, which its pool asks for (never accepted): accept it first."),
        (ENDED[0], "(AC-0001 ended: another boot): accept it first."),
        (ENDED[1], "(AC-0002 ended: another boot): accept it first."),
        (REJECTED, "(rejected by AC-0003: uncorrected ECC): accept it first."),
        (HELD, "h1 is marginal by AC-0002 (0.87 of gold): mend it and accept it again, or let an approver lift"),
        (UNHELD, "let an approver lift the hold of acceptance with a reason."),
    ],
)  # fmt: skip
def test_a_refusal_says_what_was_found_and_the_next_step(stand, words):
    assert words in said(refusal_of("h1", stand, is_asked=True))


def test_where_no_pool_asks_only_a_held_marginal_node_is_refused():
    refused = [
        stand
        for stand in (NEVER, ACCEPTED, HELD, UNHELD, ANSWERED, REJECTED, *ENDED)
        if refusal_of("h1", stand, is_asked=False)
    ]
    assert refused == [HELD], "a rejected node is kept out by its quarantine and its hold"
    assert says_its_hold(HELD)
    assert not says_its_hold(REJECTED)


def test_a_remark_names_who_answers_for_a_marginal_node():
    assert said(remark_of("h1", ANSWERED)) == (
        "h1 is marginal by AC-0002 (0.87 of gold); bo let it in: for the night"
    )
    assert "is not accepted (never accepted)" in said(remark_of("h1", NEVER))


XID = {"name": "xid", "verdict": "marginal", "found": "Xid 999"}
CLOCK = {"name": "clock", "verdict": "marginal", "found": "3 ms"}


@pytest.mark.parametrize(
    ("verdict", "checks", "held"),
    [
        ("accepted", [], ""),
        ("marginal", [CLOCK], "summary"),
        ("rejected", [CLOCK], "summary"),
        ("not_measured", [CLOCK], ""),
        ("not_measured", [CLOCK, XID], "Xid 999"),
    ],
)
def test_why_a_node_is_held_after_its_acceptance(verdict, checks, held):
    assert why_held(verdict, "summary", checks) == held
