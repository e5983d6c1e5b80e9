"""Facts of firmware, links, ports, disks and the kernel log, from good, half, foreign and mixed answers."""

import pytest

from fleet.rules.gather import PROBE_DEADLINE_S, bundles_of, plan_probe
from fleet.rules.message import said
from fleet.rules.probe_cards import read_cards
from fleet.rules.probe_host import fold_cpus
from fleet.rules.probe_reading import read_probe
from fleet.rules.probe_verdict import judge_probe
from tests import probe_texts as texts
from tests.rules.test_probe import COMMANDS, Section, judge, sections, topo

LOST = "Unable to determine the device handle for GPU3: 0000:3E:00.0: Unknown Error\n"
XID = (
    "2026-11-29T18:38:30,000000+00:00 NVRM: Xid (PCI:0000:4e:00): 94, pid=48231, name=VLLM::Worker, "
    "Ch 00000008, Contained memory error\n"
)


def facts(**changed: str) -> dict[str, object]:
    reading, _, _ = judge(sections(**{k: Section(v.encode()) for k, v in changed.items()}))
    return {fact.key: fact.value for fact in reading.facts}


def problem(key: str, **changed: str) -> str:
    reading, _, _ = judge(sections(**{k: Section(v.encode()) for k, v in changed.items()}))
    fact = next(fact for fact in reading.facts if fact.key == key)
    assert fact.value is None
    return said(fact.problem)


def test_one_value_stands_for_cards_that_agree():
    found = facts()
    assert found["vbios"] == "96.00.89.00.01"
    assert (found["power_limit_w"], found["remap_pending"], found["gsp_firmware"]) == (
        700, "No", "570.172.08")  # fmt: skip
    assert (found["cuda_version"], found["ecc_mode"], found["mig_mode"]) == (
        "12.8", "Enabled", "Disabled")  # fmt: skip


def test_cards_that_differ_are_told_one_by_one():
    found = facts(gpu_report=texts.report(VBIOS_Version="96.00.74.00.0D"))
    assert found["vbios"] == {
        str(n): "96.00.74.00.0D" if n == 3 else "96.00.89.00.01" for n in range(8)
    }
    assert found["inforom"] == "G520.0200.00.05"


def test_not_on_this_class_is_an_answer_and_not_printed_is_none():
    assert facts()["retired_pages"] == "N/A"
    old = texts.report().replace("GSP Firmware Version ", "Other Firmware ")
    assert "GSP Firmware Version" in problem("gsp_firmware", gpu_report=old)
    assert facts(gpu_report=old)["vbios"] == "96.00.89.00.01"


def test_a_card_that_waits_for_its_reset_makes_the_value_unknown():
    why = problem("remap_pending", gpu_report=texts.report(Pending="[GPU requires reset]"))
    assert "GPU 3" in why


def test_seven_cards_of_eight_are_not_all_cards():
    assert "7 of 8" in problem("vbios", gpu_report=texts.report(7, attached=8))


def test_two_reports_in_one_text_are_none():
    assert "twice" in problem("vbios", gpu_report=texts.report() + texts.report())


def test_the_matrix_is_told_in_parts_with_the_names_of_the_nics():
    found = facts()
    assert found["nvlink_matrix"]["devices"] == [f"GPU{n}" for n in range(8)]
    assert found["nvlink_matrix"]["cells"][3][:5] == ["NV18", "NV18", "NV18", "X", "NV18"]
    assert found["nic_matrix"]["nics"][5] == "mlx5_5"
    assert found["nic_matrix"]["cells"][5][4:7] == ["SYS", "PIX", "SYS"]
    assert found["gpu_numa"] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert found["gpu_cpus"][0] == "0-47"


def test_a_sentence_in_place_of_the_matrix_is_said_by_each_of_its_facts():
    for key in ("topo", "nvlink_matrix", "nic_matrix", "gpu_numa"):
        assert "Unable to determine" in problem(key, topo=LOST)


def test_a_port_is_joined_from_four_tools():
    port = facts()["rdma_ports"][3]
    assert port == {
        "device": "mlx5_3", "port": 1, "state": "Active", "physical": "LinkUp", "rate_gbps": 400.0,
        "link_layer": "Ethernet", "netdev": "rail3np0", "mtu": 9000, "active_mtu": 4096,
        "firmware": "28.43.2026",
    }  # fmt: skip
    assert facts()["link_mtu"] == {f"rail{n}np0": 9000 for n in range(8)}


@pytest.mark.parametrize(
    ("section", "field"),
    [("rdma-netdevs", "netdev"), ("links", "mtu"), ("rdma-mtu", "active_mtu")],
)
def test_what_one_of_the_four_did_not_say_is_null_and_the_probe_unknown(section, field):
    seen = sections() | {section: Section(b"sh: not found\n", rc=127)}
    reading, _, verdict = judge(seen)
    ports = next(fact.value for fact in reading.facts if fact.key == "rdma_ports")
    assert {port[field] for port in ports} == {None}
    assert {port["rate_gbps"] for port in ports} == {400.0}
    assert verdict.verdict == "unknown"


def test_ports_are_in_their_order_and_not_in_that_of_their_names():
    netdevs = "".join(f"mlx5_{n} port 1 ==> rail{n}np0 (Up)\n" for n in range(12))
    found = facts(rdma_ports=texts.ibstat(12), rdma_netdevs=netdevs, rdma_mtu=texts.devinfo(12))
    assert [port["device"] for port in found["rdma_ports"]][-2:] == ["mlx5_10", "mlx5_11"]


@pytest.mark.parametrize("section", ["rdma-ports", "gids", "links", "rdma-netdevs", "rdma-mtu"])
def test_answers_of_two_nodes_in_one_text_are_none(section):
    body = sections()[section].body
    _, _, verdict = judge(sections() | {section: Section(body + body)})
    if (
        section != "rdma-netdevs"
    ):  # its lines name no node; the ports it is joined to are still one each
        assert verdict.verdict == "unknown"


@pytest.mark.parametrize("section", ["rdma-ports", "gids", "links", "disks", "numa", "rdma-mtu"])
@pytest.mark.parametrize("tenth", range(1, 10))
def test_a_cut_answer_invents_nothing(section, tenth):
    body = sections()[section].body
    cut = body[: len(body) * tenth // 10]
    _, _, verdict = judge(sections() | {section: Section(cut)})
    assert verdict.verdict == "unknown", cut[-80:]


def test_tools_that_name_different_ports_are_believed_neither():
    why = problem("rdma_ports", rdma_ports=texts.ibstat(7))
    assert "ibstat lists 7 ports, ibdev2netdev 8" in why
    assert "mlx5_7" in why


def test_interfaces_that_are_down_are_named():
    text = texts.links().replace('"ifname": "rail3np0", "flags": ["UP"], "mtu": 9000, "operstate": "UP"',
                                 '"ifname": "rail3np0", "flags": [], "mtu": 9000, "operstate": "DOWN"')  # fmt: skip
    assert facts(links=text)["links_down"] == ["rail3np0"]


def test_counters_are_totals_of_each_port_without_settings():
    found = facts()
    assert found["rdma_counters"]["mlx5_3"] == {"out_of_sequence": 0}
    assert found["ethtool_counters"]["rail3np0"] == {"rx_prio3_pause": 0}


def test_an_interface_without_statistics_is_null_beside_the_others():
    body = "# bond0\nno stats available\n# rail0np0\nNIC statistics:\n     rx_prio3_pause: 7\n"
    assert facts(ethtool=body)["ethtool_counters"] == {
        "bond0": None,
        "rail0np0": {"rx_prio3_pause": 7},
    }


def test_a_disk_stands_once_and_the_model_root_has_a_name():
    rows = {row["name"]: row for row in facts()["block_devices"]}
    assert sorted(rows) == ["md0", *(f"nvme{n}n1" for n in range(4))]
    assert (rows["md0"]["mount"], rows["md0"]["fstype"]) == ("MODEL_ROOT", "xfs")


def test_memory_nodes_have_their_processors_as_ranges():
    assert facts()["numa_nodes"][1] == {"index": 1, "cpus": "4-7", "size_gib": 1007}
    assert fold_cpus((0, 1, 2, 8, 10, 11)) == "0-2,8,10-11"


@pytest.mark.parametrize(("text", "value"), [("unlimited", "unlimited"), ("8388608", 8192)])
def test_the_limit_of_locked_memory_is_in_kib(text, value):
    row = f"Max locked memory         {text}            unlimited            bytes\n"
    assert facts(memlock=row)["memlock_kb"] == value


def test_a_quiet_kernel_log_is_empty_lists_and_says_since_when():
    found = facts()
    assert (found["xids"], found["oom_kills"], found["mlx5_errors"]) == ([], 0, [])
    assert found["kernel_log_from"] == "2026-11-20T02:11:04,000000+00:00"


def test_events_of_the_kernel_log_have_code_place_and_time():
    port = "2026-11-29T18:40:01,000000+00:00 mlx5_core 0000:4f:00.0: Port module event: module 0, Cable unplugged\n"
    found = facts(kernel_log=texts.KERNEL_LOG + XID + XID + port)
    (xid,) = found["xids"]
    assert (xid["code"], xid["bus"], xid["count"]) == (94, "0000:4e:00", 2)
    assert xid["at"] == "2026-11-29T18:38:30,000000+00:00"
    assert xid["text"].startswith("pid=48231")
    (event,) = found["mlx5_errors"]
    assert (event["bdf"], event["event"], event["count"]) == ("0000:4f:00.0", "Cable unplugged", 1)


@pytest.mark.parametrize(
    "text", ["", "dmesg: read kernel buffer failed: Operation not permitted\n", "hello\n"]
)
def test_a_log_that_may_not_be_read_is_not_a_quiet_one(text):
    assert problem("xids", kernel_log=text)


def test_a_service_that_is_not_active_is_an_answer():
    reading, _, verdict = judge(sections(fabric_manager=Section(b"inactive\n", rc=3)))
    assert {fact.key: fact.value for fact in reading.facts}["fabric_manager"] == "inactive"
    assert verdict.verdict == "pass"


@pytest.mark.parametrize(
    ("change", "word"),
    [({"Pending": "Yes"}, "waits"), ({"Remapping_Failure_Occurred": "Yes"}, "No spare row")],
)
def test_a_row_of_memory_that_went_bad_wants_attention(change, word):
    _, cards, verdict = judge(sections(gpu_report=Section(texts.report(**change).encode())))
    assert [card.health for card in cards] == [*["ok"] * 3, "attention", *["ok"] * 4]
    assert word in said(cards[3].explanation)
    assert verdict.verdict == "pass"


@pytest.mark.parametrize(
    ("told", "verdict"),
    [("h100-001", "pass"), ("H100-001.dc1.example", "pass"), ("h100-017", "unknown")],
)
def test_an_answer_of_another_machine_is_unknown(told, verdict):
    seen = sections(hostname=Section(f"{told}\n".encode()))
    reading = read_probe(seen, COMMANDS, "boot-1")
    found = judge_probe(reading, read_cards(reading, 8), COMMANDS, 8, "h100-001")
    assert found.verdict == verdict
    assert (said(found.findings[0].found) if found.findings else "") in (
        "", f"the machine calls itself {told}")  # fmt: skip


def test_a_driver_that_hangs_leaves_time_for_its_sentence():
    for tool in ("nvidia-smi", "docker"):
        hung = sum(
            ask.timeout_s for ask in plan_probe("/models") if ask.argv[0] in ("nvidia-smi", tool)
        )
        assert hung < PROBE_DEADLINE_S


def test_the_matrix_of_seven_cards_is_seven_wide():
    assert len(facts(topo=topo(7))["nvlink_matrix"]["cells"]) == 7


def bundle(**changed: tuple[int, bytes]) -> bytes:
    good = {name: (0, sections()[name].body) for name in bundles_of()["rdma"]}
    return texts.bundled(good | {name.replace("_", "-"): part for name, part in changed.items()})


def opened(body: bytes, rc: int = 0) -> tuple[dict[str, object], str]:
    seen = sections()
    for name in bundles_of()["rdma"]:
        del seen[name]
    reading = read_probe(seen | {"rdma": Section(body, rc=rc)}, COMMANDS)
    verdict = judge_probe(reading, read_cards(reading, 8), COMMANDS, 8)
    return {fact.key: fact for fact in reading.facts}, verdict.verdict


def test_a_bundle_is_read_like_its_answers_and_leads_to_its_own_output():
    found, verdict = opened(bundle())
    assert verdict == "pass"
    assert len(found["rdma_ports"].value) == 8
    assert {found[key].section for key in ("rdma_ports", "gids", "links_down")} == {"rdma"}


def test_a_missing_tool_of_a_bundle_is_said_and_the_others_are_read():
    found, verdict = opened(bundle(gids=(127, b"sh: 1: show_gids: not found")))
    assert verdict == "unknown"
    assert "show_gids: the command was not found" in said(found["gids"].problem)
    assert found["rdma_ports"].value


@pytest.mark.parametrize("tenth", range(10))
def test_a_bundle_that_was_cut_invents_nothing(tenth):
    body = bundle()
    found, verdict = opened(body[: len(body) * tenth // 10], rc=124)
    assert verdict == "unknown"
    assert "before its deadline" in said(found["ethtool_counters"].problem)


def test_an_answer_that_prints_the_marks_of_another_is_not_believed():
    forged = texts.bundled({"gids": (0, texts.gids(1).encode())})
    found, verdict = opened(bundle(rdma_ports=(0, b"x\n#< part 0\n" + forged)))
    assert verdict == "unknown"
    assert found["gids"].value is None


def test_a_bundle_that_the_node_did_not_answer_is_unknown_in_each_part():
    seen = sections()
    for name in bundles_of()["rdma"]:
        del seen[name]
    reading = read_probe(seen, COMMANDS)
    assert set(bundles_of()["rdma"]) <= set(reading.problems)
