"""Network acceptance over four real nodes: a slow path is found between two nodes that are fast with all others."""

import pytest

from fleet.rules import netrun, netverdict
from fleet.rules.message import said
from tests.needs import four_nodes

pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.django_db(transaction=True)]
PATIENCE_S = 420.0


@pytest.fixture
def accept(console):
    """Run an acceptance over some nodes to its end, as Ana would."""
    from django.contrib.auth import get_user_model

    from fleet.models import Node
    from fleet.services.network import net_run_start
    from fleet.services.trail import Actor

    def run(*names: str, **fields):
        ana = get_user_model().objects.get(username="ana")
        nodes = list(Node.objects.filter(host__name__in=names))
        started = net_run_start(nodes=nodes, actor=Actor(name="ana"), user=ana, **fields)

        def is_over() -> bool:
            started.refresh_from_db()
            return started.state not in netrun.OPEN

        console.until(is_over, "the network run to end", timeout_s=PATIENCE_S)
        return started

    return run


def told(run) -> str:
    """Everything the run says, for whoever reads a failure."""
    lines = [f"{run} {run.state} {run.verdict}: {said(run.explanation)}"]
    for pair in run.pairs.select_related("a__host", "b__host"):
        lines.append(f"{pair} {pair.kind} {pair.verdict} {pair.ratio} {pair.p99_us}")
        for name, layer in pair.layers.items():
            lines += [
                f"  {name} {one['verdict']}: {said(one['text'])}"
                for one in layer["said"]
                if one["verdict"] != netverdict.PASS
            ]
    return "\n".join(lines)


@four_nodes
def test_one_slow_path_between_two_of_four_nodes_is_found_and_called_a_path(console, accept):
    from django.contrib.auth import get_user_model

    from fleet.models import Hold
    from fleet.selectors.network import load_of
    from fleet.services.net_matrix import golden_choose
    from fleet.services.trail import Actor

    lab = console.lab
    names = [row["name"] for row in lab.inventory()]
    alone = (netverdict.REACH, netverdict.RAILS, netverdict.COLLECTIVE)
    first = accept(*names[:2], layers=alone)
    pair = first.pairs.get()
    assert (first.verdict, pair.layers["reach"]["verdict"]) == ("unknown", "pass"), told(first)
    assert len(pair.rails) == 8
    assert len(pair.curve) == 31
    reached = pair.layers["reach"]["values"]
    assert [len(reached[name]["rails"]) for name in names[:2]] == [8, 8], told(first)
    bo = get_user_model().objects.get(username="bo")
    golden_choose(pair=pair, actor=Actor(name="bo"), user=bo)

    lab.fault(names[2], "net.loss", nic=-1, pct=0.1, peer=names[3])
    run = accept(*names, layers=(netverdict.COLLECTIVE, netverdict.TOGETHER), loop_s=80)

    assert run.verdict == netverdict.FAIL, told(run)
    assert [(s["kind"], s["nodes"]) for s in run.suspects] == [("path", names[2:])], told(run)
    assert "slow only together" in said(run.suspects[0]["why"])
    by_pair = {frozenset((p.a.name, p.b.name)): p for p in run.pairs.filter(kind=netrun.FIRST)}
    slow = by_pair.pop(frozenset(names[2:]))
    assert 0.4 < slow.ratio < 0.7
    sentences = [said(one["text"]) for one in slow.layers["collective"]["said"]]
    assert any("grew by" in text for text in sentences), "its counters moved as well"
    assert {p.verdict for p in by_pair.values()} == {netverdict.PASS}, told(run)
    loaded = list(run.pairs.filter(kind=netrun.TOGETHER))
    assert len(loaded) == 2
    assert all(p.loaded_gbs and p.p99_us for p in loaded), told(run)
    assert run.pairs.filter(kind=netrun.RUNG).count() == 2, "each of the two pairs alone"
    assert [[count for count, _width in load_of(p)] for p in loaded] == [[1, 2]] * 2, told(run)
    assert not Hold.objects.filter(lifted_at=None).exists()
    assert lab.unknown() == []


@pytest.mark.long
@pytest.mark.parametrize("lab", [8], indirect=True, ids=["one-leaf"])
def test_a_slow_path_and_a_slow_node_among_eight_on_one_leaf_are_told_apart(console, accept):
    from django.contrib.auth import get_user_model

    from fleet.services.net_matrix import golden_choose
    from fleet.services.trail import Actor

    lab = console.lab
    names = [row["name"] for row in lab.inventory()]
    alone = (netverdict.COLLECTIVE,)
    gold = accept(*names[:2], layers=alone).pairs.get()
    bo = get_user_model().objects.get(username="bo")
    golden_choose(pair=gold, actor=Actor(name="bo"), user=bo)

    path, slow = names[2:4], names[6]
    lab.fault(path[0], "net.loss", nic=-1, pct=0.1, peer=path[1])
    lab.fault(slow, "cable.slow", nic=3, gbps=200)
    run = accept(*names, layers=alone)

    assert run.verdict == netverdict.FAIL, told(run)
    found = {suspect["kind"]: suspect for suspect in run.suspects}
    assert {kind: one["nodes"] for kind, one in found.items()} == {
        "path": path,
        "node": [slow],
    }, told(run)
    assert len(run.suspects) == 2, told(run)
    assert "slow only together" in said(found["path"]["why"])
    assert "the node is the cause" in said(found["node"]["why"])
    first = list(run.pairs.filter(kind=netrun.FIRST).select_related("a__host", "b__host"))
    assert len(first) == 28, "each of the eight with each other"
    bad = [pair for pair in first if pair.verdict != netverdict.PASS]
    assert {frozenset((pair.a.name, pair.b.name)) for pair in bad} == {
        frozenset(path),
        *(frozenset((slow, name)) for name in names if name != slow),
    }, told(run)
    for number in {pair.round for pair in first}:
        busy = [name for p in first if p.round == number for name in (p.a.name, p.b.name)]
        assert len(busy) == len(set(busy)) <= 8, "no node is in two pairs at once"
    assert lab.unknown() == []
