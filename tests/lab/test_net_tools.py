"""The network tools of the lab: two nodes meet, faults show in every tool that they show in, and readers agree."""

import fcntl
import socket
import subprocess
import sys
import threading
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path

import pytest

from fleet.lab import faults
from fleet.lab.node import Lab
from fleet.readings.host.counters import parse_port_counters
from fleet.readings.verdicts.ib_write_bw import report_ib_write_bw
from fleet.readings.verdicts.nccl_tests import report_nccl_tests
from fleet.rules import netscripts, netverdict
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


def test_packets_of_the_full_mtu_pass_and_the_way_is_told(wires):
    peer = wires.ends[B]
    ping, route, _ = netscripts.reach_sections(WIRING, peer)
    layer = netverdict.judge_reach(wires.run(A, ping["argv"]), wires.run(A, route["argv"]), WIRING)
    assert layer.verdict == "pass", words(layer)


@pytest.mark.parametrize("node", [A, B])
def test_a_smaller_mtu_at_either_end_fails_the_first_layer(wires, node):
    wires.fault(node, "mtu.mismatch")
    ping, route, _ = netscripts.reach_sections(WIRING, wires.ends[B])
    layer = netverdict.judge_reach(wires.run(A, ping["argv"]), wires.run(A, route["argv"]), WIRING)
    assert layer.verdict == "fail", words(layer)


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
    layer = netverdict.judge_together(
        turns,
        netverdict.judge_collective(wires.curve(), (A, B), netverdict.Golden()).values["busbw"],
    )
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


def test_an_oversubscribed_spine_shows_only_while_another_pair_crosses_it(lab_dir, nine_addresses):
    """Two nodes on two leaves, as files only; the test itself listens where mpirun looks for the peer's SSH."""
    lab = Lab(lab_dir).lay_out(9, block=nine_addresses, scales=FAST)
    ends = {row["name"]: End(row["name"], row["address"]) for row in lab.inventory()}
    a, b = ends["h100-001"], ends["h100-009"]
    wires = Wires(lab)
    wires.fault(a.name, "leaf.oversub", ratio=2.0)
    argv = netscripts.curve_argv(WIRING, a, b, 30)
    with socket.socket() as peer:
        peer.bind((b.address, 2222))
        peer.listen()
        alone = netscripts.split_parts(wires.run(a.name, argv))
        # another pair is a file with a lock that somebody holds
        (lab_dir / "net" / "2-1.1").touch()
        with open(lab_dir / "net" / "2-1.1") as other:
            fcntl.flock(other, fcntl.LOCK_EX)
            together = netscripts.split_parts(wires.run(a.name, argv))
    widths = [
        netverdict.judge_collective(parts, (a.name, b.name), netverdict.Golden()).values["busbw"]
        for parts in (alone, together)
    ]
    assert widths[1] == pytest.approx(widths[0] / 2, rel=0.01)
