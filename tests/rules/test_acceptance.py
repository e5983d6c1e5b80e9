from dataclasses import dataclass, replace

import pytest

from fleet.rules.acceptance import (
    ACCEPTED,
    MARGINAL,
    NOT_MEASURED,
    REJECTED,
    CardRead,
    Check,
    Gold,
    Measured,
    NodeSeen,
    Pins,
    Read,
    changed_since,
    conclude,
    identity_of,
    state_after,
)
from fleet.rules.acceptance_cards import is_busy
from fleet.rules.acceptance_checks import CHECKS, judge
from fleet.rules.lifecycles import NODE_MOVES, node_path
from fleet.rules.message import said

IMAGE = "registry.internal/vllm@sha256:" + "7" * 64
MATRIX = {"devices": ["GPU0", "GPU1"], "cells": [["X", "NV18"], ["NV18", "X"]]}
GIB = 1 << 30


@dataclass(frozen=True)
class Drift:
    key: str
    verdict: str = "fail"
    text: str = "gpu_numa 3: expected 0, found 1."


def port(device: str, state: str = "Active", rate: int = 400, **fields: object) -> dict:
    return {
        "device": device,
        "port": 1,
        "state": state,
        "physical": "LinkUp",
        "rate_gbps": rate,
    } | fields


PORTS = [port("mlx5_0"), port("mlx5_1"), port("mlx5_9", "Down", physical="Disabled")]
FACTS = {
    "vbios": "96.00.89.00.01",
    "driver_version": "570.172.08",
    "nvlink_matrix": MATRIX,
    "gpu_numa": [0, 0, 0, 0, 1, 1, 1, 1],
    "xids": [],
    "sxids": [],
    "remap_pending": False,
    "remap_failure": False,
    "rdma_ports": PORTS,
    "shm_total": 1007 * GIB,
    "memlock_kb": "unlimited",
    "model_disk_total": 14336 * GIB,
    "clock_offset": 0.00008,
    "clock_is_synchronised": True,
    "serving_images": {IMAGE: "present"},
}
GOLD = {
    "nvlink_matrix": Gold(MATRIX),
    "gpu_numa": Gold([0, 0, 0, 0, 1, 1, 1, 1]),
    "rdma_ports": Gold(PORTS),
    "model_disk_total": Gold(14336 * GIB, 0.9),
    "allreduce_busbw_gbs": Gold(474.0, 0.9),
    "disk_read_gbs": Gold(12.0, 0.9),
}


def card(index: int, **fields: object) -> CardRead:
    good = {
        "name": "NVIDIA H100 80GB HBM3",
        "health": "ok",
        "memory_total_mib": 81559.0,
        "memory_used_mib": 1.0,
        "ecc_uncorrected": 0.0,
        "throttle_reasons": "0x0000000000000001",
        "command": 7,
    }
    return CardRead(index=index, **{**good, **fields})


def cards(**third: object) -> list[CardRead]:
    """Eight good cards, the one at index 3 changed."""
    return [card(index, **(third if index == 3 else {})) for index in range(8)]


def node(facts: dict | None = None, **fields: object) -> NodeSeen:
    """A node that is as gold; facts of None are left out, Read stands for itself."""
    values = {**FACTS, **(facts or {})}
    reads = {
        key: value if isinstance(value, Read) else Read(value, command=7, section="sec")
        for key, value in values.items()
        if value is not None
    }
    good = {
        "expected_gpus": 8,
        "cards": cards(),
        "allreduce": Measured(470.0, evidence="evidence:1"),
        "disk_read": Measured(11.9, "fio"),
        "pins": [Pins("REL-1", IMAGE, "570.172.08", "96.00.89.00.01")],
        "differences": [],
        "gold": GOLD,
        "profile": "GP-0001",
    }
    return NodeSeen(facts=reads, **{**good, **fields})


def check_of(seen: NodeSeen, name: str) -> Check:
    found = {check.name: check for check in judge(seen).checks}
    return found[name]


def test_a_node_as_gold_is_accepted_by_every_check():
    verdict = judge(node())
    assert [check.name for check in verdict.checks] == list(CHECKS)
    assert {check.verdict for check in verdict.checks} == {"pass"}
    assert verdict.verdict == ACCEPTED
    assert "17" in said(verdict.summary)


FAILURES = [
    ("cards", node(cards=cards(health="failed", explanation="fell off the bus")), "GPU 3: fell off the bus"),
    ("cards", node(cards=cards()[:7]), "7 cards"),
    ("cards", node(cards=cards(name="NVIDIA H200")), "several kinds"),
    ("cards", node(cards=cards(memory_total_mib=81000.0)), "81000 MiB"),
    ("cards", node({"vbios": {"0": "96.01", "3": "96.02"}}), "GPU 3: 96.02"),
    ("nvlink", node(differences=[Drift("nvlink_matrix", text="nvlink_matrix 0.1: expected NV18")]), "NV18"),
    ("paths", node(differences=[Drift("gpu_numa")]), "expected 0, found 1"),
    ("xid", node({"xids": [{"code": 79, "bus": "4e:00", "text": "x", "at": "t"}]}), "Xid 79"),
    ("xid", node({"xids": [{"code": 62}, {"code": 13}]}), "Xid 62"),
    ("xid", node({"xids": [{"code": 48}]}), "Xid 48"),  # it follows something that nobody saw
    ("xid", node({"xids": [{"code": 48}, {"code": 13}]}), "Xid 48"),  # a program breaks no memory
    ("xid", node({"sxids": [{"code": 12028}]}), "SXid 12028"),
    ("ecc", node(cards=cards(ecc_uncorrected=2.0)), "uncorrected ECC on GPU 3 (2)"),
    ("remap", node({"remap_pending": True}), "pending"),
    ("remap", node({"remap_pending": {"3": "Yes"}}), "pending on GPU 3"),
    ("remap", node({"remap_failure": [False, True]}), "failed on GPU 1"),
    ("throttle", node(cards=cards(throttle_reasons="0x0000000000000048")), "GPU 3: hw_slowdown"),
    ("throttle", node(cards=cards(throttle_reasons="0x0000000000000020")), "sw_thermal"),
    ("nics", node({"rdma_ports": [port("mlx5_0"), port("mlx5_1", "Down")]}), "mlx5_1 is Down"),
    ("nics", node({"rdma_ports": [port("mlx5_0"), port("mlx5_1", physical="Polling")]}), "mlx5_1"),
    ("nics", node({"rdma_ports": [port("mlx5_0"), port("mlx5_1", rate=200)]}), "at 200 Gb/s, gold 400"),
    ("nics", node({"rdma_ports": [port("mlx5_0")]}), "mlx5_1 is gone"),
    ("nics", node({"rdma_ports": [port("mlx5_0", "Down", physical="Polling")]}, gold=None), "mlx5_0 not active"),
    ("allreduce", node(allreduce=Measured(380.0)), "380 GB/s, 0.802 of gold"),
    ("allreduce", node(allreduce=Measured(None, problem="the test broke off", is_bad=True)), "broke off"),
    ("shm", node({"shm_total": 63 * GIB}), "63.0 GiB"),
    ("memlock", node({"memlock_kb": 8192}), "8192 KiB"),
    ("disk_space", node({"model_disk_total": 7168 * GIB}), "7,168 GiB"),
    ("disk_read", node(disk_read=Measured(6.0, "dd")), "(dd)"),
    ("clock", node({"clock_offset": -0.42}), "-420 ms"),
    ("clock", node({"clock_is_synchronised": False}), "not synchronised"),
    ("image", node({"serving_images": {IMAGE: "absent"}}), "vllm@777777777777 is not on the node"),
    ("platform", node({"driver_version": "550.54.15"}), "550.54.15"),
    ("platform", node({"vbios": "96.00.99.00.01"}), "96.00.99.00.01"),
]  # fmt: skip


def test_the_name_of_an_xid_reads_in_the_readers_language():
    found = check_of(node({"xids": [{"code": 79}]}), "xid").found
    assert said(found) == "Xid 79 (GPU fell off the bus)"
    words = {"GPU fell off the bus": "GPU 掉卡"}
    assert said(found, lambda text: words.get(text, text)) == "Xid 79 (GPU 掉卡)"


@pytest.mark.parametrize(("name", "seen", "words"), FAILURES)
def test_it_rejects_and_says_what_was_found_and_what_next(name, seen, words):
    check = check_of(seen, name)
    assert check.verdict == "fail"
    assert words in said(check.found)
    assert said(check.expected)
    assert said(check.next)
    assert judge(seen).verdict == REJECTED


UNKNOWNS = [
    ("cards", node(cards=[])),
    ("cards", node(cards=cards(memory_total_mib=None))),
    ("cards", node({"vbios": None})),
    ("nvlink", node(gold=None, differences=None)),
    ("nvlink", node(gold={})),
    ("nvlink", node(differences=[Drift("nvlink_matrix", "unknown")])),
    ("paths", node(gold={"nvlink_matrix": Gold(MATRIX)})),
    ("xid", node({"xids": None})),
    ("xid", node({"sxids": Read(None, problem="dmesg: not found")})),
    ("xid", node({"xids": [{"text": "torn"}]})),
    ("ecc", node(cards=cards(ecc_uncorrected=None))),
    ("remap", node({"remap_pending": None})),
    ("remap", node({"remap_failure": "perhaps"})),
    ("throttle", node(cards=cards(throttle_reasons="[N/A]"))),
    ("throttle", node(cards=cards(throttle_reasons=""))),
    ("nics", node({"rdma_ports": None})),
    ("nics", node({"rdma_ports": "torn"})),
    ("nics", node({"rdma_ports": [port("mlx5_0")]}, gold=None)),
    ("nics", node(gold={**GOLD, "rdma_ports": Gold([])})),
    ("allreduce", node(allreduce=Measured(None, problem="its cards are busy"))),
    ("allreduce", node(gold=None, differences=None)),
    ("shm", node({"shm_total": Read(1007 * GIB, is_expired=True)})),
    ("shm", node({"shm_total": "many"})),
    ("memlock", node({"memlock_kb": None})),
    ("disk_space", node({"model_disk_total": None})),
    ("disk_space", node(gold={})),
    ("disk_read", node(disk_read=Measured(None, problem="no file to read"))),
    ("clock", node({"clock_offset": None})),
    ("clock", node({"clock_is_synchronised": None})),
    ("image", node({"serving_images": None})),
    ("image", node({"serving_images": {IMAGE: "unread"}})),
    ("image", node(pins=[])),
    ("platform", node({"vbios": None})),
    ("platform", node(pins=[])),
    ("gold", node(differences=None)),
    ("gold", node(differences=[Drift("kernel", "unknown")])),
]


@pytest.mark.parametrize(("name", "seen"), UNKNOWNS)
def test_what_was_not_read_is_unknown_and_never_accepts(name, seen):
    check = check_of(seen, name)
    assert check.verdict == "unknown"
    assert said(check.found)
    assert said(check.next)
    assert judge(seen).verdict == NOT_MEASURED


MARGINALS = [
    ("xid", node({"xids": [{"code": 9999}]})),  # nobody knows it: a person is asked
    ("allreduce", node(allreduce=Measured(0.87 * 474))),
    ("disk_read", node(disk_read=Measured(0.86 * 12, "fio"))),
    ("clock", node({"clock_offset": 0.004})),
    ("gold", node(differences=[Drift("kernel", text="kernel: expected 6.8, found 6.5")])),
]


@pytest.mark.parametrize(("name", "seen"), MARGINALS)
def test_a_little_off_is_marginal(name, seen):
    assert check_of(seen, name).verdict == "marginal"
    assert judge(seen).verdict == MARGINAL


FINE = [
    ("xid", node({"xids": [{"code": 13}, {"code": 45}]})),  # a program's end, and what follows it
    ("xid", node({"xids": [{"code": 31}]})),
    ("throttle", node(cards=cards(throttle_reasons="0x0000000000000004"))),  # at its power limit
    ("nics", node({"rdma_ports": [*PORTS[:2]]})),  # the port that gold has down may be gone
    ("allreduce", node(allreduce=Measured(0.9 * 474))),
    ("allreduce", node(allreduce=Measured(500.0))),
    ("shm", node({"shm_total": 64 * GIB})),
    ("remap", node({"remap_pending": [False] * 8, "remap_failure": {"0": "No"}})),
    ("gold", node(differences=[Drift("driver_version")])),  # the release's matrix judges it
]


@pytest.mark.parametrize(("name", "seen"), FINE)
def test_what_is_explained_passes(name, seen):
    assert check_of(seen, name).verdict == "pass"


def test_every_check_can_fail_or_be_marginal_and_be_unknown():
    judged = {name for name, *_ in FAILURES} | {name for name, *_ in MARGINALS}
    assert judged == set(CHECKS)
    assert {name for name, _ in UNKNOWNS} == set(CHECKS)


def test_the_matrix_of_topo_stands_in_where_the_profile_has_no_finer_key():
    gold = {
        "topo": Gold({}),
        **{key: GOLD[key] for key in GOLD if key not in {"nvlink_matrix", "gpu_numa"}},
    }
    seen = node(gold=gold, differences=[Drift("topo", text="topo 3.5: expected NV18, found SYS.")])
    assert check_of(seen, "nvlink").verdict == check_of(seen, "paths").verdict == "fail"
    assert (
        check_of(replace(seen, gold={**gold, "nvlink_matrix": Gold(MATRIX)}), "nvlink").verdict
        == "pass"
    )


def test_checks_name_the_raw_output_they_were_read_from():
    verdict = judge(node())
    evidence = {check.name: check.evidence for check in verdict.checks}
    assert evidence["shm"] == ("7/sec",)
    assert evidence["ecc"] == ("7/gpu-query",)
    assert evidence["allreduce"] == ("evidence:1",)
    assert verdict.checks[0].as_object()["evidence"] == ["7/gpu-query", "7/sec"]


def test_a_nodes_words_cannot_pass_for_a_sentence_of_ours():
    seen = node({"vbios": "x\x1f{}", "memlock_kb": "y\x1f{}"})
    assert "\x1f" not in said(check_of(seen, "cards").found)
    assert "\x1f" not in said(check_of(seen, "memlock").found)


def made(*verdicts: str) -> list[Check]:
    return [Check(f"c{n}", word, "e", f"found {n}") for n, word in enumerate(verdicts)]


@pytest.mark.parametrize(
    ("verdicts", "verdict", "summary"),
    [
        (("pass", "pass"), ACCEPTED, "All 2 checks passed."),
        (("pass", "marginal"), MARGINAL, "found 1"),
        (("marginal", "unknown"), NOT_MEASURED, "found 1"),
        (("unknown", "marginal", "fail"), REJECTED, "found 2"),
        (("fail", "fail", "fail"), REJECTED, "found 0; 2 more"),
        ((), NOT_MEASURED, "no check was made"),
    ],
)
def test_one_failure_rejects_and_one_unknown_leaves_it_unmeasured(verdicts, verdict, summary):
    found = conclude(made(*verdicts))
    assert (found.verdict, said(found.summary)) == (verdict, summary)


IDENTITY = {
    "boot_id": "b-1",
    "driver_version": "570.172.08",
    "vbios": "96.00",
    "nic_firmware": {"mlx5_0": "28.43"},
}


@pytest.mark.parametrize(
    ("now", "words"),
    [
        ({}, ""),  # nothing read now is no change
        (IDENTITY, ""),
        ({"boot_id": "b-2"}, "started again"),
        ({"driver_version": "575.1"}, "GPU driver changed since it was accepted: 570.172.08 then, 575.1 now."),
        ({"vbios": "96.01"}, "VBIOS"),
        ({"nic_firmware": {"mlx5_0": "28.44"}}, "28.43 then, 28.44 now"),
        ({"inforom": "G520"}, ""),  # it was not read when it was accepted
    ],
)  # fmt: skip
def test_a_reboot_a_driver_and_a_firmware_end_an_acceptance(now, words):
    found = said(changed_since(IDENTITY, now))
    assert words in found
    assert bool(found) == bool(words)


def test_the_identity_leaves_out_what_was_not_read():
    facts = {"boot_id": "b-1", "vbios": "", "driver_version": None,
             "rdma_ports": [{"device": "mlx5_0", "firmware": "28.43"}, {"device": "mlx5_1"}, "torn"]}  # fmt: skip
    assert identity_of(facts) == {"boot_id": "b-1", "nic_firmware": {"mlx5_0": "28.43"}}
    assert identity_of({}) == {}


@pytest.mark.parametrize("verdict", [ACCEPTED, MARGINAL, REJECTED, NOT_MEASURED])
@pytest.mark.parametrize("state", sorted(NODE_MOVES))
@pytest.mark.parametrize("is_own", [False, True])
def test_every_state_after_an_acceptance_has_a_way_in_the_table(state, verdict, is_own):
    after = state_after(state, verdict, is_own_quarantine=is_own)
    assert after == state or node_path(state, after) is not None
    if verdict == NOT_MEASURED:
        assert after == state
    if verdict == MARGINAL:
        assert after == state_after(state, ACCEPTED, is_own_quarantine=is_own), "its hold keeps it"
    if state == "quarantined" and not is_own:
        assert after == "quarantined", "a person's quarantine is a person's to end"
    if verdict == REJECTED and state != "retired":
        assert after == "quarantined"


def test_cards_with_work_on_them_are_busy():
    assert not is_busy(cards(memory_used_mib=560.0))
    assert is_busy(cards(memory_used_mib=72541.0))
    assert not is_busy(cards(memory_used_mib=None))
