"""Clocks that are wrong: a console's host or a node is minutes off, and no lease, deadline or proof is misjudged."""

from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone
from test_gates_service import ready_launch, start

from fleet.execution.clock import database_now
from fleet.execution.moves import commands_claim, commands_release_expired
from fleet.models import AcceptanceRun, NodeAcceptance
from fleet.rules.message import said
from fleet.selectors import serving
from fleet.services.acceptance_settle import acceptances_void
from fleet.services.acceptances import acceptance_start, acceptances_advance
from releases.models import GateRun
from releases.services.gates import gates_advance
from releases.services.launch_seen import launch_seen
from tests.acceptances import PINS, accepted_now, answer_all, make_gold, make_good
from tests.browser.scene import CONTENT
from tests.factories import make_actor, make_command, make_node, make_person

pytestmark = pytest.mark.django_db
SLOW, FAST = timedelta(minutes=-5), timedelta(minutes=7)


@pytest.fixture
def skew(monkeypatch):
    """Set the clock of this console's host off by some minutes."""
    real = timezone.now

    def off_by(span: timedelta) -> None:
        monkeypatch.setattr(timezone, "now", lambda: real() + span)

    return off_by


@pytest.fixture(autouse=True)
def pins(monkeypatch):
    monkeypatch.setattr(serving, "_SOURCES", [lambda nodes: {node.pk: [PINS] for node in nodes}])


def by_database():
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        return cursor.fetchone()[0]


@pytest.mark.parametrize("span", [SLOW, FAST])
def test_the_time_is_the_databases_whatever_the_host_says(skew, span):
    skew(span)
    for _ in range(3):
        assert abs(database_now() - by_database()) < timedelta(seconds=30)


@pytest.mark.parametrize("span", [SLOW, FAST])
def test_a_living_lease_is_taken_by_no_console_and_a_dead_one_is_found(skew, span):
    command = make_command(make_node().host, state="queued")
    assert len(commands_claim([command.pk], "right")) == 1
    skew(span)
    assert commands_claim([command.pk], "wrong") == []
    assert commands_release_expired() == 0
    type(command).objects.filter(pk=command.pk).update(
        lease_until=by_database() - timedelta(seconds=1)
    )
    assert commands_release_expired() == 1


@pytest.mark.parametrize(("asks", "judges"), [(SLOW, None), (None, FAST), (SLOW, FAST)])
def test_a_gate_ends_neither_early_nor_late(skew, asks, judges, settings):
    settings.TIME_SCALE = 2.5  # a deadline of four minutes, shorter than either clock is off
    skew(asks or timedelta())
    run = start(ready_launch(CONTENT))
    assert run.deadline_at > by_database() + timedelta(minutes=3)
    skew(judges or timedelta())
    gates_advance()
    gates_advance()
    assert GateRun.objects.get().state == "running"
    GateRun.objects.update(deadline_at=by_database() - timedelta(seconds=1))
    skew(SLOW)
    gates_advance()
    assert GateRun.objects.get().state == "expired"


@pytest.mark.parametrize(("asks", "judges"), [(SLOW, FAST), (FAST, SLOW)])
def test_an_acceptance_runs_out_by_the_databases_clock(skew, asks, judges, settings):
    settings.TIME_SCALE = 5  # a deadline of three minutes
    make_gold()
    node = make_node()
    make_good(node)
    skew(asks)
    acceptance_start(nodes=[node], actor=make_actor(), user=make_person())
    skew(judges)
    acceptances_advance()
    assert NodeAcceptance.objects.get().settled_at is None, "nobody gave it up"
    answer_all()
    row = NodeAcceptance.objects.get()
    assert (row.verdict, accepted_now([node.pk])) == ("accepted", {node.pk})
    assert acceptances_void() == 0
    AcceptanceRun.objects.update(deadline_at=by_database() - timedelta(seconds=1))
    NodeAcceptance.objects.update(valid_until=by_database() - timedelta(seconds=1))
    assert acceptances_void() == 1


@pytest.mark.parametrize("span", [SLOW, FAST, timedelta()])
@pytest.mark.parametrize(
    ("age", "is_doubted"), [(timedelta(seconds=5), False), (timedelta(minutes=2), True)]
)
def test_the_golden_proof_of_a_unit_is_as_old_as_the_database_says(skew, span, age, is_doubted):
    launch = ready_launch(CONTENT)
    skew(span)
    seen = launch_seen(launch)
    proof_at = by_database() - age
    assert abs(seen.now - by_database()) < timedelta(seconds=30)
    assert (seen.now - proof_at > timedelta(seconds=60)) is is_doubted


@pytest.mark.parametrize(
    ("offset_s", "words", "found"),
    [
        ("420.000000000", "fast", "420 s"),
        ("300.000000000", "slow", "-300 s"),
        ("0.080211000", "fast", "80.2 ms"),
    ],
)
def test_a_node_whose_clock_is_off_fails_its_acceptance_and_is_told_by_how_much(
    offset_s, words, found
):
    make_gold()
    node = make_node()
    make_good(node)
    acceptance_start(nodes=[node], actor=make_actor(), user=make_person())
    text = (
        "Reference ID    : 0A280001 (10.40.0.1)\nStratum         : 3\n"
        f"System time     : {offset_s} seconds {words} of NTP time\nLeap status     : Normal\n"
    )
    answer_all(clock=text.encode())
    row = NodeAcceptance.objects.get()
    check = next(one for one in row.checks if one["name"] == "clock")
    assert row.verdict == "rejected"
    assert (check["verdict"], said(check["found"]).lstrip("-")) == ("fail", found.lstrip("-"))
    assert said(check["expected"]) == "clock synchronised, within 1 ms"
    assert said(row.summary).lstrip("-") == found.lstrip("-")
    assert not accepted_now([node.pk])
