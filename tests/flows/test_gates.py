"""Gate runs on a real unit of two nodes: what passes, what fails, and what proves nothing."""

import http.client
from contextlib import closing

import pytest

from fleet.rules.message import said
from tests.flows.test_launch import answer_of
from tests.waiting import wait_until

pytestmark = [pytest.mark.lab, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def gate():
    """Ask for a gate run as Ana would."""
    from fleet.services.trail import Actor
    from releases.services.gates import gate_start

    def start(launch, purpose: str = "test/1"):
        return gate_start(launch=launch, purpose=purpose, actor=Actor(name="ana"))

    return start


def judged(run):
    """Carry gate runs on until this one has ended; launches stand still, so that no rule takes the unit down."""
    from fleet import tasks
    from releases.services.gates import gates_advance

    def is_over() -> bool:
        tasks.sweep()
        gates_advance()
        run.refresh_from_db()
        return run.ended_at is not None

    wait_until(is_over, timeout_s=180, what="the gate run to end")
    return run


def told(run) -> str:
    return (
        f"{said(run.explanation)} {list(run.rows.values_list('check_name', 'subject', 'verdict'))}"
    )


def health_of(launch) -> int:
    head = launch.plan["http"]
    with closing(http.client.HTTPConnection(head["address"], head["port"], timeout=10)) as ask:
        ask.request("GET", "/health")
        return ask.getresponse().status


def head_of(launch) -> str:
    return launch.plan["positions"][0]["node"]


def test_a_sound_unit_passes_by_answers_streams_and_the_lines_of_every_rank(ready_launch, gate):
    run = judged(gate(ready_launch))
    assert run.state == "passed", told(run)
    counts = {check: run.rows.filter(check_name=check).count() for check in run.checks}
    prompts = len(ready_launch.release.content["golden"])
    assert counts == {"golden": prompts, "stream": prompts, "transport": 16}
    assert all("GDRDMA" in row.found for row in run.rows.filter(check_name="transport"))
    assert all(row.latency_ms > 0 for row in run.rows.exclude(check_name="transport"))


def test_a_unit_that_answers_wrong_fails_though_it_is_healthy(console, ready_launch, gate):
    console.lab.fault(head_of(ready_launch), "answer.wrong")
    wait_until(lambda: "Or not" in answer_of(ready_launch, "12 + 30 = ?"), what="the fault")
    run = judged(gate(ready_launch))
    assert health_of(ready_launch) == 200
    assert run.state == "failed", told(run)
    wrong = run.rows.filter(check_name="golden")
    assert {row.verdict for row in wrong} == {"failed"}
    assert all(row.found != row.expected for row in wrong)


@pytest.mark.long
def test_a_unit_that_generates_nothing_never_passes_though_it_is_healthy(
    console, ready_launch, gate
):
    console.lab.fault(head_of(ready_launch), "engine.freeze")
    run = judged(gate(ready_launch))
    assert health_of(ready_launch) == 200
    assert run.state == "inconclusive", told(run)
    assert not run.rows.filter(check_name__in=("golden", "stream"), verdict="passed").exists()


def test_a_unit_that_talks_over_sockets_fails_though_its_answers_are_right(
    console, launch_unit, gate
):
    for node in ("h100-001", "h100-002"):
        console.lab.fault(node, "nccl.socket")
    launch = launch_unit()

    def is_ready() -> bool:
        launch.refresh_from_db()
        return launch.state == "ready"

    console.until(is_ready, "the unit to be ready")
    run = judged(gate(launch))
    assert run.state == "failed", told(run)
    assert {row.verdict for row in run.rows.exclude(check_name="transport")} == {"passed"}
    assert {row.verdict for row in run.rows.filter(check_name="transport")} == {"failed"}
    assert "NET/Socket" in run.rows.get(subject="r0").found


def test_a_conductor_killed_between_rows_repeats_nothing(console, ready_launch, gate, tmp_path):
    from fleet.execution.models import Command

    armed = tmp_path / "fault"
    armed.write_text("gate-row")
    run = gate(ready_launch)
    console.start_conductor(FAULT_POINT=f"@{armed}")

    def is_over() -> bool:
        run.refresh_from_db()
        return run.ended_at is not None

    console.until(is_over, "the gate run to end")
    assert armed.with_name("fault.fired").exists(), "the conductor was killed"
    assert run.state == "passed", told(run)
    prompts = len(ready_launch.release.content["golden"])
    assert run.rows.count() == 2 * prompts + 16
    asked = Command.objects.filter(purpose__startswith=f"gate:{run}/")
    assert [command.attempt for command in asked] == [1] * 2 * prompts
