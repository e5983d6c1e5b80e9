"""The four layers of one pair: what fails, what proves nothing, and that unknown is never a pass."""

import pytest

from fleet.readings.host.counters import parse_port_counters
from fleet.rules import netrun, netscripts, netverdict
from fleet.rules.message import said
from fleet.rules.netscripts import Wiring
from fleet.rules.netverdict import Golden
from tests.network import (
    GOLD_GBITS,
    GOLD_GBS,
    HCAS,
    counters_text,
    curve_text,
    marked,
    rails_text,
)

WIRING = Wiring(tuple(HCAS), "bond0", 9000, 3, 106)
NAMES = ("h100-001", "h100-002")
RAILS = {card: {"one": GOLD_GBITS, "two": 2 * GOLD_GBITS} for card in HCAS}
GOLD = Golden("g01 + g02", GOLD_GBS, RAILS)


def words(layer: netverdict.Layer) -> str:
    return " | ".join(f"{one.verdict}: {said(one.text)}" for one in layer.said)


def collective(text: str, rc: int = 0, golden: Golden = GOLD) -> netverdict.Layer:
    parts = netscripts.split_parts(marked("loop", "1", "run", rc, text))
    return netverdict.judge_collective(parts, NAMES, golden)


def test_every_rail_is_beside_the_golden_pairs_same_rail():
    layer = netverdict.judge_rails(netscripts.split_parts(rails_text()), WIRING, GOLD)
    assert layer.verdict == "pass", words(layer)
    slow = netverdict.judge_rails(netscripts.split_parts(rails_text(201.0)), WIRING, GOLD)
    assert slow.verdict == "fail"
    assert "51.3 % of the golden pair g01 + g02" in words(slow)


def test_a_rail_that_was_not_measured_or_has_no_gold_is_unknown():
    parts = netscripts.split_parts(rails_text(hcas=HCAS[:1]))
    assert netverdict.judge_rails(parts, WIRING, GOLD).verdict == "unknown"
    whole = netscripts.split_parts(rails_text())
    assert netverdict.judge_rails(whole, WIRING, Golden()).verdict == "unknown"
    assert netverdict.judge_rails([], WIRING, GOLD).verdict == "unknown"


def test_an_output_that_was_cut_is_never_a_pass():
    text = rails_text()
    for tenth in range(10):
        parts = netscripts.split_parts(text[: len(text) * tenth // 10])
        assert netverdict.judge_rails(parts, WIRING, GOLD).verdict == "unknown"
    text = marked("loop", "1", "run", 0, curve_text(*NAMES))
    for tenth in range(10):
        parts = netscripts.split_parts(text[: len(text) * tenth // 10])
        assert netverdict.judge_collective(parts, NAMES, GOLD).verdict == "unknown"


def test_a_collective_passes_by_its_speed_and_the_lines_of_its_transport():
    layer = collective(curve_text(*NAMES))
    assert layer.verdict == "pass", words(layer)
    assert layer.values["transports"] == {"NET/IB/0/GDRDMA": 16}


@pytest.mark.parametrize(
    ("text", "verdict", "why"),
    [
        (curve_text(*NAMES, via="NET/Socket/0"), "fail", "over sockets"),
        (curve_text(*NAMES, via=""), "unknown", "not proven"),
        (curve_text(*NAMES, via="NET/IB/0"), "fail", "without GPU direct"),
        (curve_text("h100-008", "h100-009"), "unknown", "not of h100-001"),
        (curve_text(*NAMES, 0.94 * GOLD_GBS), "fail", "94.0 % of the golden pair"),
        ("", "unknown", "nccl-tests"),
    ],
)
def test_what_does_not_prove_a_collective(text, verdict, why):
    layer = collective(text)
    assert layer.verdict == verdict, words(layer)
    assert why in words(layer)


def test_the_same_number_is_good_or_bad_only_beside_its_gold():
    text = curve_text(*NAMES, 341.0)
    verdicts = [collective(text, golden=Golden("g", gold)).verdict for gold in (341.0, 388.0, None)]
    assert verdicts == ["pass", "fail", "unknown"]


def test_a_hang_fails_the_collective():
    assert "hung" in words(collective("", rc=124))


def test_retransmits_are_judged_only_from_counters_before_and_after():
    before, after = parse_port_counters(counters_text()), parse_port_counters(counters_text(7))
    reset = parse_port_counters(counters_text())
    assert netverdict.judge_retransmits("n", before, before).verdict == "pass"
    assert netverdict.judge_retransmits("n", before, after).verdict == "fail"
    assert netverdict.judge_retransmits("n", after, reset).verdict == "unknown"
    for one in ((None, after), (before, None)):
        judged = netverdict.judge_retransmits("n", *one)
        assert (judged.verdict, "cannot be judged" in said(judged.text)) == ("unknown", True)


def test_one_failed_layer_fails_the_pair_and_a_missing_one_leaves_it_unknown():
    good = {name: {"verdict": "pass"} for name in netverdict.LAYERS}
    assert netverdict.verdict_of_layers(good, netverdict.LAYERS) == "pass"
    assert netverdict.verdict_of_layers({**good, "rails": {"verdict": "fail"}}, good) == "fail"
    del good["reach"]
    assert netverdict.verdict_of_layers(good, netverdict.LAYERS) == "unknown"
    assert netverdict.verdict_of_layers({}, ()) == "unknown"


def test_the_environment_is_what_the_matrix_says():
    assert netscripts.environment_of(WIRING)["NCCL_IB_HCA"] == "=mlx5_0,mlx5_1"
    bare = netscripts.environment_of(Wiring(("mlx5_0",), "ib0", 2044))
    assert set(bare) == {"NCCL_IB_HCA", "NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"}


def test_the_steps_of_a_pair_end():
    for kind in (netrun.FIRST, netrun.REPAIR, netrun.RUNG, netrun.TOGETHER):
        for count in range(1, 5):
            wanted = netverdict.LAYERS[:count]
            step, seen = netrun.WAITING, []
            while step != netrun.DONE:
                step = netrun.step_after(step, kind, wanted)
                seen.append(step)
            assert len(seen) == len(set(seen))
