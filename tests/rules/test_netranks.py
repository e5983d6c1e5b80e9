"""The NCCL lines of every rank of a pair against the network matrix: what differs is named with rank and line."""

import pytest

from fleet.readings.nccl_log.wiring import WiringReader
from fleet.rules import netscripts, netverdict
from fleet.rules.message import said
from fleet.rules.netranks import judge_ranks
from fleet.rules.netscripts import Wiring, environment_of
from fleet.rules.netverdict import Golden
from fleet.rules.netwiring import wired_from
from tests.network import GOLD_GBS, HCAS, curve_text, marked

NAMES = ("h100-001", "h100-002")
WIRING = Wiring(tuple(HCAS), "bond0", 9000, 3, 106)
BOTH = (WIRING, WIRING)

# what rank 11 says otherwise, the verdict, and the words that name it and its line
ODD = {
    "NET/Socket": (("NET/IB/0/GDRDMA", "NET/Socket/0"), "via NET/Socket/0"),
    "one HCA missing": ((" [1]mlx5_1:1/RoCE", ""), "NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB bond0"),
    "another HCA": (("mlx5_1:1", "mlx5_7:1"), "mlx5_0, mlx5_7 instead of cards mlx5_0, mlx5_1"),
    "wrong interface": (("Bootstrap: Using bond0", "Bootstrap: Using docker0"), "Bootstrap: Using docker0"),
    "wrong interface behind RDMA": (("OOB bond0", "OOB eth1"), "eth1 instead of interface bond0"),
    "GDR off": (("/GDRDMA", ""), "via NET/IB/0"),
    "another GID": (("to 3.", "to 5."), "NCCL_IB_GID_INDEX set by environment to 5"),
}  # fmt: skip


@pytest.mark.parametrize(("change", "words"), ODD.values(), ids=ODD)
def test_what_one_rank_says_otherwise_fails_with_the_rank_and_the_line(change, words):
    text = curve_text(*NAMES, odd={11: change})
    ((verdict, why),) = judge_ranks(text, NAMES, BOTH)
    assert verdict == "fail"
    assert "rank 11 (h100-002, GPU 3): " in said(why)
    assert words in said(why)
    line = next(n for n, one in enumerate(text.splitlines(), 1) if "h100-002:111:311 [3]" in one)
    told = int(said(why).partition("line ")[2].partition(":")[0])
    assert line <= told < line + 8, "the number is that of the line itself"


@pytest.mark.parametrize(("change", "_words"), ODD.values(), ids=ODD)
def test_one_such_rank_fails_the_whole_collective_however_fast_it_is(change, _words):
    text = marked("loop", "1", "run", 0, curve_text(*NAMES, odd={11: change}))
    parts, gold = netscripts.split_parts(text), Golden("g01 + g02", GOLD_GBS)
    layer = netverdict.judge_collective(parts, NAMES, gold, wirings=BOTH)
    assert layer.verdict == "fail"
    assert any("rank 11 (h100-002, GPU 3)" in said(one.text) for one in layer.said)


def test_a_good_log_passes():
    ((verdict, why),) = judge_ranks(curve_text(*NAMES), NAMES, BOTH)
    assert (verdict, "All 16 ranks" in said(why)) == ("pass", True)


@pytest.mark.parametrize(
    "words",
    [("NET/IB : Using", "NET/IB : using no"), ("NCCL INFO", "INFO")],
)
def test_a_rank_that_does_not_say_it_is_not_proven(words):
    ((verdict, why),) = judge_ranks(curve_text(*NAMES, odd={4: words}), NAMES, BOTH)
    assert (verdict, "rank 4 (h100-001, GPU 4)" in said(why)) == ("unknown", True)
    assert "not proven" in said(why)


def test_no_line_at_all_proves_nothing_of_any_rank():
    ((verdict, why),) = judge_ranks(curve_text(*NAMES, via=""), NAMES, BOTH)
    assert (verdict, "16 ranks" in said(why)) == ("unknown", True)


def test_the_matrix_is_read_back_from_the_environment_that_it_filled():
    wired = wired_from(environment_of(WIRING))
    assert (wired.hcas, wired.interface, wired.gid_index) == ({"mlx5_0", "mlx5_1"}, "bond0", "3")


def test_the_reader_stays_small_and_takes_no_line_without_a_seat():
    reader = WiringReader()
    reader.feed((n, f"h{n}:1:1 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB") for n in range(6000))
    reader.feed([(1, "NET/IB : Using [0]mlx5_0:1/IB"), (2, "x NCCL INFO Bootstrap: Using y:1")])
    assert len(reader.cards) == 4096
