"""Pages of network acceptance: the form, a run with its matrix, one pair with its evidence, and the matrix to sign."""

import re
import uuid

import pytest

from fleet.models import NetGolden, NetMatrix, NetRun
from fleet.rules import netverdict
from fleet.services.net_matrix import golden_choose
from fleet.services.network import net_run_start
from tests.factories import make_actor, make_nodes, make_person
from tests.network import GOLD_GBS, Answers, make_leaves, make_matrix, run_to_end

pytestmark = pytest.mark.django_db
LAYERS = (netverdict.REACH, netverdict.RAILS, netverdict.COLLECTIVE)


def post(client, address: str, **fields):
    return client.post(address, {"idempotency_key": str(uuid.uuid4()), **fields})


def text(client, address: str) -> str:
    answer = client.get(address)
    assert answer.status_code == 200
    return answer.content.decode()


@pytest.fixture
def bo(signed_in):
    return signed_in("bo")


@pytest.fixture
def chen(signed_in):
    return signed_in("chen")


@pytest.fixture
def nodes():
    make_matrix(signed_by=make_person("bo"))
    return make_leaves(2, 2)


def measured(nodes, busbw=lambda a, b: GOLD_GBS, **fields) -> NetRun:
    run = net_run_start(
        nodes=nodes, actor=make_actor(), user=make_person(), layers=LAYERS, **fields
    )
    return run_to_end(run, Answers(busbw))


def choose_gold(nodes) -> None:
    for chosen in (nodes[:2], nodes[::2]):
        pair = measured(chosen).pairs.get()
        golden_choose(pair=pair, actor=make_actor("bo"), user=make_person("bo"))


def test_the_form_starts_a_run_over_a_node_set(ana, nodes):
    assert "No run yet" in text(ana, "/network/")
    answer = post(ana, "/network/start/", nodes="h100-[001-004]", layer=list(LAYERS), loop_min="1")
    run = NetRun.objects.get()
    assert answer.url == f"/network/{run.public_id}/"
    assert (run.pairs.count(), run.layers, run.loop_s) == (6, list(LAYERS), 60)
    page = text(ana, answer.url)
    assert "Testing pairs" in page
    assert page.count('class="cell wait"') == 12
    assert run.public_id in text(ana, "/network/")


def test_what_is_refused_says_why_and_starts_nothing(ana, nodes):
    answer = post(ana, "/network/start/", nodes="h100-001", layer="reach")
    assert answer.status_code == 422
    assert "2 to 64 nodes" in answer.content.decode()
    answer = post(ana, "/network/start/", nodes="h100-[001-004]", layer="reach", loop_min="soon")
    assert "expected a whole number" in answer.content.decode()
    assert not NetRun.objects.exists()


def test_a_slow_path_stands_in_the_matrix_the_ranking_and_the_suspects(ana, nodes):
    choose_gold(nodes)
    slow = {"h100-003", "h100-004"}
    run = measured(nodes, lambda a, b: GOLD_GBS * (0.55 if {a, b} == slow else 1))
    page = text(ana, f"/network/{run.public_id}/")
    assert page.count('class="cell crit"') == 2, "one pair, drawn from both sides"
    assert page.count('class="cell m3"') == 10
    assert "h100-003 + h100-004: 55.0 %, Failed" in page, "in words too, not by colour alone"
    assert "the path between them is the cause" in page
    assert page.count("slow path") == 2


def test_the_page_asks_for_its_part_and_gets_only_that(ana, nodes):
    run = net_run_start(nodes=nodes, actor=make_actor(), user=make_person())
    part = ana.get(
        f"/network/{run.public_id}/",
        headers={"HX-Request": "true", "HX-Target": "network-run-live"},
    ).content.decode()
    assert part.startswith('<div id="network-run-live"')
    assert f"network-{run.public_id} from:body" in part


def test_a_pair_shows_each_layer_with_its_evidence_and_what_the_node_printed(ana, nodes):
    run = measured(nodes[:2])
    pair = run.pairs.get()
    where = f"/network/{run.public_id}/pairs/{pair.pk}/"
    page = text(ana, where)
    assert "no golden pair of this topology" in page
    assert "16 channels between the nodes, all by NET/IB with GPU direct" in page
    assert "h100-001: no packet was sent again" in page
    assert "783.2" in page, "both ways of a rail"
    links = re.findall(rf'href="({where}raw/\d+/out/)"', page)
    assert any("Using network IB" in text(ana, link) for link in links)
    assert ana.get(f"{where}raw/1/none/").status_code == 404


def test_only_an_approver_chooses_gold(ana, bo, nodes):
    run = measured(nodes[:2])
    where = f"/network/{run.public_id}/pairs/{run.pairs.get().pk}/"
    assert "Needs role approver" in text(ana, where)
    assert post(ana, f"{where}golden/").status_code == 403
    assert post(bo, f"{where}golden/").status_code == 302
    assert NetGolden.objects.get().chosen_by.username == "bo"
    gold = NetGolden.objects.get()
    assert f'href="/golden/pairs/{gold.pk}/">this is the golden pair' in text(ana, where)


def test_golden_pairs_stand_among_the_profiles_with_versions_side_by_side_and_a_bar(ana, bo, nodes):
    assert "No pair was chosen yet" in text(ana, "/golden/")
    choose_gold(nodes)
    gold = NetGolden.objects.get(topology="same-leaf")
    where = f"/golden/pairs/{gold.pk}/"
    page = text(ana, "/golden/")
    assert page.count("/golden/pairs/") == 2
    assert "others at least 95.0 %" in page
    assert "Needs role approver" in text(ana, where)
    assert post(ana, f"{where}bar/", bar="90", reason="agreed").status_code == 403
    answer = post(bo, f"{where}bar/", bar="9", reason="agreed")
    assert (answer.status_code, "from 50 to 100" in answer.content.decode()) == (422, True)
    answer = post(bo, f"{where}bar/", bar="90", reason="agreed in NET-812")
    new = NetGolden.objects.get(topology="same-leaf", is_current=True)
    assert answer.url == f"/golden/pairs/{new.pk}/"
    page = text(bo, f"{answer.url}?with={gold.pk}")
    assert "Changes against version 1" in page
    assert re.search(r'data-label="Version 1">95.0 %</td><td [^>]*"Version 2">90.0 %</td>', page)
    assert "not in this version" not in page, "both are of the same pair"
    assert "at least 0.9 of it" in page
    assert "agreed in NET-812" in page
    assert "version 2" in text(ana, "/golden/")
    assert 'id="bar"' not in text(bo, where), "an old version is not edited"
    assert ana.get("/golden/pairs/999999/").status_code == 404
    assert "Changes against" not in text(ana, f"{where}?with=x")


def test_the_curve_under_load_stands_on_both_pages_of_a_pair(ana, nodes):
    run = net_run_start(nodes=nodes, actor=make_actor(), user=make_person(), layers=("together",))
    run = run_to_end(run, Answers())
    pair = run.pairs.filter(kind="together")[0]
    page = text(ana, f"/network/{run.public_id}/pairs/{pair.pk}/")
    assert "Curve under load" in page
    assert 'aria-label="GB/s by pairs at once: 1: 388.0, 2: 388.0"' in page
    rung = run.pairs.get(kind="rung", a=pair.a, b=pair.b)
    assert f'href="/network/{run.public_id}/pairs/{rung.pk}/">1<' in page
    run_page = text(ana, f"/network/{run.public_id}/")
    assert f"/pairs/{rung.pk}/" not in run_page, "a rung is a point of the curve, not a pair"


def test_a_run_is_cancelled_with_a_reason(ana, nodes):
    run = net_run_start(nodes=nodes, actor=make_actor(), user=make_person())
    where = f"/network/{run.public_id}/"
    assert post(ana, f"{where}cancel/", reason="").status_code == 422
    assert post(ana, f"{where}cancel/", reason="the night is over").url == where
    page = text(ana, where)
    assert "Cancelled: the night is over" in page
    assert 'id="cancel"' not in page


def test_unknown_names_are_not_found(ana, nodes):
    for where in ("NET-9999", "NET-", "x", "NET-0001x"):
        assert ana.get(f"/network/{where}/").status_code == 404


def test_the_matrix_is_written_by_one_and_signed_by_another(ana, bo):
    make_nodes(1)
    fields = {
        "node_class": "hgx-h100-roce",
        "hcas": "mlx5_0 mlx5_1",
        "interface": "bond0",
        "mtu": "9000",
    }
    assert post(ana, "/network/matrix/write/", **fields, gid_index="3").url == "/network/matrix/"
    row = NetMatrix.objects.get()
    page = text(ana, "/network/matrix/")
    assert "You wrote it; another person signs." in page
    assert post(ana, f"/network/matrix/{row.pk}/sign/").status_code == 403
    assert f"Sign {row}" in text(bo, "/network/matrix/")
    assert post(bo, f"/network/matrix/{row.pk}/sign/").status_code == 302
    page = text(ana, "/network/matrix/")
    assert "holds for launches" in page
    assert "NCCL_IB_HCA==mlx5_0,mlx5_1" in page
    post(ana, "/network/matrix/write/", **{**fields, "mtu": "4200"})
    page = text(ana, "/network/matrix/")
    assert page.index("waits for a signature") < page.index("holds for launches")


def test_a_bad_field_of_the_matrix_is_named(ana):
    make_nodes(1)
    fields = {"node_class": "hgx-h100-roce", "hcas": "mlx5_0", "interface": "bond 0", "mtu": "9000"}
    answer = post(ana, "/network/matrix/write/", **fields)
    assert answer.status_code == 422
    assert "expected a name such as bond0" in answer.content.decode()


def test_a_viewer_reads_and_writes_nothing(chen, nodes):
    assert "Needs role operator" in text(chen, "/network/")
    assert post(chen, "/network/start/", nodes="all").status_code == 403


def test_a_chosen_layer_fills_the_page_and_stands_in_the_address(ana, nodes):
    run = measured(nodes)
    where = f"/network/{run.public_id}/"
    page = text(ana, f"{where}?layer=rails")
    assert 'href="?" aria-current="true"' in page, "the chosen layer leads back to all of them"
    assert "of the golden pair</span></div></header>" not in page
    assert 'hx-get="' + where + '?layer=rails"' in page, "a live part keeps what was chosen"
    assert "6 of 6 pairs judged" in page
    assert page.count('#rails"') == 12
    assert "6 of 6 pairs judged" not in text(ana, f"{where}?layer=nonsense")


def test_only_failed_pairs_are_a_filter_in_the_address(ana, nodes):
    choose_gold(nodes)
    slow = {"h100-003", "h100-004"}
    run = measured(nodes, lambda a, b: GOLD_GBS * (0.55 if {a, b} == slow else 1))
    where = f"/network/{run.public_id}/"
    rows = re.compile(r'<tr id="p-\d+"')
    assert len(rows.findall(text(ana, where))) == run.pairs.count()
    failed = run.pairs.filter(verdict=netverdict.FAIL).count()
    assert 0 < failed < run.pairs.count()
    assert len(rows.findall(text(ana, f"{where}?show=failed"))) == failed
    assert "No pair failed here." in text(ana, f"{where}?show=failed&layer=reach")


def test_a_suspect_names_the_tests_with_known_good_partners(ana, nodes):
    choose_gold(nodes)
    slow = {"h100-003", "h100-004"}
    run = measured(nodes, lambda a, b: GOLD_GBS * (0.55 if {a, b} == slow else 1), rounds=1)
    repaired = run.pairs.filter(kind="repair")
    assert repaired.exists()
    suspects = (
        text(ana, f"/network/{run.public_id}/").split('id="suspects"')[1].split("</section>")[0]
    )
    assert all(
        f"/pairs/{pair.pk}/" in suspects for pair in repaired if {pair.a.name, pair.b.name} & slow
    )
    assert "known-good partner" in suspects


def test_runs_and_pairs_lead_to_the_one_before_and_after(ana, nodes):
    first, second = measured(nodes[:2]), measured(nodes)
    page = text(ana, f"/network/{first.public_id}/")
    assert 'rel="prev"' not in page
    assert f'rel="next" href="/network/{second.public_id}/"' in page
    pairs = list(second.pairs.order_by("pk"))
    page = text(ana, f"/network/{second.public_id}/pairs/{pairs[1].pk}/")
    assert f'rel="prev" href="/network/{second.public_id}/pairs/{pairs[0].pk}/"' in page
    assert f'aria-label="Next, {pairs[2]}"' in page
