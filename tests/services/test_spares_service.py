"""Spare nodes: whole units on one leaf, the floor for rollouts, and no unit moved while it runs."""

import threading
import time

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from fleet.models import (
    AcceptanceRun,
    Fact,
    Leaf,
    Member,
    NodeAcceptance,
    Rack,
    Replica,
    TrailEntry,
)
from fleet.rules.message import said
from releases.models import Launch, Release
from releases.services.spares import (
    SparesRefused,
    canary_create,
    canary_remove,
    spares_usable,
    unit_to_spares,
)
from tests.contents import CONTENT
from tests.factories import (
    NOON,
    let_know,
    make_actor,
    make_hold,
    make_node,
    make_pool,
    make_replica,
)

pytestmark = pytest.mark.django_db
HELD = f"{CONTENT['model']['slug']}/{CONTENT['model']['revision']}"


@pytest.fixture
def pool():
    make_pool("spare", name="Spare", is_spare=True, spare_floor=1)
    return make_pool()


@pytest.fixture
def release(pool) -> Release:
    return Release.objects.create(
        pool=pool, title="new", state="reviewed", content=CONTENT,
        content_sha256="c" * 64,
    )  # fmt: skip


def make_spare(name: str, leaf: int = 1, **fields):
    switch, _ = Leaf.objects.get_or_create(number=leaf)
    rack, _ = Rack.objects.get_or_create(name=f"R{leaf:02d}", defaults={"leaf": switch})
    return let_know(make_node(name, rack=rack, **fields), HELD)


def nodes_of(replica: Replica) -> list[str]:
    rows = Member.objects.filter(replica=replica, released_at=None).order_by("position")
    return [member.node.name for member in rows]


def create(pool, release) -> Replica:
    return canary_create(pool=pool, release=release, name="glm52-c1", actor=make_actor())


def why(refusal) -> str:
    return said(refusal.value.reasons[0])


class TestCanary:
    def test_it_takes_spares_of_one_leaf(self, pool, release):
        for name, leaf in (("h100-041", 1), ("h100-042", 2), ("h100-043", 2)):
            make_spare(name, leaf)
        canary = create(pool, release)
        assert (canary.is_canary, nodes_of(canary)) == (True, ["h100-042", "h100-043"])
        assert spares_usable() == 1
        assert TrailEntry.objects.get(verb="replica.create").after["nodes"] == nodes_of(canary)

    def test_it_leaves_the_floor(self, pool, release):
        make_spare("h100-041")
        make_spare("h100-042")
        with pytest.raises(SparesRefused) as refusal:
            create(pool, release)
        assert "2 are needed and 1 must stay" in why(refusal)
        assert not Replica.objects.exists()

    def test_a_spare_without_the_revision_is_none(self, pool, release):
        for number in (1, 2, 3):
            make_spare(f"h100-04{number}")
        Fact.objects.filter(node__host__name="h100-042", key="models").update(value=[])
        Fact.objects.filter(node__host__name="h100-043", key="models").update(expires_at=NOON)
        with pytest.raises(SparesRefused) as refusal:
            create(pool, release)
        told = "\n".join(map(said, refusal.value.reasons))
        assert f"h100-042 does not hold {HELD}; distribute it first." in told
        assert "h100-043: its models were not read; probe it." in told
        assert "Nearest: h100-[041-042] on leaf 1" in told

    @pytest.mark.parametrize("asks", [[], ["all"]])
    def test_the_number_of_queries_does_not_grow_with_the_spares(
        self, pool, release, settings, asks
    ):
        settings.ACCEPTANCE_REQUIRED = asks
        for number in range(1, 4):
            make_spare(f"h100-04{number}")
        with CaptureQueriesContext(connection) as few:
            spares_usable()
        for number in range(4, 10):
            make_hold(make_spare(f"h100-04{number}"))
        with CaptureQueriesContext(connection) as many:
            assert spares_usable() == (0 if asks else 3)
        assert len(few) == len(many)

    def test_a_spare_of_which_something_is_unknown_is_none(self, pool, release):
        make_spare("h100-041", host={"reach": "unknown"})
        make_hold(make_spare("h100-042"))
        make_spare("h100-043")
        assert spares_usable() == 1
        with pytest.raises(SparesRefused):
            create(pool, release)

    def test_a_marginal_spare_comes_last_and_the_trail_says_who_answers_for_it(self, pool, release):
        first, *others = [make_spare(f"h100-04{number}") for number in (1, 2, 3)]
        run = AcceptanceRun.objects.create(scope="all", deadline_at=NOON)
        for node in (first, *others):
            NodeAcceptance.objects.create(
                run=run, node=node, is_standing=True, settled_at=NOON, summary="0.87 of gold",
                verdict="marginal" if node == first else "accepted",
            )  # fmt: skip
        make_hold(
            first, "acceptance", lifted_at=timezone.now(), lifted_by="bo", lift_reason="a try"
        )
        assert nodes_of(create(pool, release)) == ["h100-042", "h100-043"]
        assert not TrailEntry.objects.get(verb="replica.create").reason
        make_spare("h100-044")
        NodeAcceptance.objects.create(
            run=run, node=make_spare("h100-045"), is_standing=True, settled_at=NOON,
            verdict="accepted",
        )  # fmt: skip
        moved = unit_to_spares(
            replica=Replica.objects.get(), exclude=frozenset({"h100-042"}), actor=make_actor()
        )
        assert nodes_of(moved) == ["h100-045", "h100-041"], "better than one that nobody accepted"
        told = said(TrailEntry.objects.get(verb="replica.to_spares").reason)
        assert (
            told == f"h100-041 is marginal by {run.public_id} (0.87 of gold); bo let it in: a try"
        )

    def test_asking_twice_makes_one(self, pool, release):
        for number in (1, 2, 3):
            make_spare(f"h100-04{number}")
        assert create(pool, release) == create(pool, release)
        assert Member.objects.count() == 2

    def test_it_gives_its_nodes_back_once(self, pool, release):
        for number in (1, 2, 3):
            make_spare(f"h100-04{number}")
        canary = create(pool, release)
        canary_remove(replica=canary, actor=make_actor())
        canary_remove(replica=canary, actor=make_actor())
        assert (nodes_of(canary), spares_usable()) == ([], 3)
        assert TrailEntry.objects.filter(verb="replica.remove").count() == 1

    def test_a_unit_of_the_pool_is_not_removed(self, pool):
        unit = make_replica(pool=pool, nodes=[make_node()])
        with pytest.raises(SparesRefused) as refusal:
            canary_remove(replica=unit, actor=make_actor())
        assert why(refusal) == "glm52-r1 is no canary."


class TestUnitToSpares:
    def test_it_moves_whole_and_may_go_below_the_floor(self, pool):
        unit = make_replica(pool=pool, nodes=[make_node("h100-001"), make_node("h100-002")])
        make_spare("h100-041")
        make_spare("h100-042")
        unit_to_spares(replica=unit, exclude=frozenset(), actor=make_actor())
        assert nodes_of(unit) == ["h100-041", "h100-042"]
        told = TrailEntry.objects.get(verb="replica.to_spares")
        assert told.before == {"nodes": ["h100-001", "h100-002"]}

    def test_its_own_old_nodes_are_no_spares_of_it(self, pool):
        unit = make_replica(pool=pool, nodes=[make_node("h100-001"), make_node("h100-002")])
        make_spare("h100-041")
        with pytest.raises(SparesRefused):
            unit_to_spares(replica=unit, exclude=frozenset(), actor=make_actor())
        assert nodes_of(unit) == ["h100-001", "h100-002"]

    def test_excluded_nodes_are_not_taken(self, pool):
        unit = make_replica(pool=pool, nodes=[make_node("h100-001")])
        make_spare("h100-041")
        make_spare("h100-042")
        unit_to_spares(replica=unit, exclude=frozenset({"h100-041"}), actor=make_actor())
        assert nodes_of(unit) == ["h100-042"]

    def test_a_unit_with_a_live_launch_stays(self, pool, release):
        unit = make_replica(pool=pool, nodes=[make_node("h100-001")])
        make_spare("h100-041")
        Launch.objects.create(
            replica=unit,
            release=release,
            generation=1,
            plan={},
            plan_sha256="p" * 64,
            state="ready",
        )
        with pytest.raises(SparesRefused) as refusal:
            unit_to_spares(replica=unit, exclude=frozenset(), actor=make_actor())
        assert "is still ready" in why(refusal)


@pytest.mark.django_db(transaction=True)
def test_the_floor_holds_against_who_takes_spares_at_the_same_time(pool, release):
    unit = make_replica(pool=pool, nodes=[make_node("h100-001")])
    for number in (1, 2, 3):
        make_spare(f"h100-04{number}")
    raised: list[Exception] = []

    def ask() -> None:
        try:
            create(pool, release)
        except Exception as error:
            raised.append(error)
        finally:
            connection.close()

    with transaction.atomic():
        unit_to_spares(replica=unit, exclude=frozenset({"h100-041"}), actor=make_actor())
        other = threading.Thread(target=ask)
        other.start()
        wait_for_a_waiter()
    other.join(60)
    assert [type(error) for error in raised] == [SparesRefused]
    assert nodes_of(unit) == ["h100-042"]


def wait_for_a_waiter(within_s: float = 20.0) -> None:
    """Return once another connection waits for a lock."""
    end = time.monotonic() + within_s
    with connection.cursor() as cursor:
        while time.monotonic() < end:
            cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted")
            if cursor.fetchone()[0]:
                return
            time.sleep(0.02)
    raise AssertionError("nobody came to wait")
