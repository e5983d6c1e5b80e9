"""A source of inventory that breaks for one sync changes nothing, and a node of a unit is never taken out by one."""

import pytest

from fleet.models import Node, NodeMiss
from fleet.rules.message import said
from fleet.rules.refusals import Refused
from fleet.selectors.inventory import fleet_digest
from fleet.services.imports import import_apply, import_read
from tests.factories import make_actor, make_person, make_replica

pytestmark = pytest.mark.django_db
ROWS = [
    f"- {{name: gpu{n:02d}, address: 127.0.9.{n}, user: fleet, leaf: 1, rack: R01}}"
    for n in range(1, 49)
]
DROPPED = "gpu17"
ALL, SHORT = "\n".join(ROWS), "\n".join(row for row in ROWS if DROPPED not in row)


def sync(text: str, *removals: str):
    """Read and apply a whole file; return the import."""
    dana, actor = make_person("dana"), make_actor("dana")
    found = import_read(text=text, file_name="f", is_whole=True, actor=actor, user=dana)
    return import_apply(
        found=found, digest=found.digest, removals=removals, reason="sync", actor=actor, user=dana
    )


def fleet() -> list[tuple]:
    """All that an import could have changed of the nodes."""
    return list(Node.objects.order_by("pk").values_list("host__name", "state", "version"))


@pytest.fixture(autouse=True)
def _loaded():
    sync(ALL)


def test_one_of_48_that_is_dropped_and_comes_back_changes_nothing():
    before, digest = fleet(), fleet_digest()
    first = sync(SHORT)
    assert [(one["name"], one["outcome"]) for one in first.missing] == [(DROPPED, "kept")]
    assert (fleet(), len(fleet())) == (before, 48)
    second = sync(ALL)
    assert second.missing == []
    assert (fleet(), fleet_digest()) == (before, digest)
    assert not NodeMiss.objects.exists()


def test_a_dropped_node_of_a_unit_is_blocked_with_the_reason_for_ever():
    make_replica(nodes=[Node.objects.get(host__name=DROPPED)])
    sync(SHORT)
    before = fleet()
    for _ in range(3):
        (one,) = sync(SHORT).missing
        assert (one["outcome"], "glm52-r1 has it" in said(one["why"])) == ("blocked", True)
        with pytest.raises(Refused, match="not offered"):
            sync(SHORT, DROPPED)
    assert fleet() == before


def test_no_sync_removes_a_node_by_itself():
    before = fleet()
    for _ in range(3):
        sync(SHORT)
    assert fleet() == before, "a person must choose it"
