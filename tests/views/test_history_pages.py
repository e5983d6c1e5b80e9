"""The page of a card shows where it sat; a node's page what changed on it."""

from datetime import timedelta

import pytest
from django.utils import timezone

from fleet.models import FactChange, Gpu, GpuRecord, GpuSeat
from tests.factories import make_command, make_nodes

pytestmark = pytest.mark.django_db
UUID = "GPU-41d6a8b0-9a53-5f0c-8c0e-5d2b6f7e19b3"


@pytest.fixture
def moved():
    """A card that sat on the first node and sits on the second."""
    one, two = make_nodes(2)
    now = timezone.now()
    record = GpuRecord.objects.create(
        uuid=UUID, name="NVIDIA H100", serial="165", first_seen_at=now - timedelta(days=2), last_seen_at=now
    )  # fmt: skip
    GpuSeat.objects.create(
        record=record, node=one, index=3, began_at=now - timedelta(days=2), ended_at=now,
    )  # fmt: skip
    source = make_command(two.host, state="succeeded", settled_at=now)
    GpuSeat.objects.create(record=record, node=two, index=5, began_at=now, source=source)
    Gpu.objects.create(node=two, index=5, uuid=UUID, health="ok", observed_at=now)
    return one, two


def test_a_cards_page_shows_its_seats_newest_first(ana, moved):
    page = ana.get(f"/gpus/{UUID}/")
    html = page.content.decode()
    assert [(seat.node.name, seat.index) for seat in page.context["seats"]] == [
        ("h100-002", 5),
        ("h100-001", 3),
    ]
    assert "Healthy" in html
    assert '/raw/gpu-query/"' in html
    assert "No node has this card now" not in html
    assert ana.get("/jump/", {"q": UUID.lower()}).url == f"/gpus/{UUID}/"


def test_a_card_that_nobody_has_is_said(ana, moved):
    GpuSeat.objects.filter(ended_at=None).update(ended_at=timezone.now())
    html = ana.get(f"/gpus/{UUID}/").content.decode()
    assert "No node has this card now" in html
    assert "No reading" in html
    assert ana.get("/gpus/GPU-nobody/").status_code == 404


def test_a_nodes_page_tells_who_came_and_who_left(ana, moved):
    one, two = (ana.get(f"/nodes/{node.name}/").content.decode() for node in moved)
    assert "sat here from" in one
    assert "came here" in two
    assert f'href="/gpus/{UUID}/"' in two


def test_a_new_driver_is_on_the_nodes_page_with_time_and_source(ana, moved):
    node = moved[1]
    assert (
        "no driver, kernel or firmware changed" not in ana.get("/nodes/h100-002/").content.decode()
    )
    source = make_command(node.host, "probe:2/h100-002", state="succeeded")
    FactChange.objects.create(
        node=node, key="driver_version", before="570.1", after="575.2", at=timezone.now(),
        source=source, section="gpu-query",
    )  # fmt: skip
    html = ana.get("/nodes/h100-002/").content.decode()
    assert "GPU driver" in html
    assert '<span class="mono">570.1</span> → <span class="mono">575.2</span>' in html
    assert f"/nodes/h100-002/probes/{source.pk}/raw/gpu-query/" in html
