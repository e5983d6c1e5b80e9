"""A launch by hand gets its traffic from its own gate, once, and from nothing else: rows only, no node."""

import pytest
from django.utils import timezone

from fleet.models import Replica, TrailEntry
from fleet.rules.message import said
from releases.models import Endpoint, GateRun, Launch
from releases.rules.entry import AT_ONCE, TRIES
from releases.rules.gates import CHECKS
from releases.services.endpoints import Ungated, endpoint_open, endpoint_set
from releases.services.entries import entries_advance, entry_advance
from releases.services.gates import gate_start
from tests.factories import make_actor
from tests.traffic import endpoint, give, make_gateway, make_ready, make_release, pass_gate

pytestmark = pytest.mark.django_db


@pytest.fixture
def launch() -> Launch:
    """Ready, behind the gateway, without traffic."""
    make_gateway()
    return behind(make_ready(1, make_release()))


def behind(launch: Launch) -> Launch:
    endpoint_open(launch=launch, actor=make_actor())
    return launch


def end_gate(state: str, explanation: str = "as told") -> None:
    GateRun.objects.filter(state="queued").update(
        state=state, explanation=explanation, ended_at=timezone.now()
    )


def told(launch: Launch) -> str:
    return said(endpoint(launch).explanation)


def test_the_console_asks_the_gate_and_gives_the_weight_that_it_earned(launch):
    assert (entries_advance(), entries_advance()) == (1, 0)
    run = GateRun.objects.get()
    assert (run.launch, run.checks, endpoint(launch).weight) == (launch, list(CHECKS), 0)
    assert told(launch) == "It gets traffic when its gate has passed."
    end_gate("passed")
    assert (entries_advance(), entries_advance()) == (1, 0)
    assert (endpoint(launch).weight, told(launch)) == (100, "")
    entry = TrailEntry.objects.get(verb="endpoint.set")
    assert (entry.actor, said(entry.reason)) == ("rule:entry", "Its gate passed.")


@pytest.mark.parametrize(
    ("state", "words"), [("failed", "its gate failed"), ("cancelled", "its gate proved nothing")]
)
def test_a_gate_that_did_not_pass_leaves_it_without_traffic_and_says_what_to_do(
    launch, state, words
):
    entries_advance()
    end_gate(state)
    assert (entries_advance(), entries_advance()) == (1, 0)
    assert (endpoint(launch).weight, GateRun.objects.count()) == (0, 1)
    assert words in told(launch)
    assert "Start a gate run again" in told(launch)
    pass_gate(launch)  # as a person lets it run again
    entries_advance()
    assert endpoint(launch).weight == 100


def test_a_gate_that_proved_nothing_is_tried_again_and_then_left_to_a_person(launch):
    for _ in range(TRIES + 2):
        entries_advance()
        end_gate("inconclusive", "a rank has no lines")
    assert GateRun.objects.count() == TRIES
    assert "proved nothing: a rank has no lines." in told(launch)


def test_the_gates_of_a_whole_pool_are_not_open_at_once():
    make_gateway()
    release = make_release()
    launches = [behind(make_ready(number, release)) for number in range(1, AT_ONCE + 3)]
    entries_advance()
    assert GateRun.objects.count() == AT_ONCE
    for _ in launches:
        end_gate("passed")
        entries_advance()
        entries_advance()
    assert set(Endpoint.objects.values_list("weight", flat=True)) == {100}


def test_beside_a_release_that_serves_no_gate_is_asked_for(launch):
    give(launch)
    other = behind(make_ready(2, make_release(2)))
    entries_advance()
    assert not other.gate_runs.exists()
    assert endpoint(other).weight == 0
    assert told(other) == "Another release serves: its weight is for a person to give."
    endpoint_set(launch=launch, weight=0, actor=make_actor())
    assert entries_advance() == 0, "what was decided stays so"


def test_the_traffic_of_a_canary_lets_no_other_unit_of_its_release_in(launch):
    give(launch)
    trial = make_release(2)
    canary = behind(make_ready(2, trial))
    give(canary, 1)
    Replica.objects.filter(pk=canary.replica_id).update(is_canary=True)
    other = behind(make_ready(3, trial))
    entries_advance()
    assert not other.gate_runs.exists()
    assert endpoint(other).weight == 0


@pytest.mark.parametrize("first_weight", [0, 5])
def test_a_launch_whose_traffic_somebody_gives_is_left_alone(first_weight):
    make_gateway()
    behind(make_ready(1, make_release(), first_weight=first_weight))
    assert entries_advance() == 0
    assert not GateRun.objects.exists()


def test_what_a_person_wanted_meanwhile_stays(launch):
    entries_advance()
    endpoint_set(launch=launch, weight=0, actor=make_actor(), reason="not tonight")
    end_gate("passed")
    assert entries_advance() == 0
    assert endpoint(launch).weight == 0


@pytest.mark.parametrize(
    "change", [{"doubt": "hung"}, {"doubt": "unseen"}], ids=lambda change: change["doubt"]
)
def test_a_unit_in_doubt_waits(launch, change):
    pass_gate(launch)
    Replica.objects.update(**change)
    assert entries_advance() == 0
    assert endpoint(launch).weight == 0


def test_what_somebody_takes_away_after_it_was_found_stays_away(launch):
    pass_gate(launch)
    Launch.objects.update(stop_reason="not tonight")
    assert not entry_advance(launch.pk)
    Launch.objects.update(stop_reason="")
    endpoint_set(launch=launch, mode=Endpoint.Mode.DRAIN, actor=make_actor())
    assert not entry_advance(launch.pk)
    assert (endpoint(launch).weight, endpoint(launch).mode) == (0, "drain")


def test_it_waits_for_a_run_over_a_part_of_the_checks_and_says_so(launch):
    run = gate_start(launch=launch, purpose="book", actor=make_actor(), checks=["golden"])
    assert (entries_advance(), entries_advance()) == (1, 0)
    assert told(launch) == f"{run.public_id} of this launch is still open."
    end_gate("passed")
    entries_advance()
    assert GateRun.objects.count() == 2


class TestUngated:
    """Nothing ungated gets traffic, whoever wants it."""

    def test_no_weight_without_a_gate(self, launch):
        with pytest.raises(Ungated, match="passed no gate"):
            endpoint_set(launch=launch, weight=1, actor=make_actor())
        assert endpoint(launch).weight == 0

    @pytest.mark.parametrize(
        ("checks", "state"),
        [(["transport"], "passed"), (list(CHECKS), "failed"), (list(CHECKS), "inconclusive")],
    )
    def test_what_is_no_whole_pass_is_none(self, launch, checks, state):
        GateRun.objects.create(launch=launch, purpose="x", checks=checks, state=state)
        with pytest.raises(Ungated):
            endpoint_set(launch=launch, weight=1, actor=make_actor())

    def test_a_failure_after_the_pass_takes_no_more_and_lets_go(self, launch):
        give(launch, 50)
        GateRun.objects.create(launch=launch, purpose="x", checks=["transport"], state="failed")
        with pytest.raises(Ungated):
            endpoint_set(launch=launch, weight=60, actor=make_actor())
        assert endpoint_set(launch=launch, weight=10, actor=make_actor()).weight == 10

    @pytest.mark.parametrize("mode", ["drain", "maint"])
    def test_a_unit_whose_gate_failed_while_it_drained_does_not_come_back(self, launch, mode):
        give(launch, 50)
        endpoint_set(launch=launch, mode=mode, actor=make_actor())
        GateRun.objects.create(launch=launch, purpose="x", checks=["transport"], state="failed")
        with pytest.raises(Ungated):
            endpoint_set(launch=launch, weight=50, actor=make_actor())
        assert endpoint(launch).mode == mode

    def test_a_run_that_proved_nothing_takes_no_pass_away(self, launch):
        give(launch, 50)
        GateRun.objects.create(launch=launch, purpose="x", checks=list(CHECKS), state="expired")
        assert endpoint_set(launch=launch, weight=60, actor=make_actor()).weight == 60

    def test_a_rollout_takes_its_unit_back_without_one(self, launch):
        back = endpoint_set(launch=launch, weight=100, actor=make_actor(), is_return=True)
        assert back.weight == 100
