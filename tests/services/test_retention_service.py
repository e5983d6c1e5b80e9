"""Old probes and readings go in batches; what something points to stays, and so does each node's newest probe."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from fleet import tasks
from fleet.execution import states
from fleet.execution.models import Command
from fleet.execution.output import Section, sections_pack
from fleet.models import (
    AcceptanceRun,
    Evidence,
    Fact,
    FactChange,
    Gpu,
    GpuRecord,
    GpuSeat,
    Holding,
    NetPair,
    NetRun,
    NetStep,
    Node,
    NodeAcceptance,
    NodeProbe,
    ProbeRun,
    TrailEntry,
)
from fleet.services.probes import probe_start
from fleet.services.retention import _old_probes, probes_forget, readings_forget
from releases.models import LaunchPosition
from tests.factories import make_actor, make_command, make_node, make_nodes
from tests.live.log_scene import make_launch
from tests.views.test_weights_pages import make_artefact

pytestmark = pytest.mark.django_db
DAY = timedelta(days=1)


def probe(node: Node, days: float, **fields: object) -> NodeProbe:
    """A probe that was settled so many days ago, with what it printed."""
    at = timezone.now() - days * DAY
    run = ProbeRun.objects.create(scope=node.name, ended_at=at)
    command = make_command(
        node.host, f"probe:{run.pk}/{node.name}", state=states.SUCCEEDED, settled_at=at
    )
    sections_pack(command.pk, [Section("kernel", rc=0, ms=1, body=b"6.8.0\n")]).save()
    return NodeProbe.objects.create(
        run=run, node=node, command=command, verdict="pass", settled_at=at, **fields
    )


@pytest.fixture
def old() -> NodeProbe:
    """A probe of 20 days ago, and a newer one of the same node."""
    node = make_node()
    first = probe(node, 20)
    probe(node, 1)
    return first


def is_kept(row: NodeProbe) -> bool:
    probes_forget()
    kept = NodeProbe.objects.filter(pk=row.pk).exists()
    command = Command.objects.filter(pk=row.command_id, output__isnull=False).exists()
    assert command == kept, "a probe, its command and its output go together"
    return kept


def test_an_old_probe_goes_with_its_command_output_and_run_and_the_trail_stays(old):
    probe_start(nodes=[old.node], actor=make_actor())
    told = TrailEntry.objects.count()
    assert not is_kept(old)
    assert not ProbeRun.objects.filter(pk=old.run_id).exists()
    assert TrailEntry.objects.count() == told > 0
    assert probes_forget() == 0, "a second time there is nothing left"


def test_the_newest_of_a_node_stays_for_ever():
    row = probe(make_node(), 400)
    assert is_kept(row)


def test_one_that_is_asked_still_is_no_newer_answer():
    node = make_node()
    row = probe(node, 400)
    probe_start(nodes=[node], actor=make_actor())
    assert is_kept(row)


def test_what_is_within_the_days_stays(old, settings):
    settings.PROBES_KEPT_DAYS = 21
    assert is_kept(old)
    settings.PROBES_KEPT_DAYS = 19
    assert not is_kept(old)


def test_a_run_stays_while_it_has_another_node(old):
    other = probe(make_node("h100-002"), 20)
    NodeProbe.objects.filter(pk=other.pk).update(run=old.run)
    assert not is_kept(old)
    assert ProbeRun.objects.filter(pk=old.run_id).exists()


# -- what points to it


def by_fact(row: NodeProbe) -> None:
    now = timezone.now()
    Fact.objects.create(
        node=row.node, key="kernel", observed_at=now, expires_at=now, source=row.command
    )


def by_card(row: NodeProbe) -> None:
    Gpu.objects.create(node=row.node, index=0, source=row.command)


def by_change(row: NodeProbe) -> None:
    FactChange.objects.create(
        node=row.node, key="kernel", before="a", after="b", at=timezone.now(), source=row.command
    )


def by_seat(row: NodeProbe) -> None:
    now = timezone.now()
    card = GpuRecord.objects.create(uuid="GPU-1", first_seen_at=now, last_seen_at=now)
    GpuSeat.objects.create(record=card, node=row.node, index=0, began_at=now, source=row.command)


def _acceptance(row: NodeProbe, **fields: object) -> None:
    now = timezone.now()
    run = AcceptanceRun.objects.create(scope=row.node.name, deadline_at=now, ended_at=now)
    NodeAcceptance.objects.create(
        run=run, node=row.node, verdict="accepted", settled_at=now, **fields
    )


def by_acceptance(row: NodeProbe) -> None:
    _acceptance(row, probe=row)


def by_look(row: NodeProbe) -> None:
    _acceptance(row, look=row.command)


def by_check(row: NodeProbe) -> None:
    _acceptance(row, checks=[{"name": "driver", "command": row.command_id}])


def by_net_step(row: NodeProbe) -> None:
    other = make_node("h100-009")
    run = NetRun.objects.create(scope="two nodes", layers=[])
    pair = NetPair.objects.create(run=run, round=1, a=row.node, b=other, topology="same-leaf")
    NetStep.objects.create(pair=pair, step="probe", side="a", command=row.command)


def by_launch(row: NodeProbe) -> None:
    place = LaunchPosition.objects.filter(launch=make_launch(1)).get()
    LaunchPosition.objects.filter(pk=place.pk).update(start=row.command)


def by_evidence(row: NodeProbe) -> None:
    Evidence.objects.create(
        object_kind="node", object_id=row.node.name, title="kernel", body=b"x", size_bytes=1,
        sha256="0" * 64, origin=f"{row.node.name}, {row.command.purpose}",
    )  # fmt: skip


POINTERS = (
    by_fact, by_card, by_change, by_seat, by_acceptance, by_look, by_check, by_net_step, by_launch,
    by_evidence,
)  # fmt: skip


@pytest.mark.parametrize("point", POINTERS)
def test_what_something_points_to_stays(old, point):
    point(old)
    assert is_kept(old)


@pytest.mark.parametrize("point", POINTERS)
def test_what_points_to_another_probe_keeps_only_that(old, point):
    newest = NodeProbe.objects.exclude(pk=old.pk).get()
    point(newest)
    assert not is_kept(old)


def test_every_relation_of_a_command_is_looked_at():
    sql = str(_old_probes().query)
    relations = [
        one.related_model._meta.db_table
        for one in Command._meta.get_fields(include_hidden=True)
        if one.auto_created and not one.concrete
    ]
    own = {"execution_commandoutput", "fleet_nodeprobe"}
    assert len(set(relations) - own) >= 8
    assert [table for table in relations if table not in own and table not in sql] == []


# -- readings of copies


@pytest.fixture
def holding() -> Holding:
    return Holding.objects.create(node=make_node(), artefact=make_artefact(), attempt=2, readings=3)


def reading(holding: Holding, purpose: str, days: float = 20, **fields: object) -> Command:
    at = timezone.now() - days * DAY
    fields = {"state": states.SUCCEEDED, **fields}
    return make_command(holding.node.host, purpose, settled_at=at, **fields)


def test_old_readings_of_a_copy_go_and_the_last_stays(holding):
    head = f"weights:{holding.pk}/2"
    gone = [reading(holding, f"{head}/bytes#{n}") for n in (1, 2)]
    gone.append(reading(holding, f"weights:{holding.pk}/1/bytes#3"))
    reading(holding, f"{head}/bytes#3")
    assert readings_forget() == len(gone)
    assert [row.purpose for row in Command.objects.all()] == [f"{head}/bytes#3"]
    assert readings_forget() == 0


@pytest.mark.parametrize(
    ("step", "fields"),
    [
        ("bytes#1", {"days": 13}),
        ("bytes#1", {"state": states.RUNNING}),
        ("pull", {"verb": "start", "effect": "once"}),
        ("out", {"verb": "collect"}),
        ("check", {}),
    ],
)
def test_what_is_young_open_or_no_reading_stays(holding, step, fields):
    reading(holding, f"weights:{holding.pk}/2/{step}", **fields)
    assert readings_forget() == 0
    assert Command.objects.count() == 1


def test_a_reading_that_something_points_to_stays(holding):
    command = reading(holding, f"weights:{holding.pk}/2/bytes#1")
    Gpu.objects.create(node=holding.node, index=0, source=command)
    assert readings_forget() == 0


# -- batches


def test_a_batch_takes_no_more_than_its_limit_and_the_next_goes_on():
    node = make_node()
    for days in (20, 19, 18, 17, 1):
        probe(node, days)
    assert [probes_forget(limit=3) for _ in range(3)] == [3, 1, 0]


def test_the_queries_do_not_grow_with_the_rows():
    counts = []
    nodes = make_nodes(6)
    for some in (nodes[:1], nodes[1:]):
        for node in some:
            probe(node, 20)
            probe(node, 1)
        with CaptureQueriesContext(connection) as seen:
            assert probes_forget() == len(some)
        counts.append(len(seen))
    assert counts[0] == counts[1] <= 8


def test_the_tick_goes_on_until_nothing_is_left(old, monkeypatch):
    monkeypatch.setattr(tasks, "RETAIN_S", 60.0)
    tasks.retain()
    tasks.retain()
    assert NodeProbe.objects.count() == 1
