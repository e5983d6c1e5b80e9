import uuid
from datetime import timedelta

import pytest
from django.utils import timezone

from fleet.execution.output import Section, sections_pack
from fleet.models import Fact, Gpu, NodeProbe, ProbeRun
from fleet.rules.hostkeys import fingerprint
from fleet.services.hosts import host_key_accept
from fleet.views.node_facts import FACT_WORDS, value_text
from fleet.views.topology import matrix
from tests.factories import (
    host_key,
    make_actor,
    make_command,
    make_hold,
    make_node,
    make_person,
    make_pool,
    make_replica,
)
from tests.golden_profiles import make_facts, make_golden
from tests.rules.test_probe import judge, sections

pytestmark = pytest.mark.django_db


@pytest.fixture
def node():
    return make_node("h100-001")


def fact(node, key: str, value=None, *, age_s: float = 5, ttl_s: float = 60, **fields) -> Fact:
    at = timezone.now() - timedelta(seconds=age_s)
    return Fact.objects.create(
        node=node,
        key=key,
        value=value,
        observed_at=at,
        expires_at=at + timedelta(seconds=ttl_s),
        **fields,
    )


def test_a_missing_reading_is_a_dash_and_never_zero(ana, node):
    Gpu.objects.create(
        node=node, index=3, health="failed", explanation="lost", observed_at=timezone.now()
    )
    page = ana.get("/nodes/h100-001/").content.decode()
    assert "no reading since" in page
    assert page.count('<td class="num">–</td>') >= 3


def test_an_expired_fact_is_unknown_with_what_it_was(ana, node):
    fact(node, "driver_version", "570.1", age_s=900, ttl_s=60)
    page = ana.get("/nodes/h100-001/").content.decode()
    assert "unknown now, was 570.1" in page


def test_a_fact_without_a_value_says_why(ana, node):
    fact(node, "docker_version", problem="docker version: the command was not found on the node.")
    assert "the command was not found" in ana.get("/nodes/h100-001/").content.decode()


def test_a_fact_leads_to_its_raw_output_and_hostile_bytes_do_nothing(ana, node):
    command = make_command(
        node.host,
        state="succeeded",
        payload={"sections": [{"name": "gpu-list", "argv": ["nvidia-smi", "-L"]}]},
    )
    body = b"GPU 0\x1b[31m red\x1b]52;c;eA==\x07 <b>bold</b> \xe2\x80\xae\xff"
    sections_pack(command.pk, [Section("gpu-list", rc=0, ms=4, body=body)]).save()
    fact(node, "gpu_count", 8, source=command, section="gpu-list")
    address = f"/nodes/h100-001/probes/{command.pk}/raw/gpu-list/"
    assert address in ana.get("/nodes/h100-001/").content.decode()
    page = ana.get(address).content.decode()
    assert "GPU 0 red &lt;b&gt;bold&lt;/b&gt;" in page
    assert "\x1b" not in page
    assert "\u202e" not in page
    saved = ana.get(f"{address}?download=1")
    assert saved.content == body
    assert saved["Content-Type"].startswith("text/plain")
    assert "attachment" in saved["Content-Disposition"]


def test_the_nodes_before_and_after_it_by_name_are_links(ana, node):
    make_node("h100-002")
    first, last = (ana.get(f"/nodes/h100-00{n}/").content.decode() for n in (1, 2))
    assert 'rel="prev"' not in first
    assert 'rel="next" href="/nodes/h100-002/"' in first
    assert 'rel="prev" href="/nodes/h100-001/"' in last
    assert 'rel="next"' not in last


def test_output_of_another_node_is_not_found_here(ana, node):
    other = make_command(make_node("h100-002").host, "probe:2/h100-002", state="succeeded")
    sections_pack(other.pk, [Section("gpu-list", body=b"x")]).save()
    assert ana.get(f"/nodes/h100-001/probes/{other.pk}/raw/gpu-list/").status_code == 404


def test_a_hold_of_somebody_else_is_offered_as_an_override(ana, node):
    make_hold(node, owner="user:bo", reason="fans")
    page = ana.get("/nodes/h100-001/").content.decode()
    assert "Lift as an override…" in page
    assert 'name="override" value="1"' in page


def test_a_viewer_sees_the_disabled_control_and_its_reason(signed_in, node):
    page = signed_in("chen").get("/nodes/h100-001/").content.decode()
    assert page.count("Needs role operator") == 2
    assert 'id="hold-reason"' not in page


def test_a_changed_key_shows_both_fingerprints_and_asks_an_admin(signed_in):
    make_node("h100-009", host={"key_state": "changed", "offered_key": host_key(9)})
    page = signed_in("dana").get("/nodes/h100-009/").content.decode()
    assert page.count("SHA256:") >= 4
    assert "I compared both; ask for the new key" in page
    assert "Needs role admin" in signed_in("ana").get("/nodes/h100-009/").content.decode()


@pytest.mark.parametrize(("role", "may"), [("approver", True), ("operator", False)])
def test_a_role_for_the_nodes_pool_offers_what_it_allows(signed_in, role, may):
    node = make_node("h100-009", host={"key_state": "changed", "offered_key": host_key(9)})
    pool = make_pool()
    make_replica(pool=pool, nodes=[node])
    host_key_accept(
        node=node,
        fingerprint=fingerprint(host_key(9)),
        old_fingerprint=fingerprint(node.host.host_key),
        reason="new board",
        actor=make_actor("dana"),
        user=make_person("dana"),
    )
    make_person("eve", role=role, pool=pool)
    page = signed_in("eve").get("/nodes/h100-009/").content.decode()
    assert ('value="sign">' in page) is may
    assert ("Withdraw the request…" in page) is may


def test_every_form_carries_key_version_and_token(ana, node):
    make_hold(node)
    page = ana.get("/nodes/h100-001/").content.decode()
    for action in ("/nodes/h100-001/holds/", "/probes/"):
        form = page.partition(f'action="{action}"')[2].partition("</form>")[0]
        assert "csrfmiddlewaretoken" in form
        assert "idempotency_key" in form
        assert ("base_version" in form) == (action != "/probes/")


def test_an_unknown_node_is_not_found_in_the_shell(ana):
    answer = ana.get("/nodes/nobody/")
    assert answer.status_code == 404
    assert "No node is called nobody." in answer.content.decode()


@pytest.mark.parametrize(
    ("mask", "shown", "tone"),
    [
        ("0x0000000000000001", "idle", "dim"),
        ("0x0000000000000044", "power cap, heat, hardware", "t-warn"),
        ("0x0", "none", "dim"),
        ("N/A", "N/A", "dim"),
    ],
)
def test_throttle_reasons_are_words_and_warm_only_when_they_hold_the_card_back(
    ana, node, mask, shown, tone
):
    Gpu.objects.create(node=node, index=0, health="ok", throttle_reasons=mask)
    page = ana.get("/nodes/h100-001/").content.decode()
    assert f'<td class="nowrap {tone}">{shown}</td>' in page


def test_a_probe_without_an_answer_can_be_cancelled_from_the_page(signed_in, ana, node):
    command = make_command(node.host, verb="probe", queue="probe", effect="probe")
    NodeProbe.objects.create(
        run=ProbeRun.objects.create(scope="h100-001"), node=node, command=command
    )
    address = f"/nodes/h100-001/probes/{command.pk}/cancel/"
    assert address in ana.get("/nodes/h100-001/").content.decode()
    assert address not in signed_in("chen").get("/nodes/h100-001/").content.decode()
    assert ana.post(address, {"idempotency_key": str(uuid.uuid4())}).status_code == 302
    command.refresh_from_db()
    assert command.state == "cancelled"


@pytest.mark.parametrize(
    ("key", "value", "unit", "word", "text"),
    [
        ("clock_offset", -8e-05, "s", "Clock offset", "−0.08 ms"),
        ("clock_offset", 2.5, "s", "Clock offset", "2.5 s"),
        ("clock_is_synchronised", True, "", "Clock synchronised", "yes"),
        ("models", [{"directory": "a"}], "", "Models on disk", "1 value"),
        ("memory_total", 2**40, "B", "Memory", "1,024.0 GiB"),
    ],
)
def test_a_fact_is_named_and_measured_in_words(ana, key, value, unit, word, text):
    node = make_node("h100-001")
    fact(node, key, value, unit=unit)
    (drawn,) = ana.get("/nodes/h100-001/").context["facts"]
    assert (str(drawn["word"]), drawn["text"]) == (word, text)


def test_every_fact_that_a_probe_writes_has_words():
    reading, _, _ = judge(sections())
    written = {fact.key for fact in reading.facts}
    assert len(written) > 50
    assert written <= set(FACT_WORDS)


def card(node, index: int, bus: str) -> Gpu:
    return Gpu.objects.create(
        node=node, index=index, bus=bus, health="ok", observed_at=timezone.now()
    )


def row_of(page: str, index: int) -> str:
    return page.partition(f'<tr id="gpu-{index}"')[2].partition("</tr>")[0]


def test_a_card_shows_its_own_part_of_a_fact(ana, node):
    card(node, 3, "00000000:4E:00.0")
    card(node, 4, "00000000:9A:00.0")
    fact(node, "remap_pending", {"3": "Yes", "4": "No"})
    fact(node, "remap_failure", "No")
    fact(node, "memory_temperature", {"3": 61, "4": 43})
    fact(node, "xids", [{"code": 95, "bus": "0000:4e:00"}, {"code": 63, "bus": "0000:4e:00"}])
    page = ana.get("/nodes/h100-001/").content.decode()
    head = '<td class="nowrap t-warn">pending</td><td class="nowrap t-crit" title="95: uncontained '
    assert head in row_of(page, 3)
    assert "63: row remap recorded" in row_of(page, 3)
    assert ">95, 63</td>" in row_of(page, 3)
    assert '<td class="nowrap dim">none</td><td class="nowrap dim">none</td>' in row_of(page, 4)
    assert '<td class="num">61</td>' in row_of(page, 3)


@pytest.mark.parametrize(("hours", "tone"), [(1, "t-warn"), (25, "dim")])
def test_the_fault_of_a_program_marks_its_card_for_a_day_only(ana, node, hours, tone):
    card(node, 3, "00000000:4E:00.0")
    at = (timezone.now() - timedelta(hours=hours)).isoformat()
    fact(node, "xids", [{"code": 13, "bus": "0000:4e:00", "last_at": at}])
    page = ana.get("/nodes/h100-001/").content.decode()
    assert f'<td class="nowrap {tone}" title="13: graphics engine exception' in row_of(page, 3)


@pytest.mark.parametrize("age_s", [5, 900])
def test_a_card_whose_facts_nobody_has_read_lately_shows_dashes(ana, node, age_s):
    card(node, 3, "00000000:4E:00.0")
    if age_s > 60:
        for key, value in (("remap_pending", "No"), ("remap_failure", "No"), ("xids", [])):
            fact(node, key, value, age_s=age_s, ttl_s=60)
    page = ana.get("/nodes/h100-001/").content.decode()
    assert row_of(page, 3).count('<td class="nowrap dim">–</td>') >= 3


def port(**changed: object) -> dict[str, object]:
    return {
        "device": "mlx5_3", "port": 1, "state": "Active", "physical": "LinkUp", "rate_gbps": 400.0,
        "netdev": "rail3np0", "mtu": 9000, "active_mtu": 4096, "firmware": "28.43.2026",
    } | changed  # fmt: skip


def test_the_ports_show_what_they_are_and_what_they_lost(ana, node):
    fact(node, "rdma_ports", [port(), port(device="mlx5_4", state="Down", physical="Polling")])
    fact(
        node,
        "gids",
        [{"device": "mlx5_3", "port": 1, "index": 3, "version": "v2", "ip": "10.41.3.1"}],
    )
    fact(node, "rdma_counters", {"mlx5_3": {"out_of_sequence": 7, "port_rcv_data": 99}})
    page = ana.get("/nodes/h100-001/").content.decode()
    table = page.partition('id="ports"')[2].partition("</section>")[0]
    good, bad = table.partition("<tbody>")[2].split("</tr>")[:2]
    for cell in ("400", "9,000", "4,096", "10.41.3.1", "28.43.2026", '<td class="num">7</td>'):
        assert cell in good
    assert "Down, Polling" in bad
    assert 'class="bad"' in bad
    assert bad.count("–") >= 3  # no GID, no address, no counter: unknown, not zero


def test_ports_that_were_read_long_ago_are_not_drawn_as_facts_of_now(ana, node):
    fact(node, "rdma_ports", [port()], age_s=900, ttl_s=60)
    assert 'id="ports"' not in ana.get("/nodes/h100-001/").content.decode()


def test_a_drawing_that_could_not_be_read_is_a_row_with_its_reason(ana, node):
    fact(node, "rdma_ports", problem="ibstat: the command was not found on the node.")
    assert "ibstat: the command was not found" in ana.get("/nodes/h100-001/").content.decode()


def test_facts_stand_in_groups_and_an_unknown_key_stands_last(ana, node):
    for key in ("vbios", "os", "xids", "brand_new"):
        fact(node, key, "x" if key != "xids" else [])
    groups = ana.get("/nodes/h100-001/").context["fact_groups"]
    assert [(str(g["name"]), [r["fact"].key for r in g["rows"]]) for g in groups] == [
        ("System", ["os"]), ("Cards", ["vbios"]), ("Kernel log", ["xids"]), ("Other", ["brand_new"]),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("key", "value", "unit", "text"),
    [
        ("vbios", {"0": "A", "1": "A", "2": "B"}, "", "A; GPU 2: B"),
        ("memory_temperature", {"0": 42, "1": 47}, "°C", "42–47 °C"),
        ("link_mtu", {"rail0np0": 9000, "rail1np0": 9000, "bond0": None}, "", "9000 × 2, – × 1"),
        ("xids", [{"code": 79, "bus": "0000:4e:00"}], "", "79 0000:4e:00"),
        ("xids", [], "", "none"),
        ("memlock_kb", 8192, "", "8,192 KiB"),
        ("links_down", ["eno2", "rail3np0"], "", "eno2, rail3np0"),
        ("block_devices", [{"kind": "disk", "size_bytes": 3840755982336}] * 4, "", "4 × 3.8 TB"),
    ],
)
def test_a_fact_of_many_parts_is_said_in_a_few_words(key, value, unit, text):
    assert value_text(key, value, unit) == text


def test_a_fact_that_tells_of_trouble_is_warm_and_no_other(ana, node):
    fact(node, "remap_pending", "Yes")
    fact(node, "remap_failure", "No")
    rows = {row["fact"].key: row for row in ana.get("/nodes/h100-001/").context["facts"]}
    assert (rows["remap_pending"]["is_bad"], rows["remap_failure"]["is_bad"]) == (True, False)


def test_a_cell_that_differs_from_gold_says_what_gold_has():
    rows = [{"name": f"GPU{n}", "links": ["X", "NV17", "PIX"]} for n in range(2)]
    value = {"columns": ["GPU0", "GPU1", "NIC0"], "rows": rows, "nics": {"NIC0": "mlx5_0"}}
    drawn = matrix(value, {("nvlink_matrix", "0.1"): "NV18", ("nic_matrix", "1.0"): "NODE"})
    assert drawn["rows"][0]["gpus"][1] == {"text": "NV17", "look": "nv off", "gold": "NV18"}
    assert drawn["rows"][1]["nics"][0] == {"text": "PIX", "look": "pix off", "gold": "NODE"}
    assert drawn["rows"][1]["gpus"][1] == {"text": "NV17", "look": "nv"}
    assert matrix(value)["rows"][0]["gpus"][1]["look"] == "nv"


TOPO = {
    "columns": ["GPU0", "GPU1", "NIC0"],
    "nics": {"NIC0": "mlx5_0"},
    "rows": [
        {"name": "GPU0", "links": ["X", "NV18", "PIX"], "cpus": "0-51", "numa": 0},
        {"name": "GPU1", "links": ["NV18", "X", "NODE"], "cpus": "52-103", "numa": 1},
    ],
}


def test_a_node_without_a_profile_is_not_called_equal(ana, node):
    make_facts(node, driver_version="570")
    page = ana.get("/nodes/h100-001/").content.decode()
    assert "nothing was compared" in page
    assert "/golden/?node=h100-001#take" in page
    assert "all equal" not in page


def test_differing_facts_come_first_with_both_values_and_equal_ones_are_folded(ana, node):
    make_golden({"driver_version": ("570", "equal"), "gpu_count": (8, "equal")})
    make_facts(node, driver_version="565", gpu_count=8)
    card = ana.get("/nodes/h100-001/").content.decode().partition('id="gold"')[2]
    card = card.partition("</section>")[0]
    assert "1 of 2 checks differ" in card
    assert card.index("565") < card.index("<details")
    assert card.index("<details") < card.index("1 check equal")


def test_cells_of_the_topology_that_are_not_as_gold_are_marked(ana, node):
    gold = {
        "nvlink_matrix": {"devices": ["GPU0", "GPU1"], "cells": [["X", "NV18"], ["NV18", "X"]]},
        "gpu_numa": [0, 1],
    }
    make_golden({key: (value, "equal") for key, value in gold.items()})
    rows = [
        TOPO["rows"][0],
        {"name": "GPU1", "links": ["SYS", "X", "NODE"], "cpus": "52-103", "numa": 0},
    ]
    found = {"devices": ["GPU0", "GPU1"], "cells": [["X", "NV18"], ["SYS", "X"]]}
    make_facts(node, topo={**TOPO, "rows": rows}, nvlink_matrix=found, gpu_numa=[0, 0])
    page = ana.get("/nodes/h100-001/").content.decode()
    assert "1 cell not as gold" in page
    assert page.count('<td class="sys off" title="golden NV18">SYS') == 1
    assert page.count('<td class="off" title="golden 1">0</td>') == 1
    make_facts(node, topo=TOPO, **gold)
    page = ana.get("/nodes/h100-001/").content.decode()
    assert "not as gold" not in page
    assert "2 checks, all equal" in page
