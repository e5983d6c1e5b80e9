"""A probe from the service through real SSH to stored facts. The hand works in this process; nodes are the lab's."""

import pytest

from fleet.execution.hands import carry_out
from fleet.execution.models import Command, Host
from fleet.models import Fact, Gpu, Node, NodeProbe
from fleet.rules.hostkeys import fingerprint
from fleet.rules.message import said
from fleet.selectors.golden import drift_of
from fleet.services.golden import profile_make_current, profile_take
from fleet.services.hosts import host_key_keep
from fleet.services.probes import probe_settle, probe_start
from fleet.services.seed import fleet_seed
from tests.execution.plain_sshd import Sshds, console_key
from tests.factories import host_key, make_actor, make_node, make_person
from tests.waiting import wait_until

pytestmark = [pytest.mark.lab, pytest.mark.django_db(transaction=True)]


def probe(nodes: list[Node]) -> dict[str, NodeProbe]:
    run = probe_start(nodes=nodes, actor=make_actor(), user=make_person("ana"))
    mine = Command.objects.filter(node_probe__run=run)

    def done() -> bool:
        carry_out(list(mine.values_list("pk", flat=True)))
        probe_settle()
        return not run.nodes.filter(settled_at=None).exists()

    wait_until(done, timeout_s=60, what="every node's probe settled")
    return {row.node.name: row for row in run.nodes.select_related("node__host")}


@pytest.fixture
def nodes(lab, redis_client) -> list[Node]:
    fleet_seed(lab.inventory(), actor=make_actor("command:seed"))
    return list(Node.objects.all())


def words(row: NodeProbe) -> str:
    return f"{said(row.summary)}: " + "; ".join(
        f"{f['check']}: {said(f['found'])}" for f in row.findings
    )


def test_two_rehearsed_nodes_pass_and_every_fact_is_known(nodes):
    for row in probe(nodes).values():
        assert row.verdict == "pass", words(row)
    assert set(Node.objects.values_list("state", flat=True)) == {Node.State.READY}
    assert Gpu.objects.filter(health="ok").count() == 16
    unknown = Fact.objects.filter(value=None) | Fact.objects.exclude(problem="")
    assert [(fact.key, said(fact.problem)) for fact in unknown] == []
    card = Gpu.objects.get(node=nodes[0], index=5)
    assert (card.nic, card.numa) == ("mlx5_5", 1)
    assert Fact.objects.get(node=nodes[0], key="models").value


def test_a_changed_host_key_makes_one_node_unknown_and_not_the_other(nodes):
    Host.objects.filter(pk=nodes[0].pk).update(host_key=host_key(7))
    found = probe(nodes)
    assert found[nodes[0].name].verdict == "unknown"
    assert found[nodes[1].name].verdict == "pass"
    host = Host.objects.get(pk=nodes[0].pk)
    assert host.key_state == Host.Key.CHANGED
    assert host.offered_key


def test_keeping_the_pinned_key_believes_nobody_and_the_real_one_gets_in(nodes, lab):
    node = nodes[0]
    pinned, dana = fingerprint(node.host.host_key), make_person("dana")

    def keep() -> str:
        host_key_keep(
            node=node, fingerprint=pinned, reason="back", actor=make_actor("dana"), user=dana
        )
        return probe([node])[node.name].verdict

    lab.fault(node.name, "ssh.hostkey")
    assert probe([node])[node.name].verdict == "unknown"
    assert keep() == "unknown"
    assert Host.objects.get(pk=node.pk).key_state == Host.Key.CHANGED
    lab.clear(node.name)
    assert keep() == "pass"


def test_a_foreign_node_is_unknown_with_a_reason_for_each_missing_tool(settings, redis_client):
    with console_key() as key:
        settings.SSH_KEY_FILE = key
        make = Sshds(key.parent, key)
        sshd = make(start=False)
        sshd.path = "/bin"  # poor: what is found is found, what is not is said
        sshd.start()
        node = make_node("foreign", on=sshd.host("foreign"), state=Node.State.REGISTERED)
        try:
            row = probe([node])["foreign"]
        finally:
            make.end()
    assert row.verdict == "unknown"
    assert "not found" in words(row)
    assert {finding["section"] for finding in row.findings} >= {"gpu-list", "gpu-query", "topo"}
    node.refresh_from_db()
    assert node.state == Node.State.ACCEPTANCE
    assert {gpu.health for gpu in Gpu.objects.filter(node=node)} == {"unknown"}
    assert Fact.objects.get(node=node, key="kernel").value


def test_two_equal_nodes_are_gold_to_each_other_and_a_lost_card_is_drift(nodes, lab):
    probe(nodes)
    profile = profile_take(node=nodes[0], reason="it passed", actor=make_actor())
    profile_make_current(profile=profile, reason="read it", actor=make_actor("bo"))
    assert profile.origin == "lab"
    names = {node.pk: node.name for node in nodes}

    def drift() -> dict[str, dict[str, str]]:
        found = drift_of(Node.objects.all())
        return {names[pk]: {diff.key: diff.verdict for diff in row} for pk, row in found.items()}

    assert drift() == {name: {} for name in names.values()}
    lab.fault(nodes[1].name, "gpu.missing", gpu=3)
    probe([nodes[1]])
    assert drift()[nodes[0].name] == {}
    assert drift()[nodes[1].name]["gpu_count"] == "fail"
