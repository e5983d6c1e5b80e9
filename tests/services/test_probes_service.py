import pytest
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from fleet.execution import states
from fleet.execution.models import Command
from fleet.execution.output import Section, sections_pack
from fleet.models import Fact, Gpu, Node, NodeProbe, ProbeRun, TrailEntry
from fleet.rules.gather import bundles_of
from fleet.rules.message import said
from fleet.rules.refusals import NotAllowed, Refused
from fleet.selectors.nodes import nodes_selected, placeable
from fleet.services.probes import probe_cancel, probe_settle, probe_start
from tests.factories import make_actor, make_node, make_nodes, make_person, make_pool, make_replica
from tests.probe_texts import bundled
from tests.rules.test_probe import Section as Good
from tests.rules.test_probe import sections as good_sections

pytestmark = pytest.mark.django_db


def start(nodes: list[Node], name: str = "ana") -> ProbeRun:
    return probe_start(nodes=nodes, actor=make_actor(name), user=make_person(name))


def answer(command: Command, **changed: bytes) -> None:
    """Let a node answer its probe like a good one, but for the named sections."""
    good = good_sections(hostname=Good(f"{command.host.name}\n".encode()))
    bodies = {name: changed.get(name.replace("-", "_"), seen.body) for name, seen in good.items()}
    for bundle, names in bundles_of().items():
        bodies[bundle] = bundled({name: (0, bodies.pop(name)) for name in names})
    packed = [Section(name=name, rc=0, ms=3, body=body) for name, body in bodies.items()]
    sections_pack(command.pk, packed).save()
    settle(command, states.SUCCEEDED, answer={"answer": "PROBE", "boot_id": "b-1"})


def settle(command: Command, state: str, **fields: object) -> None:
    Command.objects.filter(pk=command.pk).update(state=state, settled_at=timezone.now(), **fields)


def answer_all(**changed: bytes) -> None:
    for command in Command.objects.filter(state=states.QUEUED):
        answer(command, **changed)


def test_a_probe_is_one_command_a_node_with_all_its_sections():
    run = start(make_nodes(3, state=Node.State.REGISTERED))
    commands = Command.objects.order_by("purpose")
    assert [command.purpose for command in commands] == [
        f"probe:{run.pk}/h100-00{n}" for n in (1, 2, 3)
    ]
    assert len(commands[0].payload["sections"]) >= 8
    assert {(c.queue, c.effect, c.verb) for c in commands} == {("probe", "probe", "probe")}
    assert set(Node.objects.values_list("state", flat=True)) == {Node.State.PROBING}
    assert run.scope == "all"
    assert list(TrailEntry.objects.values_list("verb", flat=True).order_by("verb")) == [
        *["node.move"] * 3,
        "probe.start",
    ]


def test_a_good_answer_makes_the_node_ready_and_says_that_it_was_only_probed():
    node = make_node(state=Node.State.REGISTERED)
    run = start([node])
    answer_all()
    assert (probe_settle(), probe_settle()) == (1, 0)
    node.refresh_from_db()
    assert node.state == Node.State.READY
    assert "acceptance tests have not run" in said(node.explanation)
    assert node.probed_at is not None
    assert {n.name for n in placeable()} == {node.name}
    run.refresh_from_db()
    assert run.ended_at is not None
    moved = TrailEntry.objects.get(verb="node.move", after__state="ready")
    assert (moved.actor, moved.before, moved.after["state"]) == (
        "rule:probe",
        {"state": "probing"},
        "ready",
    )


def test_a_probe_that_waits_is_cancelled_and_settled_as_unknown_once():
    node = make_node(state=Node.State.REGISTERED)
    start([node])
    probe = NodeProbe.objects.select_related("node", "command").get()
    assert probe_cancel(probe=probe, actor=make_actor())
    assert Command.objects.get().state == states.CANCELLED
    assert (probe_settle(), probe_settle()) == (1, 0)
    probe.refresh_from_db()
    node.refresh_from_db()
    assert (probe.verdict, node.state) == ("unknown", Node.State.REGISTERED)
    assert "cancelled before anything was sent" in said(probe.summary)
    assert not probe_cancel(probe=probe, actor=make_actor()), "it is over"
    assert TrailEntry.objects.filter(verb="probe.give_up").count() == 1


def test_a_probe_that_was_answered_is_not_cancelled():
    start([make_node()])
    answer_all()
    probe = NodeProbe.objects.select_related("node", "command").get()
    assert not probe_cancel(probe=probe, actor=make_actor())
    assert Command.objects.get().state == states.SUCCEEDED
    assert not TrailEntry.objects.filter(verb="probe.give_up").exists()


def test_facts_and_cards_carry_source_time_and_expiry():
    start([make_node()])
    answer_all()
    probe_settle()
    fact = Fact.objects.get(key="driver_version")
    assert (fact.value, fact.section, fact.source.purpose.split("/")[1]) == (
        "570.172.08",
        "gpu-query",
        "h100-001",
    )
    assert fact.observed_at < fact.expires_at
    assert Gpu.objects.filter(health="ok", source=fact.source).count() == 8


def test_a_later_answer_replaces_the_facts_and_a_lost_reading_becomes_null():
    node = make_node()
    start([node])
    answer_all()
    probe_settle()
    start([node])
    answer_all(gpu_query=b"", clock=b"506 Cannot talk to daemon\n")
    probe_settle()
    assert Fact.objects.filter(key="clock_offset").count() == 1
    clock = Fact.objects.get(key="clock_offset")
    assert clock.value is None
    assert clock.problem
    card = Gpu.objects.get(index=3)
    assert (card.health, card.temperature_c, card.uuid) == ("unknown", None, "")


def test_a_ready_node_with_a_failed_probe_takes_no_more_work():
    node = make_node()
    start([node])
    answer_all(gpu_list=good_sections(7)["gpu-list"].body)
    probe_settle()
    node.refresh_from_db()
    assert node.state == Node.State.ACCEPTANCE
    assert NodeProbe.objects.get().verdict == "fail"
    assert not placeable().exists()


def test_a_node_that_never_answered_is_unknown_and_keeps_what_was_known():
    first, known = make_node("h100-001", state=Node.State.REGISTERED), make_node("h100-002")
    start([first, known])
    for command in Command.objects.all():
        settle(command, states.FAILED, explanation="connection refused")
    probe_settle()
    first.refresh_from_db()
    known.refresh_from_db()
    assert (first.state, known.state) == (Node.State.REGISTERED, Node.State.READY)
    assert set(NodeProbe.objects.values_list("verdict", flat=True)) == {"unknown"}
    assert "connection refused" in said(first.explanation)
    assert not Fact.objects.exists()


def test_a_quarantined_node_is_not_freed_by_a_good_probe():
    node = make_node(state=Node.State.QUARANTINED)
    start([node])
    answer_all()
    probe_settle()
    node.refresh_from_db()
    assert node.state == Node.State.QUARANTINED


@pytest.mark.parametrize(
    "hostile",
    [
        b'{"Server":{"Version":"\\u0000\\ud800"}}',
        b"\x00\xff\xfe" * 50,
        b"[" * 20000,
        b'{"Server": {"Version": NaN}}',
    ],
)
def test_hostile_output_is_stored_as_unknown_and_blocks_nobody(hostile):
    start(make_nodes(2))
    bad, good = Command.objects.order_by("id")
    answer(bad, docker=hostile, containers=hostile, models=hostile, kernel=hostile)
    answer(good)
    assert probe_settle() == 2
    assert list(NodeProbe.objects.order_by("id").values_list("verdict", flat=True)) == [
        "unknown",
        "pass",
    ]


def test_forty_eight_nodes_are_asked_with_as_many_queries_as_two():
    from django.db import connection

    actor, ana, counts = make_actor(), make_person("ana"), []
    for number in (2, 48):
        nodes = [
            make_node(f"q{number}-{n:03d}", state=Node.State.REGISTERED) for n in range(number)
        ]
        with CaptureQueriesContext(connection) as queries:
            run = probe_start(nodes=nodes, actor=actor, user=ana)
        assert (
            run.nodes.count()
            == Command.objects.filter(topic__startswith=f"node-q{number}-").count()
            == number
        )
        counts.append(len(queries))
    assert counts[1] <= counts[0] <= 20, counts


def test_forty_eight_nodes_settle_in_as_many_queries_as_two(django_assert_max_num_queries):
    from django.db import connection

    counts = []
    for number in (2, 48):
        Node.objects.all().update(state=Node.State.RETIRED)
        nodes = [make_node(f"n{number}-{n:03d}") for n in range(number)]
        start(nodes)
        answer_all()
        with CaptureQueriesContext(
            connection,
        ) as queries:
            assert probe_settle() == number
        counts.append(len(queries))
    assert counts[0] == counts[1] <= 25


def test_a_selection_names_nodes_by_range_and_leaves_some_out():
    make_nodes(8)
    assert [node.name for node in nodes_selected("h100-[001-003],h100-008,!h100-002")] == [
        "h100-001",
        "h100-003",
        "h100-008",
    ]


@pytest.mark.parametrize("text", ["h100-009", "all;id", ""])
def test_a_selection_that_names_no_node_is_refused(text):
    make_nodes(2)
    with pytest.raises(Refused):
        nodes_selected(text)


def test_a_probe_of_another_pools_node_is_refused_whole():
    mine, other = make_pool("glm52"), make_pool("dsv4")
    nodes = make_nodes(2)
    make_replica("glm52-r1", pool=mine, nodes=nodes[:1])
    make_replica("dsv4-r1", pool=other, nodes=nodes[1:])
    user = make_person("eve", role="operator", pool=mine)
    probe_start(nodes=nodes[:1], actor=make_actor("eve"), user=user)
    with pytest.raises(NotAllowed, match="dsv4"):
        probe_start(nodes=nodes, actor=make_actor("eve"), user=user)
    assert ProbeRun.objects.count() == 1


def test_a_viewer_probes_nothing():
    with pytest.raises(NotAllowed):
        start(make_nodes(1), "chen")


def test_a_node_that_is_being_asked_is_not_asked_twice():
    nodes = make_nodes(3)
    first = start(nodes[:1])
    run = start(nodes, "bo")
    assert Command.objects.count() == 3, "one connection a node"
    assert sorted(probe.node.name for probe in run.nodes.all()) == ["h100-002", "h100-003"]
    told = TrailEntry.objects.filter(verb="probe.start").latest("id")
    assert (told.after["nodes"], told.after["joined"]) == (2, 1)
    again = start(nodes[:1], "bo")
    assert (again, ProbeRun.objects.count()) == (first, 2), "the open probe answers for both"
    answer_all()
    assert probe_settle() == 3
    assert start(nodes[:1]).pk not in (first.pk, run.pk), "what is over is asked again"
