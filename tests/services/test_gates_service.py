"""Gate runs over rows: what is asked, which rows come, what ends a run, and that nothing happens twice."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from fleet.execution.models import Command, LogStream, Subject
from fleet.execution.output import Section, sections_pack
from fleet.models import Evidence, TrailEntry
from fleet.rules.message import said
from releases.models import GateRow, GateRun, Launch, LaunchPosition, Release
from releases.services.gates import (
    GateRefused,
    gate_advance,
    gate_cancel,
    gate_start,
    gates_advance,
)
from releases.services.launches import launch_create
from tests.browser.scene import CONTENT
from tests.factories import make_actor, make_nodes, make_person, make_pool, make_replica
from tests.live.log_scene import hold_lease, say

pytestmark = pytest.mark.django_db

PROMPTS = {"zh-arithmetic": "42", "en-echo": "flotilla"}
RDMA = "NET/IB/{gpu}/GDRDMA"


@pytest.fixture
def launch() -> Launch:
    return ready_launch(CONTENT)


def ready_launch(content: dict[str, Any]) -> Launch:
    """A ready launch over two nodes with sixteen ranks, whose logs are empty yet."""
    pool = make_pool()
    unit = make_replica("glm52-r1", pool=pool, nodes=make_nodes(2))
    release = Release.objects.create(
        pool=pool, title="glm-5.2", state="sealed", content=content, content_sha256="c" * 64
    )
    launch = launch_create(replica=unit, release=release, actor=make_actor())
    for place in launch.positions.select_related("node__host"):
        subject = Subject.objects.create(
            host=place.node.host, name=f"s-{place.position}", state="live"
        )
        layout = launch.plan["positions"][place.position]["layout"]
        LogStream.objects.create(subject=subject, layout=layout)
        LaunchPosition.objects.filter(pk=place.pk).update(subject=subject)
    Launch.objects.filter(pk=launch.pk).update(state="ready")
    return Launch.objects.get(pk=launch.pk)


def start(launch: Launch, purpose: str = "test/1", **words) -> GateRun:
    return gate_start(launch=launch, purpose=purpose, actor=make_actor(), **words)


def running(launch: Launch, **words) -> GateRun:
    run = start(launch, **words)
    gates_advance()
    return fresh(run)


def fresh(run: GateRun) -> GateRun:
    return GateRun.objects.get(pk=run.pk)


def settle(purpose: str, body: bytes, status: int = 200, state: str = "succeeded") -> None:
    """The answer of a node to one question."""
    command = Command.objects.get(purpose__endswith=purpose)
    sections_pack(command.pk, [Section("body", body=body)]).save()
    Command.objects.filter(pk=command.pk).update(
        state=state, settled_at=timezone.now(), answer={"status": status, "ms": 12.5}
    )


def whole(text: str) -> bytes:
    return json.dumps({"choices": [{"message": {"content": text}}]}).encode()


def streamed(*parts: str, end: str = "data: [DONE]\n\n") -> bytes:
    events = [{"choices": [{"index": 0, "delta": {"content": part}}]} for part in parts]
    events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    return "".join(f"data: {json.dumps(event)}\n\n" for event in events).encode() + end.encode()


def answer_all() -> None:
    for prompt, text in PROMPTS.items():
        settle(f"/golden/{prompt}", whole(text))
        settle(f"/stream/{prompt}", streamed(text[:1], text[1:]))


def tell_transport(launch: Launch, position: int, way: str = RDMA, ranks: int = 8) -> None:
    """What NCCL says on one node: a local communicator and one to the other node."""
    stream = LogStream.objects.get(subject__launch_position__launch=launch,
                                   subject__launch_position__position=position)  # fmt: skip
    lines = []
    for gpu in range(ranks):
        seat, comm = f"h100:40{gpu}:60{gpu} [{gpu}] NCCL INFO", f"comm 0x5{gpu}a rank {position}"
        lines += [
            f"{seat} ncclCommInitRank {comm} nranks 2 cudaDev {gpu} busId 1b000 commId 0x1 - Init START",
            f"{seat} Channel 00/0 : {gpu}[{gpu}] -> 1[1] via P2P/CUMEM",
            f"{seat} Channel 00/0 : 0[{gpu}] -> 1[{gpu}] [send] via {way.format(gpu=gpu)}",
            f"{seat} ncclCommInitRank {comm} nranks 2 cudaDev {gpu} busId 1b000 commId 0x1 - Init COMPLETE",
        ]
    fence = hold_lease()
    say(stream, [(n, position * 8, "I", "NET", text) for n, text in enumerate(lines)], fence)


def verdicts(run: GateRun, check: str) -> dict[str, str]:
    return dict(run.rows.filter(check_name=check).values_list("subject", "verdict"))


def test_a_run_asks_every_prompt_whole_and_streamed_each_once(launch):
    running(launch)
    gates_advance()
    asked = Command.objects.filter(verb="http")
    assert sorted(asked.values_list("purpose", flat=True)) == sorted(
        f"gate:{GateRun.objects.get()}/{kind}/{prompt}"
        for kind in ("golden", "stream")
        for prompt in PROMPTS
    )
    assert {command.queue for command in asked} == {"gate"}
    assert {command.host.name for command in asked} == {"h100-001"}
    bodies = {tuple(command.purpose.split("/")[1:]): command.payload["body"] for command in asked}
    for prompt in PROMPTS:
        assert bodies["stream", prompt] == {**bodies["golden", prompt], "stream": True}


def test_rows_come_as_the_answers_do_and_the_run_passes_with_the_last(launch):
    tell_transport(launch, 0)
    tell_transport(launch, 1)
    run = running(launch)
    settle("/golden/en-echo", whole("flotilla"))
    gates_advance()
    assert verdicts(run, "golden") == {"en-echo": "passed"}
    assert run.rows.filter(check_name="golden").get().latency_ms == 12.5
    assert verdicts(run, "transport") == {f"r{n}": "passed" for n in range(8)}
    assert fresh(run).state == "running"
    settle("/stream/en-echo", streamed("flo", "tilla"))
    settle("/golden/zh-arithmetic", whole("42"))
    settle("/stream/zh-arithmetic", streamed("4", "2"))
    gates_advance()
    run = fresh(run)
    assert (run.state, said(run.explanation)) == ("passed", "Rows passed: 20")
    assert run.ended_at
    assert verdicts(run, "transport") == {f"r{n}": "passed" for n in range(16)}
    kept = Evidence.objects.filter(object_kind="gate", object_id=run.public_id)
    assert kept.count() == 4
    assert bytes(kept.get(origin__endswith="/golden/en-echo").body) == whole("flotilla")
    assert [entry.verb for entry in TrailEntry.objects.filter(object_id=run.public_id).order_by("pk")] == [
        "gate.start", "gate.running", "gate.passed",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "chunks", "golden", "stream"),
    [
        ("43", ("4", "3"), "failed", "passed"),
        ("42", ("4", "3"), "passed", "failed"),
        ("42", ("42",), "passed", "passed"),
        ("42\x00", ("42\x00",), "failed", "passed"),
    ],
)
def test_an_answer_is_compared_with_the_release_and_with_its_own_stream(
    launch, text, chunks, golden, stream
):
    run = running(launch, checks=("golden", "stream"))
    settle("/golden/zh-arithmetic", whole(text))
    settle("/stream/zh-arithmetic", streamed(*chunks))
    gates_advance()
    assert verdicts(run, "golden") == {"zh-arithmetic": golden}
    assert verdicts(run, "stream") == {"zh-arithmetic": stream}


def test_a_wrong_answer_fails_the_run_and_both_texts_are_kept(launch):
    run = running(launch, checks=("golden",))
    settle("/golden/en-echo", whole("flotsam"))
    settle("/golden/zh-arithmetic", whole("42"))
    gates_advance()
    assert fresh(run).state == "failed"
    row = run.rows.get(subject="en-echo")
    assert (row.verdict, row.expected, row.found) == ("failed", "flotilla", "flotsam")


@pytest.mark.parametrize(
    ("body", "status", "state"),
    [
        (b"", 503, "succeeded"),
        (b"not json", 200, "succeeded"),
        (whole("flotilla"), 200, "failed"),
        (b'{"choices": [{"message": {"content": 42}}]}', 200, "succeeded"),
    ],
)
def test_no_answer_is_no_pass(launch, body, status, state):
    run = running(launch, checks=("golden",))
    settle("/golden/en-echo", body, status, state)
    settle("/golden/zh-arithmetic", whole("42"))
    gates_advance()
    assert fresh(run).state == "inconclusive"
    assert run.rows.get(subject="en-echo").explanation


def test_a_stream_that_is_cut_fails(launch):
    run = running(launch, checks=("stream",))
    for prompt, text in PROMPTS.items():
        settle(f"/golden/{prompt}", whole(text))
        settle(f"/stream/{prompt}", streamed(text, end=""))
    gates_advance()
    assert fresh(run).state == "failed"
    assert not run.rows.exclude(check_name="stream").exists()


@pytest.mark.parametrize(
    ("way", "state", "verdict"),
    [
        (RDMA, "passed", "passed"),
        ("NET/Socket/0", "failed", "failed"),
        ("NET/IB/{gpu}", "failed", "failed"),
        ("P2P/CUMEM", "inconclusive", "inconclusive"),
    ],
)
def test_every_rank_proves_its_transport_from_its_stored_lines(launch, way, state, verdict):
    tell_transport(launch, 0)
    tell_transport(launch, 1, way)
    run = running(launch, checks=("transport",))
    gates_advance()
    assert fresh(run).state == "running"
    gates_advance()
    assert verdicts(run, "transport") == {
        f"r{rank}": "passed" if rank < 8 else verdict for rank in range(16)
    }
    assert fresh(run).state == state
    assert not Command.objects.filter(verb="http").exists()


def test_ranks_that_said_nothing_are_not_proven(launch):
    tell_transport(launch, 0, ranks=7)
    run = running(launch, checks=("transport",))
    gates_advance()
    gates_advance()
    assert fresh(run).state == "inconclusive"
    proven = [rank for rank, verdict in verdicts(run, "transport").items() if verdict == "passed"]
    assert proven == [f"r{rank}" for rank in range(7)]


def test_a_release_without_golden_prompts_is_not_passed():
    run = running(ready_launch({**CONTENT, "golden": []}), checks=("golden",))
    gates_advance()
    assert fresh(run).state == "inconclusive"


def test_the_same_purpose_is_the_same_run_and_another_is_refused(launch):
    run = start(launch)
    assert start(launch) == run
    with pytest.raises(GateRefused) as refused:
        start(launch, purpose="test/2")
    assert said(refused.value.reasons[0]) == f"{run} of this launch is still open."
    gate_cancel(run=run, reason="not now", actor=make_actor())
    assert start(launch) == run
    assert start(launch, purpose="test/2") != run


def test_a_launch_that_is_not_ready_is_not_judged(launch):
    Launch.objects.update(state="warming")
    with pytest.raises(GateRefused) as refused:
        start(Launch.objects.get())
    assert "only a ready launch is judged" in said(refused.value.reasons[0])
    assert not GateRun.objects.exists()


@pytest.mark.parametrize("checks", [(), ("health",)])
def test_health_is_no_check(launch, checks):
    with pytest.raises(ValueError, match="expected some of golden, stream, transport"):
        start(launch, checks=checks)


def test_a_run_over_a_launch_that_went_down_is_cancelled_with_the_reason(launch):
    run = running(launch)
    settle("/golden/en-echo", whole("flotilla"))
    Launch.objects.update(state="freezing")
    gates_advance()
    run = fresh(run)
    assert (run.state, run.rows.count()) == ("cancelled", 0)
    assert f"{launch} is not ready any more" in said(run.explanation)


def test_a_run_without_its_answers_expires_at_its_deadline(launch, settings):
    settings.TIME_SCALE = 10.0
    run = running(launch)
    assert run.deadline_at - run.created_at < timedelta(seconds=61)
    GateRun.objects.update(deadline_at=timezone.now() - timedelta(seconds=1))
    settle("/golden/en-echo", whole("flotilla"))
    gates_advance()
    run = fresh(run)
    assert (run.state, run.rows.count()) == ("expired", 0)
    assert "0 of 20 results came before its deadline" in said(run.explanation)
    assert Command.objects.filter(state="cancelled").count() == 3, "what was not sent is taken back"


def test_a_late_answer_is_not_added_to_a_run_that_ended(launch):
    run = running(launch, user=make_person("ana"))
    Command.objects.update(state="claimed")  # on their way: not taken back any more
    gate_cancel(run=run, reason="wrong unit", actor=make_actor())
    answer_all()
    assert gates_advance() == 0
    assert not GateRow.objects.exists()
    assert said(fresh(run).explanation) == "Cancelled: wrong unit"
    assert TrailEntry.objects.get(verb="gate.cancelled").reason == "wrong unit"


def test_a_second_tick_changes_nothing(launch):
    run = running(launch)
    settle("/golden/en-echo", whole("flotilla"))
    assert gate_advance(run.pk)
    assert gate_advance(run.pk)  # the second node's ranks
    before = list(GateRow.objects.values_list("pk", "at"))
    assert not gate_advance(run.pk)
    assert list(GateRow.objects.values_list("pk", "at")) == before


def test_a_conductor_that_dies_between_rows_leaves_none_of_them_twice(launch, monkeypatch):
    run = running(launch, checks=("golden",))
    settle("/golden/en-echo", whole("flotilla"))
    settle("/golden/zh-arithmetic", whole("42"))

    class Killed(BaseException):
        pass

    def die(name: str) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr("releases.services.gates.fault_point", die)
        with pytest.raises(Killed):
            gate_advance(run.pk)
    assert not GateRow.objects.exists()
    gates_advance()
    assert (fresh(run).state, run.rows.count()) == ("passed", 2)
    assert Command.objects.filter(verb="http").count() == 2


def test_a_fault_of_the_console_is_an_error_and_no_verdict_on_the_unit():
    run = start(ready_launch({**CONTENT, "golden": [{}]}), checks=("golden",))
    gates_advance()
    run = fresh(run)
    assert (run.state, said(run.explanation)) == (
        "errored",
        "The console could not judge it: KeyError",
    )
