"""The rule of a launch, without a database: a table of snapshots and the moves they must give."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from fleet.rules.message import said
from releases.rules import launch as rules

NOW = datetime(2026, 11, 29, 18, 0, tzinfo=UTC)


def position(number: int, **facts) -> rules.PositionSeen:
    return rules.PositionSeen(position=number, node=f"h100-00{number + 3}", **facts)


def snapshot(state: str, *positions: rules.PositionSeen, **facts) -> rules.Snapshot:
    defaults = {
        "now": NOW,
        "state_at": NOW - timedelta(seconds=5),
        "start_deadline_at": NOW + timedelta(seconds=60),
        "world_size": 16,
        "cause": "",
    }
    return rules.Snapshot(state=state, positions=positions, **{**defaults, **facts})


def started(number: int, **facts) -> rules.PositionSeen:
    usual = {"start": "succeeded", "subject": "live", "identity": "ok"}
    return position(number, **{**usual, **facts})


def test_every_state_has_a_decision_and_a_row_in_the_table():
    assert set(rules._DECIDERS) == set(rules.LAUNCH_MOVES)
    for onward in rules.LAUNCH_MOVES.values():
        assert onward <= set(rules.LAUNCH_MOVES)


def test_it_starts_only_when_every_node_passed_its_pre_flight():
    one_open = snapshot("preflight", position(0, preflight="ok"), position(1, preflight="open"))
    assert rules.decide(one_open).to is None
    both = snapshot("preflight", position(0, preflight="ok"), position(1, preflight="ok"))
    assert rules.decide(both).to == "starting"


def test_a_refused_pre_flight_fails_before_anything_runs():
    bad = position(1, preflight="bad", preflight_explanation="weights: no .ready marker.")
    move = rules.decide(snapshot("preflight", position(0, preflight="ok"), bad))
    assert move.to == "failed"
    assert "h100-004: weights" in said(move.cause)


def test_one_rank_that_does_not_start_takes_the_whole_unit_down():
    failed = position(1, start="failed", start_explanation="docker: exit code 125")
    move = rules.decide(snapshot("starting", started(0), failed))
    assert move.to == "freezing"
    assert "h100-004 did not start" in said(move.cause)


def test_it_waits_for_a_late_rank_until_the_start_window_is_over():
    late = position(1, start="running", subject="new")
    assert rules.decide(snapshot("starting", started(0), late)).to is None
    over = snapshot("starting", started(0), late, start_deadline_at=NOW - timedelta(seconds=1))
    assert rules.decide(over).to == "freezing"


@pytest.mark.parametrize("state", ["starting", "loading", "warming", "ready"])
@pytest.mark.parametrize(
    "lost",
    [
        {"subject": "done", "rc": 0},
        {"subject": "done", "rc": 137},
        {"subject": "lost"},
        {"subject": "gone"},
        {"boot_changed": True},
        {"failure": "Worker proc VllmWorker-3 died unexpectedly"},
    ],
)
def test_a_lost_rank_takes_the_unit_down_in_every_running_state(state, lost):
    """An exit code of 0 is no success: a dead engine ends with 0."""
    follower = replace(started(1, phase="ready"), **lost)
    move = rules.decide(snapshot(state, started(0, phase="ready"), follower))
    assert move.to == "freezing"
    assert "h100-004" in said(move.cause)


WAITING = {
    "failure": "RPC call to sample_tokens timed out.",
    "failure_kind": "rpc_timeout",
    "log_cause": "RPC call to sample_tokens timed out.",
    "log_cause_kind": "rpc_timeout",
}


def test_the_rank_that_died_is_named_before_those_that_missed_it():
    dead = started(1, failure="Worker_TP11 died unexpectedly", failure_kind="worker_died")
    cause = said(rules.decide(snapshot(rules.READY, started(0, **WAITING), dead)).cause)
    assert cause == "h100-004 (position 1): Worker_TP11 died unexpectedly"


def test_a_node_that_waited_in_vain_is_not_named_as_the_one_that_hangs():
    waiting = started(0, **WAITING)
    cause = rules.decide(snapshot(rules.READY, waiting, started(1))).cause
    assert said(cause) == (
        "A rank hangs or is lost; which one is not known. "
        "h100-003 (position 0) waited for it in vain: RPC call to sample_tokens timed out."
    )
    dead = started(1, failure="Worker_TP11 died", failure_kind="worker_died", evidence="done")
    later = snapshot(rules.FREEZING, replace(waiting, evidence="done"), dead, cause=cause)
    assert said(rules.decide(later).cause) == "h100-004 (position 1): Worker_TP11 died"


def test_lines_read_while_evidence_is_frozen_make_the_cause_more_exact():
    by_exit = rules.decide(
        snapshot(rules.READY, started(0), started(1, subject="done", rc=1))
    ).cause
    seen = snapshot(
        rules.FREEZING,
        started(0, evidence="done", failure="VllmWorker-3 died", failure_kind="worker_died"),
        started(1, evidence="done", subject="done", rc=1),
        cause=by_exit,
    )
    assert said(rules.decide(seen).cause) == "h100-003 (position 0): VllmWorker-3 died"
    hang = replace(seen, cause="The endpoint generates nothing")
    assert rules.decide(hang).cause == "", "what was not a lost rank keeps its cause"


def test_an_unknown_rank_is_not_a_lost_rank():
    unknown = started(1, subject="unknown", phase="ready")
    assert rules.decide(snapshot("ready", started(0, phase="ready"), unknown)).to is None


def test_another_world_size_than_planned_never_gets_ready():
    seen = snapshot("loading", started(0, phase="ready", world_size=8), started(1))
    assert rules.decide(seen).to == "freezing"


@pytest.mark.parametrize("state", ["", "open", "failed"])
def test_nothing_is_asked_before_every_node_proved_what_runs_there(state):
    seen = snapshot("loading", started(0, phase="ready"), started(1, identity=state))
    move = rules.decide(seen)
    assert (move.to, said(move.explanation)) == (
        None,
        "Not proved yet what runs on h100-004.",
    )
    late = rules.decide(replace(seen, state_at=NOW - timedelta(hours=2)))
    assert (late.to, late.cause) == ("freezing", move.explanation), "and not for ever"


@pytest.mark.parametrize("state", ["unasked", "open", "failed"])
def test_a_container_that_is_followed_anew_proves_itself_before_the_unit_is_ready(state):
    seen = snapshot("warming", started(0), started(1, identity=state), warm_up="right")
    move = rules.decide(seen)
    assert (move.to, said(move.explanation)) == (
        None,
        "Not proved yet what runs on h100-004.",
    )
    late = rules.decide(replace(seen, state_at=NOW - timedelta(hours=2)))
    assert (late.to, late.cause) == ("freezing", move.explanation), "and not for ever"


def test_a_rank_of_another_image_takes_the_whole_unit_down():
    other = started(1, identity="bad", identity_explanation="image b runs, the release pins a.")
    move = rules.decide(snapshot("loading", started(0, phase="load"), other))
    assert move.to == "freezing"
    assert said(move.cause) == "h100-004: image b runs, the release pins a."


def test_started_is_not_ready():
    assert rules.decide(snapshot("loading", started(0, phase="api"), started(1))).to is None
    answering = snapshot("loading", started(0, phase="ready"), started(1))
    assert rules.decide(answering).to == "warming"
    warming = snapshot("warming", started(0), started(1), warm_up="open")
    assert rules.decide(warming).to is None
    right = snapshot("warming", started(0), started(1), warm_up="right")
    assert rules.decide(right).to == "ready"


def test_a_wrong_golden_answer_is_never_asked_again():
    wrong = snapshot("warming", started(0), started(1), warm_up="wrong", warm_up_explanation="x")
    assert rules.decide(wrong).to == "freezing"


@pytest.mark.parametrize("state", ["starting", "loading", "warming"])
def test_a_node_that_goes_away_before_ready_takes_the_unit_down(state):
    seen = snapshot(state, started(0), started(1, is_reachable=False))
    assert rules.decide(seen).to == "freezing"
    assert rules.decide(replace(seen, state="ready")).to is None


def test_a_proof_that_nobody_renews_expires():
    old = NOW - timedelta(hours=1)
    places = (started(0, phase="ready"), started(1, phase="ready"))
    fresh = rules.GoldenSeen(tried_at=NOW - timedelta(seconds=59), ok_at=NOW)
    seen = snapshot("ready", *places, state_at=old, golden=fresh)
    assert rules.decide(seen).doubt == ""
    stale = replace(seen, golden=replace(fresh, tried_at=NOW - timedelta(seconds=61)))
    move = rules.decide(stale)
    assert (move.to, move.doubt) == (None, rules.UNSEEN)
    assert "since 17:58:59 UTC" in said(move.explanation)
    assert rules.decide(replace(stale, state_at=NOW)).doubt == "", "it was proved just now"


def hang(**facts) -> rules.GoldenSeen:
    defaults = {
        "tried_at": NOW - timedelta(seconds=10),
        "ok_at": NOW - timedelta(seconds=80),
        "misses": 3,
    }
    return rules.GoldenSeen(**{**defaults, **facts})


def ready(golden: rules.GoldenSeen, **facts) -> rules.Snapshot:
    places = (started(0, phase="ready"), started(1, phase="ready"))
    old = NOW - timedelta(hours=1)
    return snapshot("ready", *places, golden=golden, state_at=old, **facts)


def test_a_unit_that_answers_health_and_generates_nothing_is_taken_down():
    move = rules.decide(ready(hang(running=9, progress_at=NOW - timedelta(seconds=70))))
    assert move.to == "freezing"
    assert "No token came for 70 s" in said(move.cause)


@pytest.mark.parametrize(
    "golden",
    [
        hang(misses=1),
        hang(ok_at=NOW - timedelta(seconds=30)),
        hang(tried_at=NOW - timedelta(seconds=60)),
        hang(tried_at=None),
        hang(running=9, progress_at=NOW - timedelta(seconds=5)),
    ],
    ids=["one miss", "answered lately", "probe is stale", "never probed", "tokens still come"],
)
def test_it_does_not_judge_a_hang_without_fresh_proof(golden):
    assert rules.decide(ready(golden)).to is None


def test_the_brake_holds_automatic_action():
    move = rules.decide(ready(hang(), is_braked=True))
    assert move.to is None
    assert "brake" in said(move.explanation)
    assert move.doubt == rules.HELD
    assert "brake" not in said(rules.decide(ready(hang(misses=0), is_braked=True)).explanation)


@pytest.mark.parametrize("state", ["starting", "loading", "warming", "ready"])
def test_a_reboot_takes_the_unit_down_as_a_fact_and_not_as_a_judgement(state):
    seen = snapshot(state, started(0), started(1, boot_changed=True), is_braked=True)
    move = rules.decide(seen)
    assert (move.to, move.is_reboot, move.is_judged) == ("freezing", True, False)
    lost = rules.decide(snapshot(state, started(0), started(1, subject="lost")))
    assert (lost.to, lost.is_judged) == ("freezing", True)


def test_a_reboot_is_the_cause_whatever_the_last_lines_of_the_log_say():
    echo = started(0, failure="rank 11 missed a collective", failure_kind="watchdog")
    one = rules.decide(snapshot("ready", echo, started(1, boot_changed=True)))
    assert said(one.cause) == "h100-004 was rebooted: its ranks are gone."
    both = snapshot("ready", replace(echo, boot_changed=True), started(1, boot_changed=True))
    assert said(rules.decide(both).cause) == (
        "h100-003 and h100-004 were rebooted: their ranks are gone."
    )


def test_a_ready_unit_on_a_node_that_is_away_stays_and_is_in_doubt():
    seen = snapshot("ready", started(0), started(1, is_reachable=False))
    move = rules.decide(seen)
    assert (move.to, move.doubt) == (None, rules.UNSEEN)
    assert "h100-004 cannot be reached" in said(move.explanation)
    lately, long_ago = NOW - timedelta(seconds=20), NOW - timedelta(seconds=46)
    fresh = rules.GoldenSeen(tried_at=lately, ok_at=lately)
    assert rules.decide(replace(seen, golden=fresh)).doubt == "", "every rank answered with it"
    for stale in (replace(fresh, ok_at=long_ago), replace(fresh, misses=1)):
        assert rules.decide(replace(seen, golden=stale)).doubt == rules.UNSEEN


def test_evidence_is_frozen_before_anything_is_stopped():
    seen = snapshot("freezing", started(0, evidence="done"), started(1, evidence="open"))
    assert rules.decide(seen).to is None
    late = replace(seen, state_at=NOW - timedelta(seconds=21))
    assert rules.decide(late).to == "stopping"


def test_stopped_needs_proof_from_every_node():
    half = snapshot("stopping", started(0, stop="succeeded"), started(1, stop="unknown"))
    assert rules.decide(half).to is None
    both = snapshot("stopping", started(0, stop="succeeded"), started(1, stop="succeeded"))
    assert rules.decide(both).to == "stopped"
    assert rules.decide(replace(both, cause="a rank was lost")).to == "failed"


SERVED = rules.TrafficSeen()


def test_a_unit_that_hangs_behind_a_gateway_keeps_running_in_doubt():
    move = rules.decide(ready(hang(), traffic=SERVED))
    assert (move.to, move.doubt, move.is_judged) == (None, rules.HUNG, True)
    assert "generates nothing" in said(move.explanation)
    assert rules.decide(ready(hang())).to == "freezing", "nothing else keeps requests from it"


def test_wrong_answers_behind_a_gateway_are_a_doubt_too():
    wrong = hang(misses=2, is_wrong_answer=True, error="the answer differs from the golden one")
    assert rules.decide(ready(wrong, traffic=SERVED)).doubt == rules.HUNG


def test_a_lost_rank_is_taken_down_behind_a_gateway_as_without_one():
    lost = started(1, phase="ready", subject="lost")
    seen = snapshot("ready", started(0, phase="ready"), lost, traffic=SERVED, doubt=rules.HUNG)
    assert rules.decide(seen).to == "freezing"


@pytest.mark.parametrize(
    "golden",
    [hang(), hang(tried_at=None), hang(tried_at=NOW - timedelta(seconds=60), misses=0)],
    ids=["still silent", "not asked", "not asked lately"],
)
def test_only_a_fresh_right_answer_clears_a_hang(golden):
    seen = ready(golden, traffic=SERVED, doubt=rules.HUNG, explanation="It generates nothing.")
    move = rules.decide(seen)
    assert (move.doubt, move.explanation) == (rules.HUNG, "It generates nothing.")
    assert not move.is_judged, "it was judged once"
    right = rules.GoldenSeen(tried_at=NOW, ok_at=NOW - timedelta(seconds=2))
    assert rules.decide(replace(seen, golden=right)).doubt == ""


def test_the_brake_holds_a_new_hang_and_leaves_an_old_one():
    new = rules.decide(ready(hang(), traffic=SERVED, is_braked=True))
    assert (new.to, new.doubt) == (None, rules.HELD)
    old = ready(hang(), traffic=SERVED, is_braked=True, doubt=rules.HUNG, explanation="x")
    assert rules.decide(old).doubt == rules.HUNG


def test_a_wanted_stop_waits_until_the_unit_is_out_of_traffic():
    well = rules.GoldenSeen(tried_at=NOW, ok_at=NOW)
    asked = rules.TrafficSeen(
        "maintenance", "Requests that run, by the proxy: 3, by the engine: 3."
    )
    waiting = rules.decide(ready(well, traffic=asked))
    assert waiting.to is None
    assert "out of traffic. Requests that run, by the proxy: 3" in said(waiting.explanation)
    out = rules.decide(ready(well, traffic=replace(asked, is_out=True), is_braked=True))
    assert (out.to, out.cause, out.is_judged) == ("stopping", "", False)
    assert "maintenance" in said(out.explanation)
