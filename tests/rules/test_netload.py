"""Layer 4: the curve under load, the loop of all pairs, and what was beside them."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.rules import netload, netscripts
from fleet.rules.message import said
from fleet.rules.netload import Load
from fleet.rules.netverdict import Golden, Layer
from tests.network import curve_text, marked

NAMES = ("h100-001", "h100-002")


def words(layer: Layer) -> str:
    return " | ".join(f"{one.verdict}: {said(one.text)}" for one in layer.said)


def turns(*widths: float, rc: int = 0) -> list[netscripts.Part]:
    text = "".join(
        marked("loop", str(n), "run", rc, curve_text(*NAMES, width, via=""))
        for n, width in enumerate(widths, start=1)
    )
    return netscripts.split_parts(text)


def together(*widths: float, curve=None, at_once: int = 4, **fields) -> Layer:
    golden = fields.pop("golden", Golden())
    return netload.judge_together(turns(*widths), Load(at_once, curve or {}, **fields), golden)


@pytest.mark.parametrize(
    ("widths", "alone", "verdict"),
    [
        ([388.0] * 6, 388.0, "pass"),
        ([190.0] * 6, 388.0, "fail"),
        ([388.0] * 9 + [200.0], 388.0, "fail"),  # one outlier is the p99
        ([388.0] * 3, 388.0, "unknown"),  # too few turns
        ([388.0] * 6, None, "unknown"),
        ([], 388.0, "unknown"),
    ],
)
def test_the_load_of_all_pairs(widths, alone, verdict):
    layer = together(*widths, curve={1: alone} if alone else {})
    assert layer.verdict == verdict, words(layer)


def test_a_hang_fails_the_loop():
    layer = netload.judge_together(turns(388, 388, rc=137), Load(4, {1: 388.0}), Golden())
    assert (layer.verdict, words(layer).count("hung")) == ("fail", 2)


def test_one_pair_is_no_load():
    layer = together(*[388.0] * 6, at_once=1)
    assert (layer.verdict, "only this pair ran" in words(layer)) == ("unknown", True)


def test_the_curve_is_kept_and_each_point_is_beside_the_golden_pairs_same_point():
    curve = {1: 388.0, 2: 386.0}
    layer = together(*[360.0] * 6, curve=curve)
    assert layer.values["load"] == [[1, 388.0], [2, 386.0], [4, 360.0]]
    assert (layer.verdict, "golden" in words(layer)) == ("pass", False), "no gold, no verdict on it"
    gold = Golden("g01 + g02", load={1: 388.0, 2: 388.0, 4: 387.0, 8: 100.0})
    layer = together(*[360.0] * 6, curve=curve, golden=gold)
    assert layer.verdict == "fail"
    assert "fail: 4 pairs at once: 360.0 GB/s, 93.0 % of the golden pair g01 + g02" in words(layer)
    assert words(layer).count("golden pair") == 3, "a point that only gold has says nothing"
    assert together(*[386.0] * 6, curve=curve, golden=gold).verdict == "pass"


def test_a_bad_rung_and_pairs_of_other_runs_are_never_a_pass():
    bad = netload.judge_rung(turns(388, rc=124), Load(1))
    assert (bad.verdict, "busbw" in bad.values) == ("fail", False)
    assert together(*[388.0] * 6, curve={1: 388.0}, doubts=bad.said).verdict == "fail"
    layer = together(*[388.0] * 6, curve={1: 388.0}, foreign=2)
    assert (layer.verdict, "2 pairs of other runs" in words(layer)) == ("unknown", True)


def test_a_rung_is_a_number_and_no_judgement():
    layer = netload.judge_rung(turns(100.0, 102.0, 104.0), Load(2))
    assert (layer.verdict, layer.values) == ("pass", {"turns": 3, "at_once": 2, "busbw": 102.0})
    assert netload.judge_rung([], Load(2)).verdict == "unknown"
    cut = turns(100.0)[0]
    half = netscripts.Part(cut.kind, cut.name, cut.way, 0, cut.text[:-200], False)
    assert netload.judge_rung([half], Load(2)).verdict == "unknown"
    assert netload.judge_rung(turns(100.0), Load(1, foreign=1)).verdict == "unknown"


def test_rungs_double_until_all():
    assert [netload.rungs(n) for n in (0, 1, 2, 3, 8, 24)] == [
        [], [], [1], [1, 2], [1, 2, 4], [1, 2, 4, 8, 16],
    ]  # fmt: skip


@given(st.integers(1, 40))
def test_every_pair_stands_on_every_rung_and_never_twice_at_once(count):
    pairs = list(range(count))
    seen: dict[int, Counter] = {}
    for group in netload.plan_ladder(pairs):
        assert len(set(group)) == len(group)
        seen.setdefault(len(group), Counter()).update(group)
    assert sorted(seen) == netload.rungs(count)
    assert all(set(counts) == set(pairs) for counts in seen.values())
    assert sum(sum(c.values()) for c in seen.values()) <= 2 * count * max(1, len(seen))


def test_what_was_beside_a_pair_is_said_in_both_cases():
    assert "No other pair" in said(netload.beside_said(0, 0).text)
    assert "Not alone: 3 other pairs of this run and 1 of other runs" in said(
        netload.beside_said(3, 1).text
    )


def test_p99_is_the_nearest_rank():
    assert netload.p99([float(n) for n in range(1, 201)]) == 198.0
    assert netload.p99([3.0, 1.0, 2.0]) == 3.0
