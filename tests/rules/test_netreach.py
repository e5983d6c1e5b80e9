"""Layer 1: host and rails, each by its own address; what was not pinged is unknown."""

import pytest

from fleet.readings.reach import parse_ping, parse_route
from fleet.rules import netreach
from fleet.rules.message import said
from fleet.rules.netscripts import End, Wiring
from fleet.rules.netverdict import Layer
from tests.network import HCAS, gids_text, marked, ping_text, reached_text

WIRING = Wiring(tuple(HCAS), "bond0", 9000, 3, 106)
INFINIBAND = Wiring(tuple(HCAS), "ib0", 2044)
ROUTE = "127.0.64.2 dev bond0 src 127.0.64.1 uid 0\n    cache\n"
MINE, THEIRS = (netreach.rail_ends(gids_text(node), WIRING) for node in (1, 2))
CARDS = netreach.cards_beside(WIRING, WIRING)
ASKED = netreach.rail_section(WIRING, MINE, THEIRS, CARDS)["argv"]
GOOD = reached_text(ASKED[6:])


def words(layer: Layer) -> str:
    return " | ".join(f"{one.verdict}: {said(one.text)}" for one in layer.said)


def rails(text: str, mine=MINE, theirs=THEIRS) -> Layer:
    return netreach.judge_rails_reached(text, WIRING, mine, theirs, CARDS)


@pytest.mark.parametrize(
    ("ping", "route", "verdict"),
    [
        (ping_text(), ROUTE, "pass"),
        (ping_text(lost=1), ROUTE, "fail"),
        ("ping: local error: message too long, mtu=1500\n" + ping_text(lost=5), ROUTE, "fail"),
        (ping_text(), ROUTE.replace("bond0", "eth9"), "fail"),
        (ping_text(), "RTNETLINK answers: Network is unreachable\n", "unknown"),
        ("", ROUTE, "unknown"),
        ("PING 127.0.64.2 (127.0.64.2) 8972(9000) bytes of data.\n", ROUTE, "unknown"),
    ],
)
def test_the_host_address(ping, route, verdict):
    layer = netreach.judge_host(ping, route, WIRING)
    assert layer.verdict == verdict, words(layer)


def test_a_ping_that_was_cut_at_any_tenth_invents_nothing():
    text = ping_text()
    for tenth in range(10):
        seen = parse_ping(text[: len(text) * tenth // 10])
        assert seen.loss_pct in (None, 0.0)
        assert seen.received in (None, 5)
    assert parse_route("") is None


def test_only_infiniband_sends_packets_of_the_full_mtu_to_the_host_address():
    peer = End("h100-002", "127.0.64.2")
    plain, full = (netreach.reach_sections(w, peer)[0]["argv"] for w in (WIRING, INFINIBAND))
    assert "-s" not in plain
    assert full[full.index("-s") + 1] == "2016"
    layer = netreach.judge_host(ping_text(), ROUTE.replace("bond0", "ib0"), INFINIBAND)
    assert (layer.verdict, "layer 2 tries them" in words(layer)) == ("pass", True)


def test_each_rail_is_asked_by_its_own_interface_and_address():
    assert ASKED[4:6] == ["5", "8972"]
    assert ASKED[6:10] == ["mlx5_0", "rail0np0", "10.41.0.1", "10.41.0.2"]
    assert ASKED[10:] == ["mlx5_1", "rail1np0", "10.41.1.1", "10.41.1.2"]


def test_rails_of_two_classes_meet_in_the_order_of_the_matrix():
    other = Wiring(("mlx5_4", "mlx5_5"), "bond0", 9000, 3)
    ends = netreach.rail_ends(gids_text(2, list(other.hcas)), other)
    cards = netreach.cards_beside(WIRING, other)
    assert netreach.rail_section(WIRING, MINE, ends, cards)["argv"][9] == "10.41.0.2"


def test_sound_rails_are_told_once():
    layer = rails(GOOD)
    assert (layer.verdict, len(layer.said)) == ("pass", 1), words(layer)
    assert "2 of 2 rails" in words(layer)
    assert layer.values["rails"]["mlx5_1"] == {
        "loss_pct": 0.0,
        "rtt_ms": 0.066,
        "device": "rail1np0",
    }


@pytest.mark.parametrize(
    ("text", "verdict", "why"),
    [
        (reached_text(ASKED[6:], {"mlx5_1": 1}), "fail", "mlx5_1: 20 % of 5 packets were lost"),
        (GOOD.replace("dev rail1np0", "dev rail0np0"), "fail", "mlx5_1: The way to the other node is rail0np0"),
        ("", "unknown", "mlx5_0: ping told no statistics"),
    ],
)  # fmt: skip
def test_a_rail_that_is_not_as_it_should_be_is_named(text, verdict, why):
    layer = rails(text)
    assert layer.verdict == verdict, words(layer)
    assert why in words(layer)


def test_a_smaller_mtu_on_one_rail_is_a_failure_of_that_rail():
    long = "ping: local error: message too long, mtu=1500\n" + ping_text("10.41.1.2", 5)
    route = "10.41.1.2 from 10.41.1.1 dev rail1np0 uid 0"
    text = reached_text(ASKED[6:10]) + marked("ping", "mlx5_1", "out", 1, long)
    layer = rails(text + marked("route", "mlx5_1", "out", 0, route))
    assert layer.verdict == "fail"
    assert "the way carries 1500" in words(layer)
    assert "1 of 2 rails" in words(layer)


def test_a_rail_without_an_address_at_the_index_is_unknown_on_its_side_and_said():
    bare = netreach.rail_ends(gids_text(1, HCAS[:1]), WIRING)
    why = "show_gids names no interface with an IPv4 address at GID index 3"
    assert why in words(rails(GOOD, mine=bare))
    layer = rails(GOOD, theirs=netreach.rail_ends(gids_text(2, HCAS[:1]), WIRING))
    assert (layer.verdict, "told no address" in words(layer)) == ("unknown", True)
    assert netreach.rail_ends(gids_text(index=5), WIRING) == {}


def test_a_rail_whose_interface_is_not_named_is_unknown_and_not_asked():
    bare = netreach.rail_ends(gids_text().replace("rail1np0", ""), WIRING)
    assert set(bare) == {"mlx5_0"}
    assert "mlx5_1" not in netreach.rail_section(WIRING, bare, THEIRS, CARDS)["argv"]
    assert rails(GOOD, mine=bare).verdict == "unknown"


def test_a_cut_table_or_output_is_never_a_pass():
    table, text = gids_text(), GOOD
    for tenth in range(10):
        assert netreach.rail_ends(table[: len(table) * tenth // 10], WIRING) == {}
        assert rails(text[: len(text) * tenth // 10]).verdict == "unknown"
