"""Verdicts of gate checks: exact or not, joined or not, proven or not; silence never passes."""

from datetime import UTC, datetime, timedelta

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


def test_the_first_character_that_differs_is_shown_however_long_the_answer():
    same = "x" * 900
    judged = rules.judge_golden("p1", f"{same}a end", Answer(f"{same}b end"))
    assert (judged.expected[-5:], judged.found[-5:]) == ("a end", "b end")
    assert len(judged.found) <= 400


CONTENT = {"shape": {"nodes": 2}, "env": {}}


@pytest.mark.parametrize(
    ("content", "plan"),
    [
        (CONTENT, TransportPlan("NET/IB", True)),
        ({**CONTENT, "env": {"NCCL_NET_GDR_LEVEL": "LOC"}}, TransportPlan("NET/IB", False)),
        ({**CONTENT, "env": {"NCCL_IB_DISABLE": "1"}}, TransportPlan("NET/Socket", False)),
        ({**CONTENT, "env": {"NCCL_NET": "Socket"}}, TransportPlan("NET/Socket", False)),
        ({**CONTENT, "env": {"NCCL_NET": "AWS Libfabric"}}, None),
        ({"shape": {"nodes": 1}, "env": {}}, TransportPlan("", False)),
        ({"shape": {}, "env": {}}, None),
        ({}, None),
    ],
)
def test_the_release_says_what_transport_is_planned(content, plan):
    assert rules.transport_plan(content) == plan


def test_a_release_that_says_nothing_of_its_transport_proves_nothing():
    (judged,) = rules.judge_transport(None, [RankSeen(0, "n1", GDR, True)], 1)
    assert judged.verdict == "inconclusive"
    assert said(judged.explanation)


NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)
WANTED = frozenset({("golden", "p1")})


@pytest.mark.parametrize(
    ("state", "is_ready", "late_s", "rows", "to"),
    [
        ("queued", True, -1, (), "running"),
        ("queued", False, -1, (), "cancelled"),
        ("queued", True, 0, (), "expired"),
        ("running", True, -1, (), None),
        ("running", True, 0, (), "expired"),
        ("running", False, 0, (row("passed"),), "cancelled"),
        ("running", True, -1, (row("passed"),), "passed"),
        ("running", True, 0, (row("passed"),), "passed"),
        ("running", True, -1, (row("inconclusive"),), "inconclusive"),
    ],
)
def test_a_run_goes_on_by_its_rows_its_launch_and_the_clock(state, is_ready, late_s, rows, to):
    now = NOON + timedelta(seconds=late_s)
    seen = rules.RunSeen(state, now, NOON, is_ready, "LN-0001", ("golden",), WANTED, rows)
    decided, why = rules.decide(seen)
    assert decided == to
    assert bool(said(why)) == (to is not None)
    assert to is None or to in rules.GATE_MOVES[state]
