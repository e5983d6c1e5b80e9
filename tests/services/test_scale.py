"""What is done over the whole fleet asks the database as often for 48 nodes as for six."""

from collections.abc import Callable

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from fleet.models import Leaf, Member, Node, NodeAcceptance, Rack, Replica
from fleet.rules.fact_folds import fold_facts
from fleet.rules.inventory_export import write_yaml
from fleet.selectors import golden_page, serving
from fleet.selectors.acceptance import acceptance_runs, run_rows, standing_counts
from fleet.selectors.facts import fact_keys, fact_told
from fleet.selectors.inventory import inventory_now
from fleet.services.acceptances import acceptance_start, acceptances_advance
from fleet.services.imports import import_apply, import_read
from fleet.services.network import net_run_cancel, net_run_start, net_runs_advance
from releases.services.launches import node_refusals
from tests.acceptances import PINS, answer_looks, answer_probes, end_tests, make_gold, make_good
from tests.factories import make_actor, make_host, make_person, make_pool
from tests.golden_profiles import make_facts
from tests.network import make_matrix

pytestmark = pytest.mark.django_db
FEW, MANY = 6, 48
NODES_A_LEAF, NODES_A_RACK = 8, 4


@pytest.fixture(autouse=True)
def _pins(monkeypatch):
    monkeypatch.setattr(serving, "_SOURCES", [lambda nodes: {node.pk: [PINS] for node in nodes}])


def grow(count: int) -> list[Node]:
    """Add so many nodes, eight on a leaf and four in a rack, in a unit of two the first half of them."""
    first = Node.objects.count()
    nodes = []
    for n in range(first, first + count):
        leaf, _ = Leaf.objects.get_or_create(number=n // NODES_A_LEAF + 1)
        rack, _ = Rack.objects.get_or_create(
            name=f"R{n // NODES_A_RACK + 1:02d}", defaults={"leaf": leaf}
        )
        host = make_host(f"h100-{n + 1:03d}", address=f"127.0.{64 + n // 200}.{n % 200 + 1}")
        nodes.append(
            Node.objects.create(host=host, rack=rack, node_class="hgx-h100-roce", state="ready")
        )
    pool = make_pool("glm52") if not first else Replica.objects.first().pool
    for at in range(0, count // 2 - 1, 2):
        unit = Replica.objects.create(name=f"glm52-r{first + at}", pool=pool)
        Member.objects.bulk_create(
            Member(replica=unit, node=node, position=position)
            for position, node in enumerate(nodes[at : at + 2])
        )
    return nodes


def asked(do: Callable[[], object]) -> int:
    with CaptureQueriesContext(connection) as seen:
        do()
    return len(seen)


def who(name: str = "ana") -> dict:
    return {"actor": make_actor(name), "user": make_person(name)}


def accept(nodes: list[Node]) -> dict[str, int]:
    """Accept these nodes to their verdicts, one tick a step; return the queries of each step."""
    make_good(*nodes)
    person, count = who(), {}
    count["start"] = asked(lambda: acceptance_start(nodes=nodes, **person))
    answer_probes()
    count["order"] = asked(acceptances_advance)
    answer_looks()
    # one in three is rejected
    end_tests(busbw={node.name: 12.0 for node in nodes[::3]})
    count["judge"] = asked(acceptances_advance)
    return count


def test_to_accept_all_nodes():
    make_gold()
    few, many = accept(grow(FEW)), accept(grow(MANY))
    found = list(NodeAcceptance.objects.values_list("verdict", flat=True))
    assert (found.count("accepted"), found.count("rejected")) == (36, 18)
    assert few == many


def test_to_read_acceptances_and_what_stands_against_a_launch(settings):
    settings.ACCEPTANCE_REQUIRED = ["glm52"]
    make_gold()
    counts = []
    for count in (FEW, MANY):
        accept(grow(count))
        nodes = list(Node.objects.all())
        reads = (
            lambda: run_rows(acceptance_runs()[0]),
            standing_counts,
            lambda nodes=nodes: node_refusals(nodes),
        )
        counts.append([asked(read) for read in reads])
    assert counts[0] == counts[1]
    against = node_refusals(nodes)
    assert sum(1 for node in nodes if against[node.pk]) == 18


def test_golden_drift_and_folded_facts():
    make_gold()
    counts = []
    for count in (FEW, MANY):
        for n, node in enumerate(grow(count)):
            make_facts(node, driver_version=f"575.{n % 3}", gpu_count=8 - n % 2)
        reads = (
            golden_page.fleet_drift,
            lambda: fold_facts(fact_told("driver_version")),
            fact_keys,
        )
        counts.append([asked(read) for read in reads])
    assert counts[0] == counts[1]


def test_a_dry_run_and_an_apply_of_a_file_that_changes_one_node():
    counts = []
    for count in (FEW, MANY):
        grow(count)
        text = write_yaml(inventory_now()).replace("user: fleet", "user: ops", 1)
        person, found = who("dana"), []

        def read(text=text, person=person, found=found):
            found.append(import_read(text=text, file_name="f.yaml", is_whole=True, **person))

        counts.append([asked(read)])
        one = found[0]
        done = [change["outcome"] for change in one.changes if change["kind"] == "node"]
        assert (done.count("changed"), done.count("equal")) == (1, len(done) - 1)
        fields = {"digest": one.digest, "removals": [], "reason": "another user", **person}
        counts[-1].append(asked(lambda one=one, fields=fields: import_apply(found=one, **fields)))
    assert counts[0] == counts[1]


def test_a_dry_run_of_a_file_of_new_nodes():
    counts = []
    for count in (FEW, MANY):
        rows = "\n".join(
            f"- {{name: new{n:03d}, address: 127.0.9.{n}, user: fleet, leaf: 1, rack: R01}}"
            for n in range(1, count + 1)
        )
        person = who("dana")
        counts.append(
            asked(
                lambda rows=rows, person=person: import_read(
                    text=rows, file_name="f.yaml", is_whole=True, **person
                )
            )
        )
    assert counts[0] == counts[1]


def test_to_start_a_network_run_and_to_look_at_its_round():
    make_matrix()
    counts = []
    for count in (FEW, MANY):
        nodes = grow(count)
        person = who()
        started = []

        def start(nodes=nodes, person=person, started=started):
            started.append(net_run_start(nodes=nodes, **person))

        counts.append([asked(start)])
        net_runs_advance()
        counts[-1].append(asked(net_runs_advance))  # its commands are under way
        net_run_cancel(run=started[0], reason="counted", **person)
    assert counts[0] == counts[1]
