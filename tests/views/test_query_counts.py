"""A page asks the database as often for many rows as for few."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from fleet.models import Evidence, Fact, Gpu, Hold, NodeProbe, ProbeRun, Replica, TrailEntry
from releases.models import (
    Approval,
    GateRun,
    Launch,
    LaunchPhase,
    LaunchPosition,
    Release,
    Rollout,
)
from runbooks.models import Incident, RunStep
from runbooks.services.incidents import incident_note, incident_open
from runbooks.services.library import book_for
from runbooks.services.runs import run_propose
from tests.factories import (
    make_actor,
    make_command,
    make_hold,
    make_node,
    make_person,
    make_pool,
    make_replica,
)
from tests.live.log_scene import hold_lease, make_launch, night, say, stream_of

pytestmark = pytest.mark.django_db


def queries_of(client, address: str, besides: str = "-") -> int:
    with CaptureQueriesContext(connection) as seen:
        answer = client.get(address)
        assert answer.status_code == 200, address
        if answer.streaming:
            b"".join(answer)
    return sum(besides not in query["sql"] for query in seen.captured_queries)


@pytest.fixture
def ask_as_often(ana) -> Callable[..., None]:
    """Return a check: `grow(n)` adds n rows more; the page's queries stay the same."""

    def check(address: str, grow: Callable[[int], None], few: int = 2, many: int = 30) -> None:
        grow(few)
        first = queries_of(ana, address)
        grow(many)
        assert queries_of(ana, address) == first

    return check


def serial(start: int = 0):
    numbers = iter(range(start, start + 10_000))
    return lambda: next(numbers)


def add_trail(count: int, **fields) -> None:
    TrailEntry.objects.bulk_create(
        TrailEntry(
            **{
                "actor": f"person{n % 7}", "verb": "hold.add", "object_kind": "node",
                "object_id": "h100-001", "source": "web", "reason": "fans", "before": {"state": "ready"},
                "after": {"state": "quarantined"}, **fields,
            }
        )
        for n in range(count)
    )  # fmt: skip


def test_the_list_of_units(ask_as_often):
    number = serial(1)

    def grow(count: int) -> None:
        for _ in range(count):
            n = number()
            pair = [
                make_node(f"gpu{n:03d}-{stage}", host={"address": f"10.1.{n}.{stage}"})
                for stage in "ab"
            ]
            make_replica(f"glm52-r{n}", nodes=pair, state=Replica.State.values[n % 11])

    ask_as_often("/replicas/", grow, many=20)


@pytest.mark.parametrize("query", ["", "?kind=people", "?q=fans", "?actor=person1"])
def test_the_audit_page(ask_as_often, query):
    ask_as_often(f"/audit/{query}", add_trail, few=8, many=200)


def test_a_page_of_a_node(ask_as_often):
    node, number = make_node("h100-001"), serial()
    make_replica("glm52-r1", nodes=[node, make_node("h100-002")])
    bo = make_person("bo")

    def grow(count: int) -> None:
        for _ in range(count):
            n = number()
            now = timezone.now()
            Gpu.objects.create(
                node=node, index=n, health="ok", memory_total_mib=81559, observed_at=now
            )
            Fact.objects.create(node=node, key=f"fact{n}", value=n, observed_at=now, expires_at=now)
            make_hold(node, f"user:p{n}", created_by=bo)
            make_hold(node, f"user:q{n}", lifted_at=now, lifted_by="bo")
            command = make_command(node.host, f"probe:{n}/h100-001")
            run = ProbeRun.objects.create(scope="all")
            NodeProbe.objects.create(
                node=node, run=run, command=command, settled_at=now, verdict="pass"
            )
        add_trail(count)

    ask_as_often("/nodes/h100-001/", grow, few=8)
    assert Hold.objects.count() > 60


PAGES = ("/", "/gen/1/launch/", "/gen/1/log/", "/launch/")


def a_launch(nodes: int, state: str) -> Launch:
    launch = make_launch(nodes, f"glm52-r{nodes}", state=state)
    Launch.objects.filter(pk=launch.pk).update(plan=plan_of(nodes))
    return launch


def speak(launch: Launch, count: int) -> None:
    fence = hold_lease()
    for position in range(launch.positions.count()):
        lines = [(n, n % 8, "I", "", f"NCCL INFO line {n}") for n in range(count)]
        say(stream_of(launch, position), lines, fence)


@pytest.mark.parametrize("state", ["ready", "failed"])
def test_the_pages_of_a_launch_and_of_its_unit(ana, state):
    launch, counts = a_launch(2, state), []
    for first, more in ((0, 3), (3, 40)):
        fill(launch, first, more)
        speak(launch, more)
        counts.append([queries_of(ana, f"/replicas/glm52-r2{page}") for page in PAGES])
    assert counts[0] == counts[1]


def test_another_node_of_a_launch_costs_no_more_than_reading_its_log(ana):
    """The streams of a unit are merged as they are read: one read a node for the rows, one for the lanes."""
    fill(a_launch(3, "failed"), 0, 3)  # so that both have a history to compare with
    counts = []
    for nodes in (2, 8):
        launch = a_launch(nodes, "ready")
        fill(launch, 0, nodes)
        speak(launch, 20)
        where = f"/replicas/{launch.replica.name}"
        counts.append(
            [queries_of(ana, f"{where}{page}", besides="execution_logchunk") for page in PAGES]
        )
    assert counts[0] == counts[1]


def plan_of(nodes: int) -> dict:
    place = {"address": "10.1.1.1", "port": 8000}
    return {
        "world_size": nodes * 8, "master": place, "http": place, "generation": 1,
        "positions": [
            {"position": n, "node": f"n{n}", "address": "10.1.1.1", "container": "c", "subject": "s",
             "argv": ["docker", "run"], "env": {}}
            for n in range(nodes)
        ],
    }  # fmt: skip


def fill(launch: Launch, first: int, count: int) -> None:
    """Add evidence, releases of the pool, earlier launches with phases, and rows of the trail."""
    now = timezone.now()
    for n in range(first, first + count):
        Evidence.objects.create(
            object_kind="launch", object_id=launch.public_id, title=f"t{n}", origin="o", body=b"x",
            size_bytes=1, sha256="",
        )  # fmt: skip
        sha = f"{launch.pk}-{n}".ljust(64, "x")
        release = Release.objects.create(
            pool=launch.replica.pool, title="more", content={}, content_sha256=sha, state="draft"
        )
        older = Launch.objects.create(
            replica=launch.replica, release=(launch.release, release)[n % 2], generation=100 + n, plan={},
            plan_sha256="p" * 64, state="stopped", ready_at=now, ended_at=now,
        )  # fmt: skip
        for seat in launch.positions.all():
            row = LaunchPosition.objects.create(
                launch=older, position=seat.position, node=seat.node
            )
            LaunchPhase.objects.create(position=row, name="load", started_at=now, ended_at=now)
    add_trail(count * 10, object_kind="replica", object_id=launch.replica.name)


def test_the_log_page_of_a_long_night(ask_as_often, ana):
    launch = make_launch()
    fence = hold_lease()
    night(launch, fence)

    def grow(count: int) -> None:
        lines = [(n, n % 8, "EWI"[n % 3], "NCCL", f"line {n}") for n in range(count)]
        for position in (0, 1):
            say(stream_of(launch, position), lines, fence)

    ask_as_often("/replicas/glm52-r1/gen/1/log/", grow, few=20, many=2000)


def add_incidents(number: Callable[[], int], count: int) -> None:
    """Units that hang, each with case C waiting for a person."""
    for _ in range(count):
        unit = make_replica(f"glm52-r{number()}")
        incident, _new = incident_open(
            signature="hang", pool=unit.pool, replica=unit, launch=None, title="it hangs",
            symptoms=[], began_at=timezone.now(), actor=make_actor(),
        )  # fmt: skip
        run_propose(
            incident=incident,
            shelved=book_for("hang"),
            params={"unit": unit.name},
            actor=make_actor(),
        )


@pytest.mark.parametrize("address", ["/", "/incidents/"])
def test_the_overview_and_the_list_of_incidents(ask_as_often, address):
    number = serial(1)
    ask_as_often(address, lambda count: add_incidents(number, count), many=12)


def test_an_incident_with_a_long_timeline_and_many_pieces_of_evidence(ask_as_often):
    add_incidents(serial(50), 1)
    incident, launch = Incident.objects.get(), make_launch(1)
    Incident.objects.update(launch=launch)

    def grow(count: int) -> None:
        for n in range(count):
            incident_note(incident=incident, text=f"note {n}", actor=make_actor())
            piece = Evidence.objects.create(
                object_kind="launch", object_id=launch.public_id, title="t", origin="o", body=b"x",
                size_bytes=1, sha256="",
            )  # fmt: skip
            for step in RunStep.objects.all():
                step.evidence.append(piece.pk)
                step.save()

    ask_as_often(f"/incidents/{incident}/", grow)
    ask_as_often(f"/runs/{incident.runs.get()}/", grow)


def add_changes(number: Callable[[], int], count: int) -> None:
    """Pools with a release in review, a gate run, and a rollout whose wave waits for a signature."""
    cora, later = make_person("cora", role=""), timezone.now() + timedelta(hours=1)
    for _ in range(count):
        n = number()
        unit = make_replica(f"p{n}-r1", pool=make_pool(f"p{n}"), nodes=[])
        release = Release.objects.create(
            pool=unit.pool, title="next", content={}, content_sha256=f"{n}".ljust(64, "x"),
            state="sealed", author=cora,
        )  # fmt: skip
        rollout = Rollout.objects.create(
            pool=unit.pool, new_release=release, strategy={}, state="paused", author=cora
        )
        launch = Launch.objects.create(replica=unit, release=release, generation=1, plan={})
        GateRun.objects.create(launch=launch, purpose=f"by-hand:{n}", checks=["golden"])
        for kind, subject in (("release", {"release": release}), ("wave", {"rollout": rollout})):
            Approval.objects.create(
                kind=kind, facts={"number": 1}, asked_by=cora, expires_at=later, **subject
            )


@pytest.mark.parametrize("address", ["/", "/releases/", "/rollouts/", "/gates/", "/inbox/"])
def test_what_changes_is_listed_and_waits(ask_as_often, address):
    number = serial(1)
    ask_as_often(address, lambda count: add_changes(number, count), many=12)
