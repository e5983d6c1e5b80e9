"""Two people at once on weights, images and acceptances: one wins, the other is told; nobody meets an error of ours."""

import threading
from collections.abc import Callable

import pytest
from django.db import connection, transaction

from fleet.execution.models import Command
from fleet.models import (
    AcceptanceRun,
    Distribution,
    Holding,
    Image,
    ImageHolding,
    NodeAcceptance,
    NodeProbe,
    TrailEntry,
    WeightsArtefact,
)
from fleet.rules.fanout import Limits
from fleet.rules.refusals import Conflict
from fleet.services import images, weights
from fleet.services.acceptances import acceptance_cancel, acceptance_start
from fleet.services.probes import probe_start
from tests.factories import make_actor, make_nodes
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db(transaction=True)
REF = f"registry.internal/vllm-openai@sha256:{'d' * 64}"
REVISION = "c" * 40
SUMS = f"{'a' * 64}  model-0.safetensors\n10 model-0.safetensors\n"


@pytest.fixture(autouse=True)
def _redis(redis_client):
    """Dispatching nudges the queue."""


def is_waited_for() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted")
        return bool(cursor.fetchone()[0])


def at_once(first: Callable[[], object], second: Callable[[], object]) -> Exception | None:
    """Do `first` and, before it is committed, `second` on a connection of its own; return what the second met."""
    met: list[Exception] = []

    def ask() -> None:
        try:
            with transaction.atomic():
                second()
        except Exception as error:
            met.append(error)
        finally:
            connection.close()

    with transaction.atomic():
        first()
        other = threading.Thread(target=ask)
        other.start()
        wait_until(is_waited_for, what="the second one to wait for the first")
    other.join(60)
    assert not other.is_alive()
    return met[0] if met else None


def twice(call: Callable[[], object]) -> Exception | None:
    return at_once(call, call)


def add() -> WeightsArtefact:
    return weights.artefact_add(model="glm", revision=REVISION, checksums=SUMS, actor=make_actor())


def spread(artefact: WeightsArtefact, nodes) -> Distribution:
    return weights.distribution_start(
        artefact=artefact, nodes=nodes, limits=Limits(), actor=make_actor()
    )


def test_one_revision_made_known_twice_is_known_once():
    met = twice(add)
    assert isinstance(met, Conflict)
    assert "is known already" in str(met)
    assert WeightsArtefact.objects.count() == 1
    assert TrailEntry.objects.filter(verb="artefact.add").count() == 1


def test_one_image_asked_for_twice_is_one_image_with_one_row_a_node():
    nodes = make_nodes(3)
    assert twice(lambda: images.image_pull(ref=REF, nodes=nodes, actor=make_actor())) is None
    assert (Image.objects.count(), ImageHolding.objects.count()) == (1, 3)
    told = TrailEntry.objects.filter(verb="image.pull").order_by("id")
    assert [one.after["to_pull"] for one in told] == [3, 0], "the second one is told: nothing to do"


def test_an_image_that_is_known_asked_for_on_the_same_nodes_twice():
    nodes = make_nodes(3)
    images.image_pull(ref=REF, nodes=nodes[:1], actor=make_actor())
    assert twice(lambda: images.image_pull(ref=REF, nodes=nodes, actor=make_actor())) is None
    assert ImageHolding.objects.count() == 3


def test_a_pull_stopped_twice_is_stopped_once():
    nodes = make_nodes(1)
    images.image_pull(ref=REF, nodes=nodes, actor=make_actor())
    row = ImageHolding.objects.get()
    met = twice(lambda: images.image_act(holding=row, act="stop", actor=make_actor()))
    assert isinstance(met, Conflict)
    assert TrailEntry.objects.filter(verb="image.give_up").count() == 1


def test_a_revision_spread_twice_is_spread_once():
    nodes, artefact = make_nodes(3), add()
    met = twice(lambda: spread(artefact, nodes))
    assert isinstance(met, Conflict)
    assert "is still open" in str(met)
    assert (Distribution.objects.count(), Holding.objects.count()) == (1, 3)


@pytest.mark.parametrize("act", ["pause", "cancel"])
def test_a_distribution_paused_or_stopped_twice_changes_once(act):
    order = spread(add(), make_nodes(2))

    def ask() -> None:
        weights.distribution_act(distribution=order, act=act, reason="enough", actor=make_actor())

    assert isinstance(twice(ask), Conflict)
    assert TrailEntry.objects.filter(verb=f"distribution.{act}").count() == 1


@pytest.mark.parametrize("act", [weights.holding_verify, weights.holding_heal])
def test_a_node_verified_or_healed_twice_is_so_once(act):
    spread(add(), make_nodes(1))
    Holding.objects.update(state="failed")
    row = Holding.objects.get()
    assert isinstance(twice(lambda: act(holding=row, actor=make_actor())), Conflict)
    row.refresh_from_db()
    assert row.attempt == 1


def failed_order(nodes) -> tuple[Distribution, Holding]:
    order = spread(add(), nodes)
    Holding.objects.update(state="failed", needs=["model-0.safetensors"])
    Distribution.objects.update(state="failed")
    return order, Holding.objects.first()


def test_a_heal_opens_no_second_distribution_beside_a_new_one():
    nodes = make_nodes(2)
    order, row = failed_order(nodes)
    met = at_once(
        lambda: spread(order.artefact, nodes[1:]),
        lambda: weights.holding_heal(holding=row, actor=make_actor()),
    )
    assert met is None
    assert list(Distribution.objects.order_by("pk").values_list("state", flat=True)) == [
        "failed", "running",
    ]  # fmt: skip


def test_a_new_distribution_is_refused_beside_one_that_a_heal_opens():
    nodes = make_nodes(2)
    order, row = failed_order(nodes)
    met = at_once(
        lambda: weights.holding_heal(holding=row, actor=make_actor()),
        lambda: spread(order.artefact, nodes[1:]),
    )
    assert isinstance(met, Conflict)
    assert Distribution.objects.get().state == "running"


def test_a_heal_and_a_stop_do_not_wait_for_each_other_in_a_circle():
    order = spread(add(), make_nodes(2))
    row = Holding.objects.first()
    Holding.objects.filter(pk=row.pk).update(state="failed", needs=["model-0.safetensors"])

    def stop() -> None:
        weights.distribution_act(
            distribution=order, act="cancel", reason="enough", actor=make_actor()
        )

    assert at_once(lambda: weights.holding_heal(holding=row, actor=make_actor()), stop) is None
    assert set(Holding.objects.values_list("state", flat=True)) == {"cancelled"}


def test_a_node_is_accepted_once_at_a_time():
    nodes = make_nodes(3)
    met = at_once(
        lambda: acceptance_start(nodes=nodes[:2], actor=make_actor()),
        lambda: acceptance_start(nodes=nodes[1:], actor=make_actor()),
    )
    assert isinstance(met, Conflict)
    assert "h100-002: acceptance AC-" in str(met)
    assert (AcceptanceRun.objects.count(), NodeAcceptance.objects.count()) == (1, 2)
    assert NodeProbe.objects.count() == 2, "nothing is left of the one that was refused"


def test_an_acceptance_cancelled_twice_is_cancelled_once():
    run = acceptance_start(nodes=make_nodes(2), actor=make_actor())
    assert twice(lambda: acceptance_cancel(run=run, reason="x", actor=make_actor())) is None
    assert TrailEntry.objects.filter(verb="acceptance.cancel").count() == 1
    assert NodeAcceptance.objects.filter(verdict="not_measured").count() == 2


def test_nodes_probed_by_two_at_once_are_asked_once():
    nodes = make_nodes(3)
    met = at_once(
        lambda: probe_start(nodes=nodes[:2], actor=make_actor()),
        lambda: probe_start(nodes=nodes, actor=make_actor()),
    )
    assert met is None
    assert Command.objects.filter(purpose__startswith="probe:").count() == 3
