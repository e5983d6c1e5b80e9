"""LAB.md 2.7: one fact that several tools tell is told the same by all of them, also under a fault.

The tools are run as on a node and read with the console's own parsers.
"""

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from fleet.lab import faults
from fleet.lab.node import Lab
from fleet.readings.fabric.blocks import parse_storage
from fleet.readings.fabric.links import parse_links
from fleet.readings.fabric.netdevs import parse_gids, parse_netdevs
from fleet.readings.fabric.ports import parse_ports
from fleet.readings.host.counters import parse_ethtool_stats
from fleet.readings.host.disks import parse_df
from fleet.readings.host.memory import parse_free, parse_meminfo
from fleet.readings.host.processors import parse_lscpu, parse_numactl_hardware
from fleet.readings.kernel_log import KernelReader
from fleet.readings.nvidia_smi.dump import parse_dump
from fleet.readings.nvidia_smi.listing import parse_listing
from fleet.readings.nvidia_smi.nvlink import parse_nvlink
from fleet.readings.nvidia_smi.query import parse_query
from fleet.readings.topo import parse_topo
from tests.lab.conftest import node_runner, short_directory

NOW = datetime(2026, 11, 29, 18, 38, 30, tzinfo=UTC)
FAULTS = ("", *(fault.name for fault in faults.TABLE if "node" in fault.kinds and fault.signs))
# The node is off, or its one answer is a sentence: nothing is left to compare.
SILENT = ("node.reboot", "docker.hung", "docker.down", "driver.mismatch")
FIELDS = ("uuid", "clocks.sm", "power.limit", "vbios_version", "remapped_rows.pending")
FIELDS += ("remapped_rows.failure", "ecc.errors.uncorrected.volatile.dram", "fabric.state")
FIELDS += ("clocks_event_reasons.hw_thermal_slowdown", "pcie.link.width.current", "driver_version")
SAME_IN_DUMP = {
    "uuid": "GPU UUID",
    "clocks.sm": "Clocks/SM",
    "power.limit": "GPU Power Readings/Current Power Limit",
    "vbios_version": "VBIOS Version",
    "remapped_rows.pending": "Remapped Rows/Pending",
    "remapped_rows.failure": "Remapped Rows/Remapping Failure Occurred",
    "ecc.errors.uncorrected.volatile.dram": "ECC Errors/Volatile/DRAM Uncorrectable",
    "fabric.state": "Fabric/State",
    "clocks_event_reasons.hw_thermal_slowdown": ("Clocks Event Reasons/HW Thermal Slowdown"),
}


@dataclass
class Sick:
    """A node with one fault, or none; each command is run once."""

    lab: Lab

    def __post_init__(self) -> None:
        self._run = node_runner(self.lab, "h100-001")
        self._said: dict[str, str] = {}

    def __call__(self, command: str) -> str:
        if command not in self._said:
            self._said[command] = self._run(command).stdout
        return self._said[command]

    def sysfs(self) -> dict[str, str]:
        """Return path below /sys/class -> content of every file there."""
        text = self('cd "$NODE_SYSROOT/sys/class" && grep -rH . */*/')
        rows = (line.partition(":") for line in text.splitlines())
        return {path.replace("//", "/"): value for path, _, value in rows}

    @property
    def state(self) -> dict:
        return self.lab.state("h100-001")


@pytest.fixture(
    scope="module",
    params=[name for name in FAULTS if name not in SILENT],
    ids=lambda name: name or "gold",
)
def say(request: pytest.FixtureRequest) -> Iterator[Sick]:
    directory = short_directory()
    lab = Lab(directory / "lab").lay_out(1)
    if request.param:
        fault = faults.find_fault(request.param)
        site = faults.open_site(lab.directory, lab.host("h100-001"), NOW, {})
        faults.put_on(site, fault, dict(fault.arguments), "f-0001")
    yield Sick(lab)
    shutil.rmtree(directory)


def test_the_tools_of_a_card_agree(say: Sick) -> None:
    table = parse_query(say(f"nvidia-smi --query-gpu=index,{','.join(FIELDS)} --format=csv"),
                        ("index", *FIELDS))  # fmt: skip
    dump = parse_dump(say("nvidia-smi -q"))
    listing = parse_listing(say("nvidia-smi -L"))
    links = parse_nvlink(say("nvidia-smi nvlink -s"))
    uuids = [table.cell(row, "uuid").text for row in table.rows]

    assert [gpu.uuid for gpu in listing.gpus] == uuids
    assert [gpu.values["GPU UUID"] for gpu in dump.gpus] == uuids
    assert [gpu.index for gpu in links.gpus] == [row.index for row in table.rows]
    assert dump.attached == len(table.rows) + len(table.sentences)
    assert {s.text for s in dump.sentences} == {s.text for s in table.sentences}
    for row, card in zip(table.rows, dump.gpus, strict=True):
        for field, path in SAME_IN_DUMP.items():
            assert card.values[path] == table.cell(row, field).text, (row.index, field)
        width = card.values["PCI/GPU Link Info/Link Width/Current"]
        assert width in (
            f"{table.cell(row, 'pcie.link.width.current').text}x",
            "[GPU requires reset]",
        )


def test_the_matrix_has_the_links_that_the_link_status_has(say: Sick) -> None:
    topology = parse_topo(say("nvidia-smi topo -m"))
    links = parse_nvlink(say("nvidia-smi nvlink -s"))
    if not topology.columns:  # a lost card: the matrix is its sentence
        assert topology.sentences[0].text == links.sentences[0].text
        return
    up = [gpu.up for gpu in links.gpus]
    for one in topology.gpus:
        for two in topology.gpus:
            path = topology.link(one, two)
            if one != two:
                assert path == f"NV{min(up[int(one[3:])], up[int(two[3:])])}"


def test_the_kernel_tells_the_xids_that_the_cards_state_has(say: Sick) -> None:
    state = say.state
    reader = KernelReader()
    reader.feed(say("journalctl -k -o short-iso").encode().splitlines())
    other = KernelReader()
    other.feed(say("dmesg --time-format iso").encode().splitlines())

    told = {(group.code, group.bus) for group in reader.xids.groups.values() if group.code != 154}
    mine = {(x["code"], f"0000:{g['bus'].lower()}:00") for g in state["gpu"] for x in g["xids"]}
    assert told == mine
    assert other.xids.groups.keys() == reader.xids.groups.keys()
    assert len(reader.xids.switches) == sum(len(s["sxids"]) for s in state["nvswitch"])
    assert reader.host.driver == state["driver"]["version"]
    assert reader.unread == []


def test_the_tools_of_a_port_agree(say: Sick) -> None:
    stat, status = parse_ports(say("ibstat")), parse_ports(say("ibstatus"))
    netdevs, unread = parse_netdevs(say("ibdev2netdev"))
    links = {link.name: link for link in parse_links(say("ip -j addr")).links}
    brief = {link.name: link for link in parse_links(say("ip -br link")).links}
    sysfs = say.sysfs()

    assert stat.complete
    assert status.complete
    assert unread == ()
    for one, two, three in zip(stat.ports, status.ports, netdevs, strict=True):
        told = (two.device, two.is_active, two.rate_gbs, two.physical)
        assert (one.device, one.is_active, one.rate_gbs, one.physical) == told
        link, short = links[three.netdev], brief[three.netdev]
        assert three.device == one.device
        assert three.is_up == one.is_active == (link.state == "UP")
        assert (link.state, link.mac, link.flags) == (short.state, short.mac, short.flags)
        port = f"infiniband/{one.device}/ports/1"
        assert sysfs[f"{port}/state"].split()[-1].lower() == one.state.lower()
        assert sysfs[f"{port}/rate"].split()[0] == f"{one.rate_gbs:g}"
        assert sysfs[f"infiniband/{one.device}/fw_ver"] == one.firmware
        assert sysfs[f"net/{link.name}/mtu"] == str(link.mtu)
    for place in (3, 8):
        port, name = stat.ports[place], netdevs[place].netdev
        speed = say(f"ethtool {name}").split("Speed: ")[1].split()[0]
        assert speed == (f"{port.rate_gbs * 1000:g}Mb/s" if port.is_active else "Unknown!")
        assert f"firmware-version: {port.firmware} " in say(f"ethtool -i {name}")


def test_a_gid_is_that_of_the_address(say: Sick) -> None:
    table = parse_gids(say("show_gids"))
    links = {link.name: link.addresses for link in parse_links(say("ip -br addr")).links}

    assert table.complete
    for gid in table.gids:
        if gid.ipv4:
            assert f"{gid.ipv4}/24" in links[gid.netdev]
            words = bytes(int(part) for part in gid.ipv4.split("."))
            assert gid.gid.replace(":", "").endswith(f"ffff{words.hex()}")


def test_the_counters_of_a_port_are_the_states(say: Sick) -> None:
    sysfs = say.sysfs()
    for nic in say.state["nic"]:
        shown = {
            path.rpartition("/")[2]: int(value)
            for path, value in sysfs.items()
            if path.startswith(f"infiniband/{nic['device']}/") and "counters/" in path
        }
        if nic["device"] in ("mlx5_3", "mlx5_8"):
            shown |= parse_ethtool_stats(say(f"ethtool -S {nic['netdev']}")).values
        known = {name: value for name, value in nic["counters"].items() if name in shown}
        assert {name: value for name, value in shown.items() if value} == known


def test_numa_is_the_same_in_the_matrix_and_below_sys(say: Sick) -> None:
    topology = parse_topo(say("nvidia-smi topo -m"))
    for name, device in topology.nic_legend.items():
        socket = int(say.sysfs()[f"infiniband/{device}/device/numa_node"])
        for gpu in topology.gpus:
            is_far = topology.link(gpu, name) == "SYS"
            assert is_far == (topology.row(gpu).numa_affinity != socket)


def test_disks_memory_and_processors_agree(say: Sick) -> None:
    storage = parse_storage(say("lsblk -J -b"))
    models = say.lab.host("h100-001").directory / "root" / "models"
    raid = {
        d.size_bytes for d in storage.devices if d.kind == "raid0" and d.mountpoint == str(models)
    }
    memory, free = (
        parse_meminfo(say('cat "$NODE_SYSROOT/proc/meminfo"')),
        parse_free(say("free -b")),
    )
    nodes, cpus = parse_numactl_hardware(say("numactl -H")), parse_lscpu(say("lscpu"))

    assert raid == {parse_df(say(f"df -kP {models}")).total_bytes}
    assert len([d for d in storage.disks if d.is_nvme]) == len(say.state["disks"])
    assert (memory.total_bytes, memory.available_bytes) == (free.total_bytes, free.available_bytes)
    assert sum(node.size_bytes for node in nodes) == memory.total_bytes
    assert {node.index: node.cpus for node in nodes} == dict(cpus.cpus_of_node)
    assert str(cpus.cpus) == say("nproc").strip()


def test_the_limit_of_locked_memory_is_one(say: Sick) -> None:
    kib, size = say("ulimit -l").strip(), say("prlimit --memlock --noheadings --raw --output SOFT")
    assert size.strip() == (kib if kib == "unlimited" else str(int(kib) * 1024))


def test_the_tree_of_disks_is_the_object_of_disks(run) -> None:
    tree = parse_storage(run("lsblk -o NAME,SIZE,TYPE,MOUNTPOINT,FSTYPE").stdout)
    rows = json.loads(run("lsblk -J -b -o NAME,SIZE,TYPE,MOUNTPOINT,FSTYPE").stdout)

    assert tree.unread == ()
    assert [d.name for d in tree.devices if d.kind in ("loop", "disk")] == [
        row["name"] for row in rows["blockdevices"]
    ]
