from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from fleet.execution import states
from fleet.execution.models import Command, Host, Subject
from fleet.execution.output import Section, sections_pack
from fleet.models import (
    AcceptanceRun,
    Evidence,
    Fact,
    Gpu,
    Hold,
    Node,
    NodeAcceptance,
    TrailEntry,
)
from fleet.rules.acceptance_stand import FIRST, LET_IN, NOT_ACCEPTED, rank_of
from fleet.rules.message import said
from fleet.rules.refusals import Conflict, NeedsReason, NotAllowed, Refused
from fleet.selectors import serving
from fleet.selectors.acceptance import (
    acceptance_refusals,
    standing_counts,
    stands_of,
)
from fleet.selectors.nodes import placeable
from fleet.services.acceptance_settle import acceptances_void
from fleet.services.acceptances import acceptance_cancel, acceptance_start, acceptances_advance
from fleet.services.holds import hold_lift
from fleet.services.probes import probe_settle, probe_start
from fleet.services.trail import rule_actor
from releases.services.launches import node_refusals
from tests.acceptances import (
    PINS,
    accepted_now,
    answer_all,
    answer_looks,
    answer_probes,
    end_test,
    end_tests,
    make_gold,
    make_good,
    nccl_table,
    settle,
)
from tests.factories import (
    make_actor,
    make_hold,
    make_node,
    make_nodes,
    make_person,
    make_pool,
    make_replica,
)
from tests.golden_profiles import make_facts

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def pins(monkeypatch):
    monkeypatch.setattr(serving, "_SOURCES", [lambda nodes: {node.pk: [PINS] for node in nodes}])


def start(nodes: list[Node], name: str = "ana") -> AcceptanceRun:
    make_good(*nodes)
    return acceptance_start(nodes=nodes, actor=make_actor(name), user=make_person(name))


def accepted(node: Node, **how) -> NodeAcceptance:
    """Carry one acceptance of a node to its verdict."""
    start([node])
    answer_all(**how)
    row = NodeAcceptance.objects.filter(node=node).latest("pk")
    node.refresh_from_db()
    return row


def checks(row: NodeAcceptance) -> dict[str, dict]:
    return {check["name"]: check for check in row.checks}


def test_a_node_as_gold_is_accepted_in_the_steps_of_the_manual():
    make_gold()
    node = make_node(state=Node.State.REGISTERED)
    run = start([node])
    assert Command.objects.get().verb == "probe", "a fresh probe comes first"
    assert acceptances_advance() == 0, "nothing else before it was read"
    answer_probes()
    assert (acceptances_advance(), acceptances_advance()) == (1, 0)
    ordered = Command.objects.exclude(purpose__startswith="probe:").order_by("purpose")
    assert [command.purpose for command in ordered] == [
        f"acceptance:{run.pk}/h100-001/{step}" for step in ("allreduce", "disk", "look")
    ]
    bench = ordered[0]
    assert (bench.verb, bench.subject.container) == ("start", f"fc-accept-{run.pk}-h100-001-nccl")
    words = " ".join(bench.payload["argv"])
    assert f"--entrypoint all_reduce_perf {PINS.image} -b 8M -e 8G -f 2 -g 8" in words
    assert f"--label fleet.subject={bench.subject.name}" in words
    answer_looks()
    assert acceptances_advance() == 0, "the tests run"
    end_tests()
    assert (acceptances_advance(), acceptances_advance()) == (1, 0)
    row = NodeAcceptance.objects.get()
    assert {
        name: check["verdict"] for name, check in checks(row).items() if check["verdict"] != "pass"
    } == {}
    assert (row.verdict, row.is_standing, row.boot_id, row.driver) == (
        "accepted", True, "b-1", "570.172.08",
    )  # fmt: skip
    assert row.valid_until > timezone.now()
    node.refresh_from_db()
    run.refresh_from_db()
    assert node.state == Node.State.READY
    assert run.public_id in said(node.explanation)
    assert run.ended_at is not None
    assert accepted_now([node.pk]) == {node.pk}
    verbs = set(TrailEntry.objects.values_list("verb", flat=True))
    assert {"acceptance.start", "acceptance.accepted", "node.move"} <= verbs


def test_what_was_measured_becomes_facts_and_what_the_tests_printed_evidence():
    make_gold()
    row = accepted(make_node())
    facts = {fact.key: (fact.value, fact.unit) for fact in Fact.objects.filter(node=row.node)}
    assert facts["allreduce_busbw_gbs"] == (470.0, "GB/s")
    assert facts["disk_read_gbs"] == (12.0, "GB/s")
    assert facts["disk_read_tool"] == ("dd", "")
    frozen = {said(one.title): one for one in Evidence.objects.all()}
    assert set(frozen) == {
        "h100-001: all_reduce_perf on one node",
        "h100-001: sequential read of the model disk",
    }
    one = frozen["h100-001: all_reduce_perf on one node"]
    assert b"Avg bus bandwidth" in bytes(one.body)
    assert checks(row)["allreduce"]["evidence"] == [f"evidence:{one.pk}"]
    assert checks(row)["image"]["evidence"] == [f"{row.look_id}/image-0"]


def ecc_on_gpu_3() -> None:
    """The card table of the last probe has errors: what a probe of a bad card stores."""
    Gpu.objects.filter(index=3).update(ecc_uncorrected=2.0)


def rejected(node: Node) -> NodeAcceptance:
    start([node])
    answer_probes()
    ecc_on_gpu_3()
    acceptances_advance()
    answer_looks()
    end_tests()
    acceptances_advance()
    node.refresh_from_db()
    return NodeAcceptance.objects.filter(node=node).latest("pk")


def test_a_rejected_node_is_quarantined_held_and_not_placed():
    make_gold()
    node = make_node()
    row = rejected(node)
    assert row.verdict == "rejected"
    assert said(row.summary) == "uncorrected ECC on GPU 3 (2)"
    assert node.state == Node.State.QUARANTINED
    assert "uncorrected ECC on GPU 3" in said(node.explanation)
    hold = Hold.objects.get(lifted_at=None)
    assert (hold.owner, hold.kind) == ("acceptance", "cordon")
    assert "uncorrected ECC on GPU 3" in said(hold.reason)
    assert not placeable().exists()
    state, held = map(said, node_refusals([node])[node.pk])
    assert state == "h100-001 is quarantined: mend it, then accept it again."
    assert "uncorrected ECC on GPU 3" in held
    assert row.valid_until is None


MARGINAL_GBS = 410.0  # 0.872 of gold: below the least ratio, not yet a failure


def let_in(node: Node, reason: str = "for the night") -> None:
    hold = Hold.objects.get(node=node, owner="acceptance", lifted_at=None)
    hold_lift(
        hold=hold, reason=reason, actor=make_actor("bo"), user=make_person("bo"), override=True
    )


@pytest.mark.parametrize("asks", [[], ["all"]])
def test_a_marginal_node_is_ready_and_held_until_an_approver_lets_it_in(settings, asks):
    settings.ACCEPTANCE_REQUIRED = asks
    make_gold()
    node = make_node(state=Node.State.ACCEPTANCE)
    row = accepted(node, busbw={node.name: MARGINAL_GBS})
    assert (row.verdict, node.state) == ("marginal", Node.State.READY)
    assert row.run.public_id in said(node.explanation)
    assert not placeable().exists()
    (why,) = map(said, node_refusals([node])[node.pk])
    assert f"h100-001 is marginal by {row.run.public_id} (410 GB/s, 0.872 of gold)" in why
    with pytest.raises(NotAllowed):
        hold_lift(
            hold=Hold.objects.get(),
            reason="x",
            actor=make_actor(),
            user=make_person(),
            override=True,
        )
    with pytest.raises(NeedsReason):
        let_in(node, reason=" ")
    let_in(node)
    assert placeable().exists()
    assert node_refusals([node])[node.pk] == []
    stand = stands_of([node.pk])[node.pk]
    assert (rank_of(stand), stand.let_in_by, stand.let_in_why) == (LET_IN, "bo", "for the night")
    told = TrailEntry.objects.get(verb="hold.override")
    assert (told.actor, told.reason) == ("bo", "for the night")


def test_an_answer_is_for_one_verdict_and_ends_with_it(settings):
    settings.ACCEPTANCE_REQUIRED = ["all"]
    make_gold()
    node = make_node()
    accepted(node, busbw={node.name: MARGINAL_GBS})
    let_in(node)
    again = accepted(node, busbw={node.name: MARGINAL_GBS})
    assert rank_of(stands_of([node.pk])[node.pk]) == NOT_ACCEPTED, "a new verdict asks again"
    let_in(node)
    Host.objects.filter(pk=node.pk).update(boot_id="b-2")
    assert acceptances_void() == 1
    (why,) = map(said, node_refusals([node])[node.pk])
    assert f"({again.run.public_id} ended: The node was started again" in why


def test_a_marginal_node_becomes_accepted_or_rejected_with_one_hold_that_says_why():
    make_gold()
    node = make_node()
    accepted(node, busbw={node.name: MARGINAL_GBS})
    accepted(node, busbw={node.name: 300.0})
    hold = Hold.objects.get(lifted_at=None)
    assert (node.state, "0.638 of gold" in said(hold.reason)) == (Node.State.QUARANTINED, True)
    accepted(node, busbw={node.name: MARGINAL_GBS})
    hold = Hold.objects.get(lifted_at=None)
    assert (node.state, "0.872 of gold" in said(hold.reason)) == (Node.State.READY, True)
    accepted(node)
    assert not Hold.objects.filter(lifted_at=None).exists()
    assert rank_of(stands_of([node.pk])[node.pk]) == FIRST


def test_what_acceptances_say_of_nodes_is_read_with_two_queries(django_assert_num_queries):
    make_gold()
    nodes = make_nodes(4)
    start(nodes)
    answer_all(busbw={node.name: MARGINAL_GBS for node in nodes[:2]})
    let_in(nodes[0])
    for some in (nodes[:1], nodes):
        with django_assert_num_queries(2):
            stands = stands_of(node.pk for node in some)
    assert [rank_of(stands[node.pk]) for node in nodes] == [LET_IN, NOT_ACCEPTED, FIRST, FIRST]


def test_a_probe_of_a_marginal_node_does_not_call_it_untested():
    make_gold()
    node = make_node()
    row = accepted(node, busbw={node.name: MARGINAL_GBS})
    probe_start(nodes=[node], actor=rule_actor("schedule"))
    answer_probes()
    node.refresh_from_db()
    assert f"marginal by acceptance {row.run.public_id}" in said(node.explanation)


def test_accepted_again_lifts_only_its_own_hold():
    make_gold()
    node = make_node()
    rejected(node)
    other = make_hold(node)
    row = accepted(node)
    assert (row.verdict, node.state) == ("accepted", Node.State.READY)
    assert list(Hold.objects.filter(lifted_at=None)) == [other]
    lifted = Hold.objects.get(owner="acceptance")
    assert lifted.lifted_by == "rule:acceptance"
    assert NodeAcceptance.objects.filter(is_standing=True).get() == row
    moves = TrailEntry.objects.filter(verb="node.move", after__state="ready").latest("pk")
    assert moves.after["through"] == ["acceptance"]


def test_a_node_that_a_person_quarantined_stays_so_though_it_is_accepted():
    make_gold()
    node = make_node(state=Node.State.QUARANTINED, explanation="waits for its vendor")
    row = accepted(node)
    assert row.verdict == "accepted"
    assert (node.state, node.explanation) == (Node.State.QUARANTINED, "waits for its vendor")


def test_rejected_twice_holds_once_with_the_newest_reason():
    make_gold()
    node = make_node()
    rejected(node)
    accepted(node, busbw={node.name: 300.0})
    hold = Hold.objects.get(lifted_at=None)
    assert "300 GB/s, 0.638 of gold" in said(hold.reason)
    assert node.state == Node.State.QUARANTINED
    assert Hold.objects.filter(owner="acceptance").count() == 2


def test_busy_cards_are_not_measured_and_never_failed():
    make_gold()
    node = make_node()
    replica = make_replica(nodes=[node])
    replica.members.update(is_reserved=True)
    row = accepted(node)
    assert not Subject.objects.filter(name__endswith="-nccl").exists()
    assert (row.verdict, node.state) == ("not_measured", Node.State.READY)
    check = checks(row)["allreduce"]
    assert (check["verdict"], "busy" in said(check["found"])) == ("unknown", True)
    assert not row.is_standing
    assert not Hold.objects.exists()


def test_foreign_work_on_the_cards_is_busy_too():
    make_gold()
    node = make_node()
    start([node])
    answer_probes()
    Gpu.objects.filter(index=5).update(memory_used_mib=70000.0)
    acceptances_advance()
    assert not Subject.objects.filter(name__endswith="-nccl").exists()


def test_not_measured_leaves_an_acceptance_that_stands():
    make_gold()
    node = make_node()
    first = accepted(node)
    start([node])
    for command in Command.objects.filter(state=states.QUEUED):
        settle(command, states.FAILED, explanation="no route to host")
    probe_settle()
    acceptances_advance()
    newest = NodeAcceptance.objects.latest("pk")
    assert newest.verdict == "not_measured"
    assert "no route to host" in said(newest.summary)
    assert NodeAcceptance.objects.get(is_standing=True) == first
    assert accepted_now([node.pk])


def test_without_a_profile_nothing_is_accepted_and_the_next_step_is_named():
    node = make_node()
    row = accepted(node)
    assert (row.verdict, row.profile) == ("not_measured", "")
    assert "golden profile" in said(checks(row)["nvlink"]["next"])
    assert Fact.objects.filter(key="allreduce_busbw_gbs").exists(), "so that a profile can be taken"


def test_without_a_release_no_container_is_run(monkeypatch):
    monkeypatch.setattr(serving, "_SOURCES", [])
    make_gold()
    row = accepted(make_node())
    assert row.verdict == "not_measured"
    assert not Subject.objects.filter(name__endswith="-nccl").exists()
    assert checks(row)["platform"]["verdict"] == "unknown"


@pytest.mark.parametrize(
    ("text", "rc", "verdict", "words"),
    [
        ("h100-001: Test NCCL failure common.cu:961 'unhandled cuda error'\n", 3, "fail", "ended with 3"),
        ("exec: all_reduce_perf: not found\n", 127, "unknown", "did not run, exit code 127"),
        ("Unable to find image\n", 125, "unknown", "exit code 125"),
        ("", 0, "unknown", "no whole table"),
    ],
)  # fmt: skip
def test_a_test_that_broke_off_fails_and_one_that_never_ran_is_unknown(text, rc, verdict, words):
    make_gold()
    start([make_node()])
    answer_probes()
    acceptances_advance()
    answer_looks()
    end_test(Subject.objects.get(name__endswith="-nccl"), text or "\n", rc)
    end_tests()
    acceptances_advance()
    check = checks(NodeAcceptance.objects.get())["allreduce"]
    assert check["verdict"] == verdict
    assert words in said(check["found"])


def test_a_cut_table_is_no_measurement():
    make_gold()
    start([make_node()])
    answer_probes()
    acceptances_advance()
    answer_looks()
    end_test(Subject.objects.get(name__endswith="-nccl"), nccl_table()[:1800], 0)
    end_tests()
    acceptances_advance()
    assert checks(NodeAcceptance.objects.get())["allreduce"]["verdict"] == "unknown"


def test_a_start_that_never_succeeded_leaves_its_check_unmeasured():
    make_gold()
    start([make_node()])
    answer_probes()
    acceptances_advance()
    answer_looks()
    for command in Command.objects.filter(verb="start"):
        settle(command, states.FAILED, explanation="given up")
    assert acceptances_advance() == 1
    row = NodeAcceptance.objects.get()
    assert row.verdict == "not_measured"
    assert "given up" in said(checks(row)["disk_read"]["found"])


def test_after_the_deadline_what_is_missing_stays_unmeasured_and_is_stopped():
    make_gold()
    node = make_node()
    run = start([node])
    answer_probes()
    acceptances_advance()
    answer_looks()
    bench = Command.objects.get(purpose__endswith="/allreduce")
    settle(bench, states.SUCCEEDED)
    Subject.objects.filter(pk=bench.subject_id).update(state=states.SUBJECT_LIVE)
    AcceptanceRun.objects.update(deadline_at=timezone.now() - timedelta(seconds=1))
    assert (acceptances_advance(), acceptances_advance()) == (1, 0)
    row = NodeAcceptance.objects.get()
    assert row.verdict == "not_measured"
    assert "no result before the deadline" in said(checks(row)["allreduce"]["found"])
    stop = Command.objects.get(verb="stop")
    assert stop.subject_id == bench.subject_id
    run.refresh_from_db()
    assert run.ended_at is not None


def test_a_cancel_stops_the_tests_and_says_who_and_why():
    make_gold()
    nodes = make_nodes(2)
    run = start(nodes)
    answer_probes()
    acceptances_advance()
    bench = Command.objects.filter(purpose__endswith="/allreduce").first()
    settle(bench, states.SUCCEEDED)
    Subject.objects.filter(pk=bench.subject_id).update(state=states.SUBJECT_LIVE)
    with pytest.raises(NeedsReason):
        acceptance_cancel(run=run, reason=" ", actor=make_actor())
    run = acceptance_cancel(run=run, reason="wrong nodes", actor=make_actor(), user=make_person())
    assert (run.cancelled_by, run.ended_at is not None) == ("ana", True)
    assert Command.objects.filter(verb="stop").count() == 1
    assert not Command.objects.filter(state=states.QUEUED).exclude(verb="stop").exists()
    assert {said(row.summary) for row in run.nodes.all()} == {"Cancelled: wrong nodes"}
    again = acceptance_cancel(
        run=run, reason="again", actor=make_actor("bo"), user=make_person("bo")
    )
    assert again.cancelled_by == "ana", "what is over stays as it is"
    assert acceptances_advance() == 0


@pytest.mark.parametrize("stage", ["asked", "probed", "testing"])
def test_a_cancel_asks_the_database_as_often_for_48_nodes_as_for_two(stage):
    make_gold()
    counts = []
    for low, count in ((0, 2), (100, 48)):
        nodes = [
            make_node(f"h100-{low + n:03d}", host={"address": f"127.0.{low}.{n}"})
            for n in range(1, count + 1)
        ]
        run = start(nodes)
        if stage != "asked":
            answer_probes()
            acceptances_advance()
        if stage == "testing":
            answer_looks()
            begun = Command.objects.filter(verb="start", state=states.QUEUED)
            Subject.objects.filter(pk__in=begun.values("subject")).update(state=states.SUBJECT_LIVE)
            begun.update(state=states.SUCCEEDED, settled_at=timezone.now())
        with CaptureQueriesContext(connection) as asked:
            acceptance_cancel(run=run, reason="wrong nodes", actor=make_actor(), user=make_person())
        counts.append(len(asked))
        assert {row.verdict for row in run.nodes.all()} == {"not_measured"}
        stops = Command.objects.filter(verb="stop", host__in=[node.pk for node in nodes])
        assert stops.count() == (2 * count if stage == "testing" else 0)
        live = Command.objects.filter(state=states.QUEUED, host__in=[node.pk for node in nodes])
        assert not live.exclude(verb="stop").exists()
    assert counts[0] == counts[1]
    assert TrailEntry.objects.filter(verb="probe.give_up").count() == (
        50 if stage == "asked" else 0
    )


def test_a_node_takes_part_in_one_acceptance_at_a_time():
    nodes = make_nodes(2)
    start(nodes[:1])
    with pytest.raises(Conflict, match="h100-001: acceptance AC-"):
        start(nodes)
    assert AcceptanceRun.objects.count() == 1


def test_who_may_accept():
    pool = make_pool()
    node, spare = make_nodes(2)
    make_replica(pool=pool, nodes=[node])
    make_replica("dsv4-r1", pool=make_pool("dsv4"), nodes=[spare])
    make_person("ana", "operator", pool)
    acceptance_start(nodes=[node], actor=make_actor(), user=make_person("ana", ""))
    with pytest.raises(NotAllowed):
        acceptance_start(nodes=[spare], actor=make_actor(), user=make_person("ana", ""))
    with pytest.raises(NotAllowed):
        start([spare], "chen")
    with pytest.raises(Refused):
        start([])
    with pytest.raises(NotAllowed):
        acceptance_cancel(
            run=AcceptanceRun.objects.get(),
            reason="x",
            actor=make_actor(),
            user=make_person("chen"),
        )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"valid_until": timezone.now() - timedelta(days=1)}, "30 days"),
        ({"fact": ("driver_version", "575.1")}, "GPU driver changed"),
        ({"fact": ("vbios", "96.01")}, "VBIOS"),
        ({"fact": ("boot_id", "b-2")}, "started again"),
        ({"host": "b-2"}, "started again"),
    ],
)
def test_age_reboot_driver_and_firmware_end_an_acceptance(change, words, settings):
    settings.ACCEPTANCE_REQUIRED = ["all"]
    make_gold()
    node = make_node()
    row = accepted(node)
    assert acceptance_refusals([node]) == {}
    assert acceptances_void() == 0
    if "fact" in change:
        key, value = change["fact"]
        make_facts(node, **{key: value})
        Fact.objects.filter(key=key).update(observed_at=timezone.now() + timedelta(seconds=5))
    elif "host" in change:
        Host.objects.filter(pk=node.pk).update(boot_id=change["host"])
    else:
        NodeAcceptance.objects.update(**change)
    assert (acceptances_void(), acceptances_void()) == (1, 0)
    row.refresh_from_db()
    node.refresh_from_db()
    assert words in said(row.voided_why)
    assert (row.is_standing, row.is_valid, node.state) == (True, False, Node.State.READY)
    assert "no valid acceptance" in said(acceptance_refusals([node])[node.pk])
    assert TrailEntry.objects.filter(verb="acceptance.void").count() == 1


def test_the_watch_saying_the_boot_that_was_accepted_changes_nothing():
    make_gold()
    node = make_node()
    accepted(node)
    Host.objects.filter(pk=node.pk).update(boot_id="b-1")
    assert acceptances_void() == 0


def test_a_probe_that_finds_the_same_node_leaves_it_accepted():
    make_gold()
    node = make_node()
    accepted(node)
    probe_start(nodes=[node], actor=rule_actor("schedule"))
    answer_probes()
    assert acceptances_void() == 0
    node.refresh_from_db()
    assert "Accepted" in said(node.explanation)
    assert accepted_now([node.pk])


def test_only_pools_that_ask_refuse_a_node_without_acceptance(settings):
    pool = make_pool()
    node, spare = make_nodes(2)
    make_replica(pool=pool, nodes=[node])
    none = {node.pk: [], spare.pk: []}
    assert node_refusals([node, spare]) == none, "by default a passed probe is enough"
    settings.ACCEPTANCE_REQUIRED = ["dsv4"]
    found = node_refusals([node, spare])
    assert found[node.pk] == []
    assert len(found[spare.pk]) == 1, "a spare may go to the pool that asks"
    settings.ACCEPTANCE_REQUIRED = ["glm52"]
    assert "accept it first" in said(node_refusals([node])[node.pk][0])


def test_counts_of_the_fleet():
    make_gold()
    good, bad, _none = make_nodes(3)
    rejected(bad)
    accepted(good)
    assert standing_counts() == {"accepted": 1, "marginal": 0, "rejected": 1, "none": 1, "all": 3}


def test_the_number_of_queries_does_not_grow_with_the_nodes():
    make_gold()
    counts = []
    for nodes in (make_nodes(2), [make_node(f"h100-1{n:02d}") for n in range(1, 9)]):
        start(nodes)
        answer_probes()
        with CaptureQueriesContext(connection) as asked:
            acceptances_advance()
        answer_looks()
        end_tests()
        with CaptureQueriesContext(connection) as judged:
            acceptances_advance()
        counts.append((len(asked), len(judged)))
    assert NodeAcceptance.objects.filter(verdict="accepted").count() == 10
    assert counts[0] == counts[1]


def test_a_look_without_an_image_on_the_node_rejects_it():
    make_gold()
    start([make_node()])
    answer_probes()
    acceptances_advance()
    answer_looks(image_rc=1)
    end_tests()
    acceptances_advance()
    row = NodeAcceptance.objects.get()
    assert row.verdict == "rejected"
    assert "is not on the node" in said(row.summary)


def test_a_torn_look_is_unknown():
    make_gold()
    start([make_node()])
    answer_probes()
    acceptances_advance()
    look = Command.objects.get(purpose__endswith="/look")
    sections_pack(look.pk, [Section("image-0", rc=0, body=b'[{"RepoDig')]).save()
    settle(look, states.SUCCEEDED)
    end_tests()
    acceptances_advance()
    row = NodeAcceptance.objects.get()
    assert checks(row)["image"]["verdict"] == "unknown"
    assert row.verdict == "not_measured"
