"""Verdicts of gate checks: exact or not, joined or not, proven or not; silence never passes."""

import pytest

from fleet.readings.sse import StreamedAnswer
from fleet.rules.message import said
from releases.rules import gates as rules
from releases.rules.gates import Answer, RankSeen, TransportPlan


def streamed(text: str, **facts) -> StreamedAnswer:
    defaults = {
        "reasoning": "",
        "finish_reason": "stop",
        "usage": {},
        "chunks": 3,
        "is_done": True,
        "error": "",
        "unread": 0,
    }
    return StreamedAnswer(text=text, **{**defaults, **facts})


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        (Answer("42"), "passed"),
        (Answer("42 "), "failed"),
        (Answer(""), "failed"),
        (Answer(None, "HTTP 503"), "inconclusive"),
    ],
)
def test_golden_answers_are_compared_exactly(answer, verdict):
    assert rules.judge_golden("p1", "42", answer).verdict == verdict


@pytest.mark.parametrize(
    ("whole", "stream", "verdict"),
    [
        (Answer("a b"), streamed("a b"), "passed"),
        (Answer("a b"), streamed("ab"), "failed"),
        (Answer("a b"), streamed("a b", is_done=False), "failed"),
        (Answer("a b"), streamed("a b", finish_reason=""), "failed"),
        (Answer("a b"), streamed("a b", error="engine dead"), "failed"),
        (Answer("a b"), None, "inconclusive"),
        (Answer(None, "timed out"), streamed("a b"), "inconclusive"),
    ],
)
def test_a_stream_must_be_the_unstreamed_answer(whole, stream, verdict):
    assert rules.judge_stream("p1", whole, stream, "no stream").verdict == verdict


GDR = {"P2P/CUMEM": 8, "NET/IB/0/GDRDMA": 2}


@pytest.mark.parametrize(
    ("transports", "verdict"),
    [
        (GDR, "passed"),
        ({"NET/IB/0": 2}, "failed"),
        ({"NET/Socket/0": 2}, "failed"),
        ({**GDR, "NET/Socket/0": 1}, "failed"),
        ({"P2P/CUMEM": 8}, "inconclusive"),
        ({}, "inconclusive"),
    ],
)
def test_every_rank_proves_its_transport(transports, verdict):
    ranks = [RankSeen(0, "n1", GDR, True), RankSeen(1, "n2", transports, True)]
    rows = rules.judge_transport(TransportPlan(), ranks, 2)
    assert [row.verdict for row in rows] == ["passed", verdict]


def test_a_rank_without_lines_is_not_proven_and_an_open_set_up_neither():
    rows = rules.judge_transport(TransportPlan(), [RankSeen(0, "n1", GDR, False)], 2)
    assert [row.verdict for row in rows] == ["inconclusive", "inconclusive"]


def test_a_unit_of_one_node_needs_no_network():
    (row,) = rules.judge_transport(TransportPlan(""), [RankSeen(0, "n1", {"NVLS": 8}, True)], 1)
    assert row.verdict == "passed"


def row(verdict: str, check: str = "golden") -> rules.Row:
    return rules.Row(check, "p1", verdict, "", "")


@pytest.mark.parametrize(
    ("rows", "verdict"),
    [
        ([], "inconclusive"),
        ([row("passed")], "inconclusive"),
        ([row("passed"), row("passed", "stream")], "passed"),
        ([row("passed"), row("inconclusive", "stream")], "inconclusive"),
        ([row("failed"), row("inconclusive", "stream")], "failed"),
        ([row("failed")], "failed"),
    ],
)
def test_a_run_passes_only_when_every_check_has_rows_and_all_pass(rows, verdict):
    judged, why = rules.judge_run(rows, ("golden", "stream"))
    assert judged == verdict
    assert said(why)
    assert judged in rules.GATE_MOVES["running"]
