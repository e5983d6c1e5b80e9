"""What probes tell over time is kept: cards by UUID where they sit, drivers and kernels when they change."""

import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from fleet.execution import states
from fleet.execution.models import Command
from fleet.execution.output import Section, sections_pack
from fleet.models import FactChange, GpuRecord, GpuSeat, LastFact, TrailEntry
from fleet.services.probes import probe_settle, probe_start
from tests.factories import make_actor, make_node, make_nodes
from tests.rules.test_probe import sections as good_sections

pytestmark = pytest.mark.django_db


def settle(command: Command, state: str, **fields: object) -> None:
    Command.objects.filter(pk=command.pk).update(state=state, settled_at=timezone.now(), **fields)


def answer(command: Command, **changed: bytes) -> None:
    """Let a node answer its probe like a good one, but for the named sections."""
    packed = [
        Section(name=name, rc=seen.rc, ms=3, body=changed.get(name.replace("-", "_"), seen.body))
        for name, seen in good_sections().items()
    ]
    sections_pack(command.pk, packed).save()
    settle(command, states.SUCCEEDED, answer={"answer": "PROBE", "boot_id": "b-1"})


def start(nodes: list) -> None:
    probe_start(nodes=nodes, actor=make_actor())


def of_node(body: bytes, number: int, **changed: str) -> bytes:
    """The bytes of the good node, with UUIDs of node `number`; `changed` maps a card's index to a UUID."""
    text = re.sub(rb"GPU-41d6a8b0", b"GPU-%08x" % number, body)
    for index, uuid in changed.items():
        text = text.replace(uuid_of(number, int(index[1:])).encode(), uuid.encode())
    return text


def uuid_of(number: int, index: int) -> str:
    return f"GPU-{number:08x}-9a53-5f0c-8c0e-5d2b6f7e19b{index}"


def probe(*nodes, **changed: bytes) -> None:
    """Let nodes answer; cards of each have its own UUIDs unless the section is given."""
    start(list(nodes))
    good = good_sections()
    for command in Command.objects.filter(state=states.QUEUED).select_related("host"):
        number = int(command.host.name[-3:])
        own = {
            name: of_node(good[name.replace("_", "-")].body, number)
            for name in ("gpu_list", "gpu_query")
        }
        answer(command, **{**own, **changed})
    probe_settle()


def seats(uuid: str) -> list[tuple[str, int, bool]]:
    rows = GpuSeat.objects.filter(record__uuid=uuid).order_by("began_at", "pk")
    return [(seat.node.name, seat.index, seat.ended_at is None) for seat in rows]


def test_every_card_gets_a_record_and_a_seat_once():
    nodes = make_nodes(2)
    probe(*nodes)
    probe(*nodes)
    assert (GpuRecord.objects.count(), GpuSeat.objects.count()) == (16, 16)
    record = GpuRecord.objects.get(uuid=uuid_of(2, 3))
    assert record.first_seen_at < record.last_seen_at
    assert record.name.startswith("NVIDIA H100")
    assert seats(record.uuid) == [("h100-002", 3, True)]
    assert not TrailEntry.objects.filter(verb="gpu.move").exists()


def test_a_card_that_moves_keeps_its_record_and_the_trail_tells():
    one, two = make_nodes(2)
    probe(one, two)
    card, replaced = uuid_of(1, 0), uuid_of(2, 5)
    probe(two, gpu_query=of_node(good_sections()["gpu-query"].body, 2, i5=card))
    assert GpuRecord.objects.filter(uuid=card).count() == 1
    assert seats(card) == [("h100-001", 0, False), ("h100-002", 5, True)]
    assert seats(replaced) == [("h100-002", 5, False)]
    told = {entry.object_id: entry for entry in TrailEntry.objects.filter(verb="gpu.move")}
    assert told[card].before == {"node": "h100-001", "index": 0}
    assert told[card].after == {"node": "h100-002", "index": 5}
    assert told[replaced].after == {"node": None}


@pytest.mark.parametrize(
    "broken",
    [
        {"gpu_query": b""},
        {"gpu_query": b"Unable to determine the device handle for GPU 0000:1A:00.0: Unknown Error\n"},
        {"gpu_query": of_node(good_sections()["gpu-query"].body, 1)[:700]},
        {"gpu_query": of_node(good_sections()["gpu-query"].body, 1)[:508]},
        {"kernel": b"", "gpu_query": b"\xff\xfe\x00"},
    ],
)  # fmt: skip
def test_an_answer_that_is_torn_changes_nothing(broken):
    node = make_node()
    probe(node)
    before = (
        GpuRecord.objects.count(),
        list(LastFact.objects.order_by("pk").values("key", "value")),
    )
    probe(node, **broken)
    assert GpuSeat.objects.filter(ended_at=None).count() == 8
    assert before == (
        GpuRecord.objects.count(),
        list(LastFact.objects.order_by("pk").values("key", "value")),
    )
    assert not FactChange.objects.exists()


def test_a_probe_that_failed_changes_nothing():
    node = make_node()
    probe(node)
    start([node])
    settle(Command.objects.get(state=states.QUEUED), states.FAILED, explanation="refused")
    probe_settle()
    assert GpuSeat.objects.filter(ended_at=None).count() == 8
    assert not FactChange.objects.exists()


def test_a_new_kernel_is_a_change_with_its_time_and_source():
    node = make_node()
    probe(node)
    first = LastFact.objects.get(key="kernel").value
    probe(node, kernel=b"")
    probe(node, kernel=b"6.8.0-31-generic\n")
    change = FactChange.objects.get()
    assert (change.key, change.before, change.after) == ("kernel", first, "6.8.0-31-generic")
    assert (change.section, change.source.host_id) == ("kernel", node.pk)
    assert change.at == change.source.settled_at
    probe(node, kernel=b"6.8.0-31-generic\n")
    assert FactChange.objects.count() == 1


def test_the_number_of_queries_does_not_grow_with_the_nodes():
    def queries(*nodes) -> int:
        start(list(nodes))
        for command in Command.objects.filter(state=states.QUEUED).select_related("host"):
            number = int(command.host.name[-3:])
            answer(command, gpu_query=of_node(good_sections()["gpu-query"].body, number))
        with CaptureQueriesContext(connection) as seen:
            probe_settle()
        return len(seen.captured_queries)

    nodes = make_nodes(12)
    few = queries(*nodes[:2])
    assert queries(*nodes[2:]) == few
