"""The network tools of the lab: two nodes meet, faults show in every tool that they show in, and readers agree."""

import fcntl
import socket
import subprocess
import sys
import threading
from contextlib import ExitStack
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path

import pytest

from fleet.lab import faults
from fleet.lab.node import Lab
from fleet.readings.host.counters import parse_port_counters
from fleet.readings.verdicts.ib_write_bw import report_ib_write_bw
from fleet.readings.verdicts.nccl_tests import report_nccl_tests
from fleet.rules import netload, netreach, netscripts, netverdict
from fleet.rules.message import said
from fleet.rules.netscripts import End, Wiring
from tests.lab.conftest import FAST, claimed_block

LIB = Path(faults.__file__).parent / "stubs/lib"
NOW = datetime(2026, 11, 29, 18, 38, 30, tzinfo=UTC)
A, B = "h100-001", "h100-002"
HCAS = tuple(f"mlx5_{rail}" for rail in range(8))
WIRING = Wiring(hcas=HCAS, interface="bond0", mtu=9000, gid_index=3)


class Wires:
    """Two nodes on addresses of their own, as files only; nobody can log in, so mpirun starts on B's own word."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.ends = {row["name"]: End(row["name"], row["address"]) for row in lab.inventory()}

    def run(self, name: str, argv: list[str], timeout: float = 60) -> str:
        environment = self.lab.host(name).environment()
        done = subprocess.run(
            argv, env=environment, cwd=environment["HOME"], stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, timeout=timeout, check=False,
        )  # fmt: skip
        return done.stdout

    def fault(self, node: str, name: str, **args: faults.Value) -> None:
        fault = faults.find_fault(name)
        site = faults.open_site(self.lab.directory, self.lab.host(node), NOW, {"launch": 600.0})
        faults.put_on(site, fault, faults.read_arguments(fault, args), "f-0001")

    def rails(self, wiring: Wiring) -> list[netscripts.Part]:
        server = threading.Thread(target=self.run, args=(B, netscripts.server_argv(wiring)))
        server.start()
        told = self.run(A, netscripts.client_argv(wiring, self.ends[B]))
        server.join(timeout=60)
        assert not server.is_alive()
        return netscripts.split_parts(told)

    def curve(self, wiring: Wiring = WIRING, limit_s: float = 30) -> list[netscripts.Part]:
        argv = netscripts.curve_argv(wiring, self.ends[A], self.ends[B], limit_s)
        return netscripts.split_parts(self.run(A, argv))

    def counters(self, name: str):
        section = netscripts.counter_section(WIRING)
        return parse_port_counters(self.run(name, section["argv"]))


@pytest.fixture
def wires(two: Lab) -> Wires:
    yield Wires(two)
    for name in (A, B):
        faults.take_off(faults.open_site(two.directory, two.host(name), NOW, {}), None)


def words(layer: netverdict.Layer) -> str:
    return " | ".join(said(one.text) for one in layer.said)


def golden(wires: Wires) -> netverdict.Golden:
    layer = netverdict.judge_collective(wires.curve(), (A, B), netverdict.Golden())
    return netverdict.Golden(
        "golden", layer.values["busbw"], {c: {"one": 391.6, "two": 767.5} for c in HCAS}
    )


def reach(wires: Wires) -> tuple[netverdict.Layer, netverdict.Layer]:
    """Layer 1 as A sees it: the host address of B, and its rails."""
    ping, route, gids, _ = netreach.reach_sections(WIRING, wires.ends[B])
    host = netreach.judge_host(wires.run(A, ping["argv"]), wires.run(A, route["argv"]), WIRING)
    mine, theirs = (netreach.rail_ends(wires.run(n, gids["argv"]), WIRING) for n in (A, B))
    cards = netreach.cards_beside(WIRING, WIRING)
    asked = netreach.rail_section(WIRING, mine, theirs, cards)
    told = wires.run(A, asked["argv"])
    return host, netreach.judge_rails_reached(told, WIRING, mine, theirs, cards)


def test_host_and_rails_answer_each_by_its_own_way(wires):
    host, rails = reach(wires)
    assert host.verdict == "pass", words(host)
    assert rails.verdict == "pass", words(rails)
    assert "8 of 8 rails" in words(rails)
    assert {name: row["device"] for name, row in rails.values["rails"].items()} == {
        f"mlx5_{n}": f"rail{n}np0" for n in range(8)
    }


@pytest.mark.parametrize("node", [A, B])
@pytest.mark.parametrize(
    ("fault", "args"),
    [
        ("mtu.mismatch", {"nic": 5}),
        ("nic.down", {"nic": 5}),
        ("net.loss", {"nic": 5, "pct": 40}),
    ],
)
def test_one_bad_rail_at_either_end_fails_itself_and_not_the_host(wires, node, fault, args):
    wires.fault(node, fault, **args)
    host, rails = reach(wires)
    assert (host.verdict, rails.verdict) == ("pass", "fail"), words(host) + words(rails)
    assert "7 of 8 rails" in words(rails)
    bad = [said(one.text) for one in rails.said if one.verdict != "pass"]
    assert all(text.startswith("mlx5_5: ") for text in bad), bad


def test_the_front_end_carries_no_packet_of_the_rails_size(wires):
    """Its MTU is 1500: who asks the host address for the rails' MTU learns nothing of the rails."""
    address = wires.ends[B].address
    told = wires.run(A, ["ping", "-c", "2", "-M", "do", "-s", "8972", address])
    assert "message too long, mtu=1500" in told
    assert "0% packet loss" in wires.run(A, ["ping", "-c", "2", address])


def test_an_address_that_nobody_has_is_no_way(wires):
    assert "Network is unreachable" in wires.run(A, ["ip", "route", "get", "10.41.0.77"])
    assert "100% packet loss" in wires.run(A, ["ping", "-c", "2", "10.41.0.77"])
    assert "No such device" in wires.run(A, ["ping", "-c", "2", "-I", "rail9np0", "10.41.0.2"])


def test_server_and_client_meet_on_every_rail_in_both_forms(wires):
    parts = wires.rails(WIRING)
    assert [(p.name, p.way) for p in parts] == [(c, w) for c in HCAS for w in ("one", "two")]
    report = report_ib_write_bw(parts[0].text)
    assert (report.verdict, report.complete) == ("pass", True), report.summary
    assert 390 < report.values["bw_avg_gbps"] < 393
    assert report_ib_write_bw(parts[1].text).values["bidirectional"]
    layer = netverdict.judge_rails(parts, WIRING, golden(wires))
    assert layer.verdict == "pass", words(layer)
    assert netverdict.judge_rails(parts, WIRING, netverdict.Golden()).verdict == "unknown"


def test_a_slow_cable_shows_on_its_rail_and_in_the_collective(wires):
    gold = golden(wires)
    wires.fault(A, "nic.rate", nic=5, gbps=200)
    wiring = Wiring(("mlx5_4", "mlx5_5"), "bond0", 9000, 3)
    layer = netverdict.judge_rails(wires.rails(wiring), wiring, gold)
    bad = [said(one.text) for one in layer.said if one.verdict == "fail"]
    assert layer.verdict == "fail"
    assert all(text.startswith("mlx5_5") for text in bad), bad
    curve = netverdict.judge_collective(wires.curve(), (A, B), gold)
    assert curve.verdict == "fail", words(curve)


def test_a_wrong_gid_fails_both_the_rail_and_the_collective(wires):
    wires.fault(B, "gid.shifted", index=5)
    wiring = Wiring(("mlx5_0",), "bond0", 9000, 3)
    layer = netverdict.judge_rails(wires.rails(wiring), wiring, netverdict.Golden())
    assert layer.verdict == "fail", words(layer)
    curve = netverdict.judge_collective(wires.curve(), (A, B), netverdict.Golden())
    assert (
        curve.verdict,
        "22 Invalid argument" in words(curve) or "Test NCCL failure" in words(curve),
    ) == ("fail", True)


def test_sockets_are_a_failure_however_green_the_table_is(wires):
    wires.fault(B, "nccl.socket")
    (part,) = wires.curve()
    report = report_nccl_tests(BytesIO(part.text.encode()))
    assert (part.rc, report.values["oob"], report.values["network"]) == (0, 0, "Socket")
    layer = netverdict.judge_collective([part], (A, B), netverdict.Golden("g", 4.8))
    assert layer.verdict == "fail"
    assert "sockets" in words(layer)


def test_loss_moves_the_counters_and_a_clean_way_does_not(wires):
    gold = golden(wires)
    before = {name: wires.counters(name) for name in (A, B)}
    wires.curve()
    for name in (A, B):
        one = netverdict.judge_retransmits(name, before[name], wires.counters(name))
        assert one.verdict == "pass", said(one.text)
    wires.fault(A, "net.loss", nic=-1, pct=0.1, peer=B)
    layer = netverdict.judge_collective(wires.curve(), (A, B), gold)
    assert layer.verdict == "fail", words(layer)
    for name in (A, B):
        one = netverdict.judge_retransmits(name, before[name], wires.counters(name))
        assert one.verdict == "fail", said(one.text)


def test_the_counters_of_a_node_grow_alone_and_begin_anew_with_its_state(wires):
    """The files of /sys lie once for all nodes that are equal."""
    counter = "out_of_sequence"

    def read() -> list[int]:
        seen = [wires.counters(name) for name in (A, B)]
        return [one.values[f"mlx5_0/1/hw_counters/{counter}"] for one in seen]

    before = read()
    code = f"from net_stub.wires import grow_counters as g; g({B!r}, 'mlx5_0', {{{counter!r}: 5}})"
    for _ in range(2):
        wires.run(B, ["env", f"PYTHONPATH={LIB}", sys.executable, "-c", code])
    assert read() == [before[0], before[1] + 10]
    wires.fault(B, "nic.rate", nic=5, gbps=200)
    assert read() == before


def test_a_hang_is_ended_and_said(wires):
    wires.fault(A, "net.hang", peer=B)
    layer = netverdict.judge_collective(wires.curve(limit_s=1), (A, B), netverdict.Golden())
    assert (layer.verdict, "hung" in words(layer)) == ("fail", True)


def test_the_loop_takes_turns_and_tells_its_p99(wires):
    argv = netscripts.loop_argv(WIRING, wires.ends[A], wires.ends[B], 0, 30)
    turns = [part for _ in range(5) for part in netscripts.split_parts(wires.run(A, argv))]
    alone = netload.judge_rung(netscripts.split_parts(wires.run(A, argv)), netload.Load(1))
    load = netload.Load(2, {1: alone.values["busbw"]})
    layer = netload.judge_together(turns, load, netverdict.Golden())
    assert layer.verdict == "pass", words(layer)


def test_no_server_is_said_as_the_tool_says_it(wires):
    told = wires.run(A, ["ib_write_bw", "-d", "mlx5_0", "-p", "18999", wires.ends[B].address])
    assert "Couldn't connect to" in told
    assert report_ib_write_bw(told).verdict == "fail"


def test_unknown_forms_are_recorded(wires):
    for argv in (
        ["ping", "-f", "x"],
        ["ip", "neighbour"],
        ["ib_write_bw", "--odd"],
        ["mpirun", "hostname"],
    ):
        wires.run(A, argv)
    assert len(wires.lab.unknown()) == 4
    (wires.lab.directory / "unknown.log").write_text("")


@pytest.fixture
def nine_addresses():
    with claimed_block() as block:
        yield block


@pytest.mark.parametrize(
    ("ratio", "others", "share"),
    [(1.0, 7, 1.0), (2.0, 1, 1.0), (2.0, 3, 1.0), (2.0, 7, 1 / 2), (8.0, 0, 1.0), (8.0, 1, 1 / 2)],
)
def test_the_uplinks_of_a_leaf_are_shared_by_the_pairs_that_cross_them(
    lab_dir, nine_addresses, ratio, others, share
):
    """Two nodes on two leaves, as files only; the test itself listens where mpirun looks for the peer's SSH."""
    lab = Lab(lab_dir).lay_out(9, block=nine_addresses, scales=FAST)
    ends = {row["name"]: End(row["name"], row["address"]) for row in lab.inventory()}
    a, b = ends["h100-001"], ends["h100-009"]
    wires = Wires(lab)
    wires.fault(a.name, "leaf.oversub", ratio=ratio)
    argv = netscripts.loop_argv(WIRING, a, b, 0, 30)
    with socket.socket() as peer, ExitStack() as held:
        peer.bind((b.address, 2222))
        peer.listen()
        alone = netscripts.split_parts(wires.run(a.name, argv))
        # another pair is a file with a lock that somebody holds; of leaf 3 no pair crosses these uplinks
        for name in (*(f"1-2.{n}" for n in range(others)), "3-4.9"):
            (lab_dir / "net" / name).touch()
            fcntl.flock(held.enter_context(open(lab_dir / "net" / name)), fcntl.LOCK_EX)
        together = netscripts.split_parts(wires.run(a.name, argv))
    widths = [
        netload.judge_rung(parts, netload.Load(1)).values["busbw"] for parts in (alone, together)
    ]
    assert widths[1] == pytest.approx(widths[0] * share, rel=0.01)
