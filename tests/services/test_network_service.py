"""Network runs: nodes are reserved, pairs are carried through their layers, suspects named, and nothing is guessed."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from fleet.execution.models import Command
from fleet.models import Hold, NetGolden, NetPair, NetRun, NetSeat, NetStep, Node, TrailEntry
from fleet.rules import netrun, netverdict
from fleet.rules.message import said
from fleet.rules.refusals import Conflict, NeedsReason, NotAllowed, Refused
from fleet.selectors.golden_pairs import keys_wanted, pair_line_of, pair_lines
from fleet.selectors.network import launch_environment, load_of
from fleet.selectors.nodes import placeable
from fleet.services.net_matrix import golden_bar, golden_choose, matrix_sign, matrix_write
from fleet.services.network import net_run_cancel, net_run_start, net_runs_advance
from tests.factories import make_actor, make_node, make_nodes, make_person, make_pool, make_replica
from tests.network import GOLD_GBS, Answers, gids_text, make_leaves, make_matrix, run_to_end

pytestmark = pytest.mark.django_db
NO_LOAD = (netverdict.REACH, netverdict.RAILS, netverdict.COLLECTIVE)


def start(nodes, name: str = "ana", **fields) -> NetRun:
    return net_run_start(nodes=nodes, actor=make_actor(name), user=make_person(name), **fields)


def with_gold(nodes, **fields) -> None:
    """Measure the first two nodes alone and choose them as gold."""
    run = run_to_end(start(nodes[:2], layers=NO_LOAD), Answers())
    golden_choose(pair=run.pairs.get(), actor=make_actor("bo"), user=make_person("bo"))


def test_a_start_reserves_the_nodes_and_plans_every_pair():
    make_matrix()
    nodes = make_nodes(4)
    run = start(nodes)
    assert run.pairs.count() == 6
    assert {pair.step for pair in run.pairs.all()} == {netrun.WAITING}
    assert NetSeat.objects.filter(released_at=None).count() == 4
    assert not placeable().exists(), "nothing is placed on a node that is tested"
    assert TrailEntry.objects.filter(verb="network.start", actor="ana").count() == 1
    with pytest.raises(Conflict, match="being tested by NET"):
        start(nodes[:2])


def test_a_node_of_a_unit_that_may_serve_is_refused_and_of_a_planned_one_is_not():
    make_matrix()
    nodes = make_nodes(2)
    unit = make_replica(pool=make_pool(), nodes=nodes, state="serving")
    with pytest.raises(Conflict, match="glm52-r1"):
        start(nodes)
    unit.state = "planned"
    unit.save()
    assert start(nodes).state == netrun.PAIRING


def test_what_cannot_be_tested_is_refused_with_the_next_step():
    nodes = make_nodes(2)
    with pytest.raises(Refused, match="network matrix has no row"):
        start(nodes)
    make_matrix()
    with pytest.raises(Refused, match="2 to 64"):
        start(nodes[:1])
    with pytest.raises(NotAllowed):
        start(nodes, "chen")
    lost = make_node("h100-009", host={"reach": "unreachable"})
    with pytest.raises(Conflict, match="h100-009 cannot be reached"):
        start([*nodes, lost])
    assert not NetRun.objects.exists()


def test_without_a_golden_pair_every_speed_is_unknown_and_a_first_pair_can_become_gold():
    make_matrix()
    nodes = make_nodes(3)
    run = run_to_end(start(nodes[:2], layers=NO_LOAD), Answers())
    pair = run.pairs.get()
    assert (run.state, run.verdict, pair.verdict, pair.ratio) == (
        "done",
        "unknown",
        "unknown",
        None,
    )
    assert pair.busbw_gbs == pytest.approx(GOLD_GBS)
    assert pair.rails["mlx5_1"]["two"] == pytest.approx(783.2)
    assert not Hold.objects.filter(lifted_at=None).exists()
    golden_choose(pair=pair, actor=make_actor("bo"), user=make_person("bo"))
    run = run_to_end(start(nodes, layers=NO_LOAD), Answers())
    assert (run.verdict, {p.ratio for p in run.pairs.all()}) == ("pass", {1.0})


def test_one_slow_path_is_found_and_called_a_path():
    make_matrix()
    nodes = make_nodes(4)
    with_gold(nodes)
    slow = {"h100-003", "h100-004"}
    run = run_to_end(start(nodes), Answers(lambda a, b: GOLD_GBS * (0.55 if {a, b} == slow else 1)))
    assert run.verdict == netverdict.FAIL
    (found,) = run.suspects
    assert (found["kind"], set(found["nodes"])) == ("path", slow)
    assert "slow only together" in said(found["why"])


def test_one_round_finds_a_bad_node_by_pairing_it_with_known_good_ones():
    make_matrix()
    nodes = make_nodes(6)
    with_gold(nodes)
    answers = Answers(lambda a, b: GOLD_GBS * (0.6 if "h100-005" in (a, b) else 1))
    run = run_to_end(start(nodes, rounds=1, layers=NO_LOAD), answers)
    assert run.pairs.filter(kind=netrun.REPAIR).count() >= 2
    assert run.repairs == 1
    assert [(s["kind"], s["nodes"]) for s in run.suspects] == [("node", ["h100-005"])]


def test_the_load_of_all_pairs_is_judged_against_what_each_had_alone():
    make_matrix()
    nodes = make_leaves(2, 2)
    run = run_to_end(start(nodes), Answers())
    loaded = list(run.pairs.filter(kind=netrun.TOGETHER))
    assert {pair.topology for pair in loaded} == {"cross-leaf"}
    assert all(pair.loaded_gbs and pair.p99_us for pair in loaded)
    assert {pair.layers["together"]["verdict"] for pair in loaded} == {"pass"}


def sentences(pair: NetPair, layer: str) -> list[str]:
    return [said(one["text"]) for one in pair.layers[layer]["said"]]


def test_the_curve_under_load_is_measured_with_one_two_and_all_pairs_and_kept_on_the_pair():
    make_matrix()
    answers = Answers()
    answers.shared = lambda pairs: min(1.0, 2 / pairs)  # the uplinks carry two pairs
    run = run_to_end(start(make_leaves(4, 4), pairs_per_leaf=8), answers)
    loaded = list(run.pairs.filter(kind=netrun.TOGETHER))
    assert len(loaded) == 4
    for pair in loaded:
        assert load_of(pair) == [[1, GOLD_GBS], [2, GOLD_GBS], [4, GOLD_GBS / 2]]
        assert load_of(run.pairs.get(kind=netrun.FIRST, a=pair.a, b=pair.b)) == load_of(pair)
    rungs = run.pairs.filter(kind=netrun.RUNG)
    by_round = Counter(rungs.values_list("round", flat=True))
    assert sorted(by_round.values()) == [1, 1, 1, 1, 2, 2], "each alone, then two by two"
    assert (run.verdict, loaded[0].verdict) == ("fail", "fail")
    assert any(
        "4 pairs ran at once, 50.0 % of what" in text for text in sentences(loaded[0], "together")
    )
    assert "of 28 pairs" not in said(run.explanation), "rungs are no pairs of their own"


def test_the_curve_is_beside_that_of_the_golden_pair_where_gold_has_one():
    make_matrix()
    nodes = make_leaves(2, 2)
    first = run_to_end(start(nodes), Answers())
    pair = next(p for p in first.pairs.filter(kind=netrun.FIRST) if load_of(p))
    golden_choose(pair=pair, actor=make_actor("bo"), user=make_person("bo"))
    answers = Answers()
    answers.shared = lambda pairs: (
        0.93 if pairs == 2 else 1.0
    )  # over the bar of alone, under gold's
    run = run_to_end(start(nodes, layers=(netverdict.TOGETHER,)), answers)
    assert run.golden["hgx-h100-roce/cross-leaf"]["load"] == [[1, GOLD_GBS], [2, GOLD_GBS]]
    told = sentences(run.pairs.filter(kind=netrun.TOGETHER)[0], "together")
    assert any("2 pairs at once" in text and "93.0 % of the golden pair" in text for text in told)
    assert run.verdict == "fail"


def test_layer_3_says_what_was_tested_beside_a_pair():
    make_matrix()
    crowd = run_to_end(start(make_leaves(4), layers=NO_LOAD), Answers())
    for pair in crowd.pairs.all():
        assert any(
            "Not alone: 1 other pairs of this run" in t for t in sentences(pair, "collective")
        )
    alone = run_to_end(start(list(Node.objects.all()[:2]), layers=NO_LOAD), Answers())
    assert any("No other pair was tested" in t for t in sentences(alone.pairs.get(), "collective"))


def test_a_curve_that_another_run_disturbed_is_unknown():
    make_matrix()
    nodes = make_leaves(8)
    first, second = (start(some, layers=(netverdict.TOGETHER,)) for some in (nodes[:4], nodes[4:]))
    for run in (first, second):
        run_to_end(run, Answers())
    pair = first.pairs.filter(kind=netrun.TOGETHER).first()
    assert pair.layers["together"]["verdict"] == "unknown"
    assert any("pairs of other runs" in text for text in sentences(pair, "together"))


def test_a_run_of_layer_4_alone_tests_no_pair_before_and_can_pass():
    make_matrix()
    run = run_to_end(start(make_leaves(2, 2), layers=(netverdict.TOGETHER,)), Answers())
    assert (run.verdict, run.pairs.filter(kind=netrun.FIRST).count()) == ("pass", 0)


def test_two_nodes_alone_are_no_load():
    make_matrix()
    run = run_to_end(start(make_nodes(2), layers=(netverdict.TOGETHER,)), Answers())
    assert run.verdict == "unknown"
    assert "only this pair ran" in sentences(run.pairs.get(kind=netrun.TOGETHER), "together")[0]


def test_one_rail_that_loses_packets_fails_layer_1_though_the_host_answers():
    make_matrix()
    answers = Answers()
    answers.lost = {"mlx5_1": 2}
    run = run_to_end(start(make_nodes(2), layers=(netverdict.REACH,)), answers)
    pair = run.pairs.get()
    assert (run.verdict, pair.layers["reach"]["verdict"]) == ("fail", "fail")
    told = sentences(pair, "reach")
    assert "h100-001: mlx5_1: 40 % of 5 packets were lost; expected none." in told
    assert sum("1 of 2 rails" in text for text in told) == 2, "from both ends"
    assert pair.layers["reach"]["values"]["h100-002"]["rails"]["mlx5_0"]["device"] == "rail0np0"


def test_a_node_that_tells_no_address_of_its_rails_leaves_layer_1_unknown():
    make_matrix()
    answers = Answers()
    answers.gids = lambda node: gids_text(node, index=5)
    run = run_to_end(start(make_nodes(2), layers=(netverdict.REACH,)), answers)
    assert run.verdict == "unknown"
    assert any("an IPv4 address at GID index 3" in t for t in sentences(run.pairs.get(), "reach"))


def test_infiniband_has_no_address_of_its_rails_and_says_so():
    make_matrix(gid_index=None)
    run = run_to_end(start(make_nodes(2), layers=(netverdict.REACH,)), Answers())
    assert (run.verdict, len(sentences(run.pairs.get(), "reach"))) == ("pass", 6)


def test_sockets_and_retransmits_fail_a_pair_however_fast_it_is():
    make_matrix()
    nodes = make_nodes(2)
    with_gold(nodes)
    answers = Answers()
    answers.via = "NET/Socket/0"
    run = run_to_end(start(nodes, layers=NO_LOAD), answers)
    assert (run.pairs.get().ratio, run.verdict) == (1.0, "fail")
    answers = Answers()
    answers.again = 7
    run = run_to_end(start(nodes, layers=NO_LOAD), answers)
    assert run.verdict == "fail"
    sentences = [said(one["text"]) for one in run.pairs.get().layers["collective"]["said"]]
    assert any("out_of_sequence grew by 7" in text for text in sentences), sentences


def test_no_nccl_line_is_no_proof():
    make_matrix()
    nodes = make_nodes(2)
    with_gold(nodes)
    answers = Answers()
    answers.via = ""
    run = run_to_end(start(nodes, layers=NO_LOAD), answers)
    assert (run.verdict, run.pairs.get().ratio) == ("unknown", 1.0)


def test_a_node_that_is_lost_in_the_middle_leaves_its_pair_unknown_and_the_run_ends():
    make_matrix()
    nodes = make_nodes(2)
    run, answers = start(nodes, layers=NO_LOAD), Answers()
    net_runs_advance()
    answers.all()
    answers.silent = {"h100-002"}
    for _ in range(60):
        NetPair.objects.exclude(step_at=None).update(step_at=timezone.now() - timedelta(hours=1))
        net_runs_advance()
        answers.all()
    run.refresh_from_db()
    pair = run.pairs.get()
    assert (run.state, run.verdict, pair.verdict) == ("done", "unknown", "unknown")
    assert not Hold.objects.filter(lifted_at=None).exists()


def test_a_cancel_stops_both_ends_and_frees_the_nodes():
    make_matrix()
    run, answers = start(make_nodes(2), layers=NO_LOAD), Answers()
    while not NetStep.objects.filter(step=netrun.RAILS).exists():
        net_runs_advance()
        answers.all()
    for command in Command.objects.filter(verb="start"):
        command.subject.state = "live"
        command.subject.save()
    Command.objects.filter(verb="start").update(state="succeeded")
    with pytest.raises(NeedsReason):
        net_run_cancel(run=run, reason="", actor=make_actor(), user=make_person())
    net_run_cancel(run=run, reason="the night is over", actor=make_actor(), user=make_person())
    run.refresh_from_db()
    assert run.state == netrun.CANCELLED
    assert Command.objects.filter(verb="stop").count() == 2
    assert run.pairs.get().verdict == "unknown"
    assert not NetSeat.objects.filter(released_at=None).exists()
    assert net_runs_advance() == 0
    with pytest.raises(Conflict):
        net_run_cancel(run=run, reason="once more", actor=make_actor(), user=make_person())


def test_a_second_tick_changes_nothing():
    make_matrix()
    start(make_nodes(2))
    assert (net_runs_advance(), net_runs_advance()) == (1, 0)


def test_the_queries_of_a_tick_do_not_grow_with_the_pairs(django_assert_max_num_queries):
    counts = []
    make_matrix()
    nodes = make_leaves(8, 8)
    for chosen in (nodes[:4], nodes[4:]):
        run = start(chosen, pairs_per_leaf=8)
        net_runs_advance()
        with CaptureQueriesContext(
            connection,
        ) as seen:
            net_runs_advance()
        counts.append(len(seen))
        net_run_cancel(run=run, reason="counted", actor=make_actor(), user=make_person())
    assert counts[0] == counts[1]


def test_the_matrix_is_signed_by_another_person_and_only_then_fills_a_launch():
    node = make_node()
    ana, bo = make_person("ana"), make_person("bo")
    fields = {
        "node_class": node.node_class, "hcas": "mlx5_0, mlx5_1", "interface": "bond0", "mtu": "9000",
        "gid_index": "3", "traffic_class": "106",
    }  # fmt: skip
    row = matrix_write(fields=fields, actor=make_actor(), user=ana)
    assert launch_environment([node]) == {}
    with pytest.raises(NotAllowed):
        matrix_sign(matrix=row, actor=make_actor(), user=ana)
    own = matrix_write(fields=fields, actor=make_actor("bo"), user=bo)
    with pytest.raises(NotAllowed, match="second person"):
        matrix_sign(matrix=own, actor=make_actor("bo"), user=bo)
    with pytest.raises(Conflict, match="newer version"):
        matrix_sign(matrix=row, actor=make_actor("bo"), user=bo)
    row = matrix_write(fields=fields, actor=make_actor(), user=ana)
    matrix_sign(matrix=row, actor=make_actor("bo"), user=bo)
    assert launch_environment([node])[node.pk] == {
        "NCCL_IB_HCA": "=mlx5_0,mlx5_1",
        "NCCL_SOCKET_IFNAME": "bond0",
        "GLOO_SOCKET_IFNAME": "bond0",
        "NCCL_IB_GID_INDEX": "3",
        "NCCL_IB_TC": "106",
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [("hcas", "mlx5_0 mlx5_0"), ("interface", "bond0; rm"), ("mtu", "70000"), ("gid_index", "-1"),
     ("traffic_class", "256"), ("node_class", "unheard"), ("leaf", "99")],
)  # fmt: skip
def test_a_bad_field_of_the_matrix_is_refused_by_name(name, value):
    node = make_node()
    fields = {"node_class": node.node_class, "hcas": "mlx5_0", "interface": "bond0", "mtu": "9000"}
    with pytest.raises(Refused):
        matrix_write(fields={**fields, name: value}, actor=make_actor(), user=make_person())


def test_a_leaf_of_its_own_row_goes_before_the_class():
    near, far = make_leaves(1, 1)
    make_matrix(signed_by=make_person("bo"))
    make_matrix(signed_by=make_person("bo"), leaf=far.rack.leaf, interface="bond1")
    env = launch_environment([near, far])
    assert (env[near.pk]["NCCL_SOCKET_IFNAME"], env[far.pk]["NCCL_SOCKET_IFNAME"]) == (
        "bond0",
        "bond1",
    )


@pytest.mark.parametrize("via", ["NET/Socket/0", "NET/IB/0", ""])
def test_gold_is_only_a_pair_that_is_sound(via):
    make_matrix()
    nodes = make_nodes(2)
    answers = Answers()
    answers.via = via
    run = run_to_end(start(nodes, layers=NO_LOAD), answers)
    with pytest.raises(Refused, match="no sound measurement"):
        golden_choose(pair=run.pairs.get(), actor=make_actor("bo"), user=make_person("bo"))
    assert not NetGolden.objects.exists()


def chosen() -> NetGolden:
    """A golden pair in force."""
    make_matrix()
    run = run_to_end(start(make_nodes(2), layers=NO_LOAD), Answers())
    return golden_choose(pair=run.pairs.get(), actor=make_actor("bo"), user=make_person("bo"))


def set_bar(gold: NetGolden, bar: str, reason: str = "agreed with the network team") -> NetGolden:
    bo = make_person("bo")
    return golden_bar(gold=gold, bar=bar, reason=reason, actor=make_actor("bo"), user=bo)


def test_another_bar_is_the_next_version_of_the_golden_pair_and_runs_take_it():
    old = chosen()
    new = set_bar(old, "80")
    old.refresh_from_db()
    assert (old.is_current, old.bar, new.is_current, new.bar) == (False, 0.95, True, 0.8)
    assert new.pair == old.pair
    entry = TrailEntry.objects.get(verb="network_golden.bar")
    assert (entry.before["bar"], entry.after["bar"]) == (0.95, 0.8)
    nodes = list(Node.objects.all())
    run = run_to_end(start(nodes, layers=NO_LOAD), Answers(lambda a, b: 0.85 * GOLD_GBS))
    assert (run.bar, run.verdict) == (0.8, "pass")
    again = golden_choose(pair=run.pairs.get(), actor=make_actor("bo"), user=make_person("bo"))
    assert again.bar == 0.8, "another pair keeps the bar that was agreed"


def test_a_bar_that_cannot_be_is_refused_and_an_old_version_is_not_edited():
    old = chosen()
    for bar, why in (("20", "from 50 to 100"), ("x", "found x"), ("95", "95 % already")):
        with pytest.raises(Refused, match=why):
            set_bar(old, bar)
    with pytest.raises(NeedsReason):
        set_bar(old, "90", " ")
    with pytest.raises(NotAllowed):
        golden_bar(gold=old, bar="90", reason="x", actor=make_actor(), user=make_person("ana"))
    set_bar(old, "90")
    with pytest.raises(Conflict, match="newer version"):
        set_bar(old, "85")
    assert NetGolden.objects.count() == 2


def test_golden_pairs_are_lines_with_numbered_versions():
    old = chosen()
    new = set_bar(old, "90")
    (line,) = pair_lines()
    assert [(one.number, one.gold.pk) for one in line.versions] == [(2, new.pk), (1, old.pk)]
    assert (line.node_class, line.topology) == ("hgx-h100-roce", "same-leaf")
    assert pair_line_of(new.pk)[1].number == 2
    assert pair_line_of(0) is None
    assert len(keys_wanted(new)) == 5, "bandwidth and two ways of two rails"


def at_once(work, count: int = 4) -> list:
    """What `count` people get who do the same at the same moment, each on a connection of its own."""

    def one(number: int):
        try:
            return work(number)
        finally:
            connection.close()

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(one, range(count)))


@pytest.mark.django_db(transaction=True)
def test_people_who_write_the_matrix_at_once_write_versions_one_after_the_other():
    node = make_node()
    fields = {"node_class": node.node_class, "hcas": "mlx5_0", "interface": "bond0", "mtu": "9000"}
    made = at_once(lambda _: matrix_write(fields=fields, actor=make_actor()).version)
    assert sorted(made) == [1, 2, 3, 4]


@pytest.mark.django_db(transaction=True)
def test_people_who_choose_the_first_golden_pair_at_once_leave_one_in_force():
    make_matrix()
    run = run_to_end(start(make_nodes(2), layers=NO_LOAD), Answers())
    pair = run.pairs.get()
    at_once(lambda _: golden_choose(pair=pair, actor=make_actor("bo")).pk)
    assert NetGolden.objects.count() == 4
    assert NetGolden.objects.filter(is_current=True).count() == 1


@pytest.mark.django_db(transaction=True)
def test_people_who_set_the_bar_at_once_make_one_version_and_the_others_are_told():
    gold = chosen()

    def one(number: int) -> str:
        try:
            golden_bar(gold=gold, bar=str(80 + number), reason="agreed", actor=make_actor("bo"))
        except Conflict as refusal:
            return str(refusal)
        return "made"

    told = at_once(one)
    assert told.count("made") == 1
    assert sum("newer version" in text for text in told) == 3
    assert NetGolden.objects.filter(is_current=True).count() == 1
