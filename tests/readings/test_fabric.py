from __future__ import annotations

import pytest

from fleet.readings.fabric.blocks import parse_storage
from fleet.readings.fabric.netdevs import natural_order, parse_gids, parse_netdevs
from fleet.readings.fabric.ports import parse_ports
from fleet.readings.verdicts.fabric import report_fabric

VERDICTS = {
    "002": "unknown", "003": "unknown", "004": "unknown", "006": "fail", "007": "unknown",
    "008": "pass", "010": "unknown", "012": "pass", "013": "unknown", "014": "pass",
    "016": "unknown", "017": "pass", "020": "pass", "021": "fail", "023": "fail", "026": "unknown",
}  # fmt: skip
SPOKEN = {"verdict", "must_not", "read_from_file", "loop_prefix", "complete"}


@pytest.mark.parametrize("number", VERDICTS)
def test_it_takes_the_values_of_the_corpus(corpus, number):
    sample = corpus("fabric", number)
    report = report_fabric(sample.text)
    for key, want in sample.expected.items():
        if key in SPOKEN:
            continue
        got = report.values[key]
        if key == "addr":
            got = {k: got[k] for k in want}
        if key == "ports":
            got = {k: got[k][: len(cells)] for k, cells in want.items()}
        assert got == want, key
    assert report.verdict == VERDICTS[number]
    if "complete" in sample.expected:
        assert report.complete is sample.expected["complete"]


def test_unknown_is_the_state_of_the_loopback_and_no_fault(corpus):
    report = report_fabric(corpus("fabric", "003").text)
    assert "lo" not in report.findings[0].text


def test_a_comment_is_not_part_of_the_state(corpus):
    devices, unread = parse_netdevs(corpus("fabric", "004").text)
    assert [d.is_up for d in devices] == [True, False, False, True, True, True, True]
    assert unread == ()


def test_the_rate_of_a_port_that_is_down_does_not_count(corpus):
    report = report_fabric(corpus("fabric", "006").text)
    assert report.values["rails_400g"] == []
    assert [f.id for f in report.findings] == ["no_active_port"]


def test_lid_zero_and_a_slow_management_card_are_normal(corpus):
    assert report_fabric(corpus("fabric", "008").text).findings == ()


def test_a_stale_lid_is_no_sign_of_life(corpus):
    assert report_fabric(corpus("fabric", "026").text).values["active_ports"] == 1


def test_loops_are_no_disks(corpus):
    for number in ("020", "021"):
        disks = parse_storage(corpus("fabric", number).text).disks
        assert disks
        assert not [d for d in disks if d.name.startswith("loop")]


IBSTAT = (
    "CA 'mlx5_{n}'\n\tCA type: MT4129\n\tNumber of ports: 1\n\tPort 1:\n\t\tState: Active\n"
    "\t\tPhysical state: LinkUp\n\t\tRate: 400\n\t\tBase lid: 0\n\t\tLink layer: Ethernet\n"
)


def test_a_block_that_is_cut_is_never_a_pass():
    text = IBSTAT.format(n=0) + IBSTAT.format(n=1)
    assert report_fabric(text).verdict == "pass"
    first = len(IBSTAT.format(n=0))
    for cut in [*range(first - 1), *range(first + 1, len(text) - 1)]:
        assert report_fabric(text[:cut]).verdict != "pass", text[:cut][-30:]


def test_devices_are_ordered_by_number():
    names = ["mlx5_1", "mlx5_10", "mlx5_2", "bond0"]
    assert sorted(names, key=natural_order) == ["bond0", "mlx5_1", "mlx5_2", "mlx5_10"]


def test_all_zero_gids_give_no_index():
    zero = ":".join(["0000"] * 8)
    table = parse_gids(f"mlx5_0\t1\t0\t{zero}\t\t\tv1\teth0\nn_gids_found=1\n")
    assert table.complete
    assert table.rocev2_ipv4_index() == {}


def test_another_index_than_three_is_told():
    gid = "0000:0000:0000:0000:0000:ffff:0a00:000b"
    rows = f"mlx5_0\t1\t1\t{gid}\t10.0.0.11\tv2\teth0\nmlx5_1\t1\t3\t{gid}\t10.0.0.11\tv2\teth1\n"
    report = report_fabric(rows + "n_gids_found=2\n")
    assert report.values["rocev2_ipv4_index"] == {"mlx5_0": 1, "mlx5_1": 3}
    assert [f.id for f in report.findings] == ["gid_index_differs"]


@pytest.mark.parametrize(
    "text",
    [
        "NAME        SIZE TYPE  MOUNTPOINT FSTYPE\nloop0      63.9M loop  /snap/core squashfs\n"
        "nvme0n1      3.5T disk             \n└─md0       13.9T raid0 /models    xfs\n",
        'NAME="loop0" SIZE="63.9M" TYPE="loop" MOUNTPOINT="/snap/core" FSTYPE="squashfs"\n'
        'NAME="nvme0n1" SIZE=" 3.5T" TYPE="disk" MOUNTPOINT="" FSTYPE=""\n'
        'NAME="md0" SIZE="13.9T" TYPE="raid0" MOUNTPOINT="/models" FSTYPE="xfs"\n',
    ],
)
def test_trees_and_pairs_tell_the_same(text):
    storage = parse_storage(text)
    assert [(d.name, d.size, d.mountpoint, d.fstype) for d in storage.devices] == [
        ("loop0", "63.9M", "/snap/core", "squashfs"),
        ("nvme0n1", "3.5T", None, None),
        ("md0", "13.9T", "/models", "xfs"),
    ]
    assert [d.name for d in storage.disks] == ["nvme0n1"]


def test_healthy_ports_are_read_whatever_follows():
    ports = parse_ports(IBSTAT.format(n=0) + "ibpanic: stat of IB device failed\n")
    assert ports.ports[0].is_active
    assert ports.unread == (10,)
