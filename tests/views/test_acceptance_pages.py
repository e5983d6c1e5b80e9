import uuid

import pytest
from django.urls import reverse

from fleet.execution.models import Command
from fleet.models import AcceptanceRun, Gpu, NodeAcceptance
from fleet.selectors import serving
from fleet.services.acceptances import acceptance_start, acceptances_advance
from fleet.services.holds import hold_lift
from tests.acceptances import (
    PINS,
    answer_all,
    answer_looks,
    answer_probes,
    end_tests,
    make_gold,
    make_good,
)
from tests.factories import make_actor, make_node, make_nodes, make_person

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def pins(monkeypatch):
    monkeypatch.setattr(serving, "_SOURCES", [lambda nodes: {node.pk: [PINS] for node in nodes}])


def start(nodes) -> AcceptanceRun:
    make_good(*nodes)
    return acceptance_start(nodes=nodes, actor=make_actor(), user=make_person())


def accept_but_one(count: int = 9) -> AcceptanceRun:
    """All nodes accepted, h100-003 rejected for an ECC error on GPU 3."""
    make_gold()
    run = start(make_nodes(count))
    answer_probes()
    Gpu.objects.filter(node__host__name="h100-003", index=3).update(ecc_uncorrected=2.0)
    acceptances_advance()
    answer_looks()
    end_tests()
    acceptances_advance()
    run.refresh_from_db()
    return run


def text_of(client, name: str, *args: str) -> str:
    answer = client.get(reverse(name, args=args))
    assert answer.status_code == 200
    return answer.content.decode()


def test_a_run_says_in_one_line_how_it_came_out_and_folds_its_nodes(ana):
    run = accept_but_one()
    page = text_of(ana, "acceptance", run.public_id)
    assert "8 accepted, h100-003 rejected: uncorrected ECC on GPU 3 (2)" in page
    assert page.index('href="/nodes/h100-003/#acceptance"') < page.index("h100-[001-002,004-009]")
    assert "9 of 9 judged" in page
    assert "hx-trigger" not in page.split('id="acceptance-live"')[1].split(">")[0], "it is over"


def test_a_run_at_work_says_what_each_node_is_at_and_listens(ana):
    make_gold()
    run = start(make_nodes(2))
    page = text_of(ana, "acceptance", run.public_id)
    assert "Being probed" in page
    assert f'hx-trigger="{run.topic} from:body"' in page
    assert "Cancel acceptance" in page
    answer_probes()
    acceptances_advance()
    assert "Testing: all_reduce, disk read" in text_of(ana, "acceptance", run.public_id)


def test_only_the_live_part_is_sent_to_htmx(ana):
    run = start(make_nodes(1))
    part = ana.get(
        reverse("acceptance", args=[run.public_id]),
        headers={"HX-Request": "true", "HX-Target": "acceptance-live"},
    ).content.decode()
    assert part.lstrip().startswith('<div id="acceptance-live"')


def test_a_node_page_shows_every_check_with_expected_found_and_evidence(ana):
    run = accept_but_one(3)
    page = text_of(ana, "node", "h100-003")
    panel = page.split('id="acceptance"')[1].split("</section>")[0]
    assert "uncorrected ECC on GPU 3 (2)" in panel
    assert "Expected no uncorrected ECC error on any card" in panel
    row = NodeAcceptance.objects.get(node__host__name="h100-003")
    ecc = next(check for check in row.checks if check["name"] == "ecc")
    command, section = ecc["evidence"][0].split("/")
    address = reverse("probe-raw", args=["h100-003", int(command), section])
    assert address in panel
    assert ana.get(address).status_code == 200
    look = reverse("probe-raw", args=["h100-003", row.look_id, "image-0"])
    assert look in panel
    assert ana.get(look).status_code == 200
    assert run.public_id in panel
    bench = next(check for check in row.checks if check["name"] == "allreduce")["evidence"][0]
    assert reverse("evidence", args=[int(bench.split(":")[1])]) in panel


def test_a_node_page_shows_what_ended_its_acceptance(ana):
    make_gold()
    node = make_node()
    start([node])
    answer_all()
    NodeAcceptance.objects.update(
        voided_at="2026-11-30T00:00Z",
        voided_why="The node was started again since it was accepted.",
    )
    panel = text_of(ana, "node", node.name).split('id="acceptance"')[1].split("</section>")[0]
    assert 'data-state="void"' in panel
    assert "started again" in panel


def test_a_node_never_accepted_says_so_and_offers_it(ana):
    make_node()
    page = text_of(ana, "node", "h100-001")
    assert "never accepted" in page
    assert "Accept h100-001" in page


def test_the_fleet_offers_to_accept_all_and_the_chosen(ana, signed_in):
    make_nodes(2)
    assert "Accept all 2 nodes" in text_of(ana, "fleet-map")
    table = text_of(ana, "fleet-table")
    assert f'formaction="{reverse("acceptance-start")}"' in table
    assert 'id="accept-all" disabled' in text_of(signed_in("chen"), "fleet-map")


def test_the_list_counts_and_says_which_pools_ask(ana, settings):
    accept_but_one(3)
    page = text_of(ana, "acceptance-list")
    assert "2 of 3 nodes accepted" in page
    assert "a passed probe is enough" in page
    settings.ACCEPTANCE_REQUIRED = ["glm52"]
    assert "Pools that take accepted nodes only: glm52." in text_of(ana, "acceptance-list")


def test_an_empty_list_says_what_to_do(ana):
    assert "No node was ever accepted" in text_of(ana, "acceptance-list")


@pytest.mark.parametrize("name", ["AC-9999", "AC-x", "x"])
def test_a_run_that_is_not_there_is_not_found(ana, name):
    assert ana.get(reverse("acceptance", args=[name])).status_code == 404


def test_the_pages_are_in_a_fixed_number_of_queries(ana, django_assert_max_num_queries):
    run = accept_but_one(12)
    with django_assert_max_num_queries(12):
        ana.get(reverse("acceptance", args=[run.public_id]))


def test_the_chosen_nodes_are_accepted_and_the_run_is_shown(ana):
    make_nodes(3)
    answer = ana.post(
        reverse("acceptance-start"),
        {"nodes": ["h100-001", "h100-003"], "idempotency_key": str(uuid.uuid4())},
    )
    run = AcceptanceRun.objects.get()
    assert answer["Location"] == reverse("acceptance", args=[run.public_id])
    assert run.scope == "h100-[001,003]"


def test_a_cancel_that_comes_late_changes_nothing(ana):
    run = accept_but_one(1)
    ana.post(
        reverse("acceptance-cancel", args=[run.public_id]),
        {"reason": "too late", "idempotency_key": str(uuid.uuid4())},
    )
    run.refresh_from_db()
    assert run.cancelled_by == ""
    assert not Command.objects.filter(verb="stop").exists()


def test_the_page_of_a_marginal_node_says_what_lets_it_in_and_then_who_did(ana):
    make_gold()
    node = make_node()
    start([node])
    answer_all(busbw={node.name: 410.0})
    page = text_of(ana, "node", node.name)
    assert "It is given no work. Mend it and accept it again" in page
    hold_lift(hold=node.holds.get(), reason="for the night", actor=make_actor("bo"), override=True)
    page = text_of(ana, "node", node.name)
    assert "bo let it in: for the night" in page
    assert "It is given no work" not in page


def test_a_marginal_verdict_from_before_its_hold_existed_does_not_say_that_work_is_kept_off(ana):
    make_gold()
    node = make_node()
    start([node])
    answer_all(busbw={node.name: 410.0})
    node.holds.all().delete()
    assert "It is given no work" not in text_of(ana, "node", node.name)
