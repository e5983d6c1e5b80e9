"""What a probe learns of each fault: the console's own commands and readings on a rehearsed node."""

import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from fleet.lab import faults
from fleet.lab.node import Lab
from fleet.rules.gather import commands_of, plan_probe
from fleet.rules.probe_cards import read_cards
from fleet.rules.probe_facts import ProbeReading
from fleet.rules.probe_reading import read_probe
from tests.lab.conftest import short_directory

NOW = datetime(2026, 11, 29, 18, 38, 30, tzinfo=UTC)
MATRIX = {"topo", "nvlink_matrix", "nic_matrix"}
# fault -> facts that change with it; empty where only a test under load shows it
SHOWS: dict[str, set[str]] = {
    "gpu.throttle": set(),
    "gpu.power_brake": set(),
    "gpu.power_cap": {"power_limit_w"},
    "gpu.xid48": {"xids", "recovery_action"},
    "gpu.xid94": {"xids", "remap_pending"},
    "gpu.remap_failure": {"xids", "remap_failure", "remapped_uncorrectable"},
    "gpu.xid31": {"xids"},
    "gpu.xid13": {"xids"},
    "nvlink.down": {"xids", "sxids", "topo", "nvlink_matrix"},
    "gpu.vbios": {"vbios"},
    "gpu.pcie": {"pcie_width"},
    "fabricmanager.down": {"fabric_state", "fabric_manager"},
    "driver.old": {"driver_version", "gsp_firmware"},
    "driver.mismatch": set(),
    "nic.down": {"rdma_ports", "links_down", "mlx5_errors", "rdma_counters"},
    "nic.rate": {"rdma_ports"},
    "nic.firmware": {"rdma_ports"},
    "nic.miswired": {"topo", "nic_matrix"},
    "numa.misbind": {"topo", "nic_matrix"},
    "gid.wrong": {"gids"},
    "gid.shifted": {"gids"},
    "net.hang": set(),
    "mtu.mismatch": {"rdma_ports", "link_mtu"},
    "net.loss": {"rdma_counters"},
    "net.retransmits": {"rdma_counters"},
    "cable.slow": {"rdma_counters"},
    "leaf.oversub": set(),
    "pfc.storm": {"rdma_counters", "ethtool_counters"},
    "shm.small": {"shm_total"},
    "shm.full": {"shm_used"},
    "disk.small": {"block_devices", "model_disk_total", "model_disk_free"},
    "nvme.slow": set(),
    "memlock.low": {"memlock_kb"},
    "clock.skew": {"clock_offset"},
    "clock.unsynchronised": {"clock_is_synchronised", "clock_stratum"},
    "host.oom": {"oom_kills"},
    "host.edac": {"edac_errors"},
}
# Of these the cards or the tools' sentences tell, and facts of cards become unknown.
SPOKEN = {"gpu.xid48", "driver.mismatch"}
TABLES = (faults.faults_gpu, faults.faults_network, faults.faults_host)


@dataclass
class Section:
    rc: int
    body: bytes
    truncated: bool = False
    error: str = ""


def ask(lab: Lab) -> ProbeReading:
    host = lab.host("h100-001")
    root = str(host.directory / "root" / "models")
    sections = {}
    for wanted in plan_probe(root):
        done = subprocess.run(
            wanted.argv, env=host.environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL, timeout=30, check=False,
        )  # fmt: skip
        sections[wanted.section] = Section(done.returncode, done.stdout)
    return read_probe(sections, commands_of(root), "boot-1")


def values(reading: ProbeReading) -> dict[str, object]:
    return {fact.key: fact.value for fact in reading.facts}


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    directory = short_directory()
    yield Lab(directory / "lab").lay_out(1)
    shutil.rmtree(directory)


@pytest.fixture(scope="module")
def gold(lab: Lab) -> dict[str, object]:
    reading = ask(lab)
    assert reading.problems == {}
    assert [fact.key for fact in reading.facts if fact.value is None] == []
    return values(reading)


def test_every_fault_of_hardware_is_in_this_table():
    assert set(SHOWS) == {fault.name for table in TABLES for fault in table.TABLE}


@pytest.mark.parametrize("name", SHOWS)
def test_a_probe_sees_the_fault_where_it_shows_and_nowhere_else(
    lab: Lab, gold: dict[str, object], name: str
) -> None:
    host = lab.host("h100-001")
    before = lab.state("h100-001")
    fault = faults.find_fault(name)
    site = faults.open_site(lab.directory, host, NOW, {})
    faults.put_on(site, fault, dict(fault.arguments), "f-0001")
    try:
        reading = ask(lab)
    finally:
        faults.take_off(site, None)
        site.state = before
        faults.save(site)

    found = values(reading)
    changed = {key for key in gold if found[key] != gold[key] and found[key] is not None}
    lost = {key for key in gold if found[key] is None}
    assert changed == SHOWS[name]
    assert bool(lost) == (name in SPOKEN), lost
    cards = {card.index: card.health for card in read_cards(reading, 8)}
    assert cards[3] == CARD_3.get(name, "ok")
    assert lab.unknown() == []


CARD_3 = {
    "gpu.throttle": "attention",
    "gpu.power_brake": "attention",
    "gpu.power_cap": "attention",
    "gpu.xid48": "failed",
    "gpu.xid94": "attention",
    "gpu.remap_failure": "attention",
    "driver.mismatch": "unknown",
}


def test_the_whole_list_of_what_is_wrong_is_what_the_state_says(lab: Lab, gold) -> None:
    """After all faults were cleared nothing is left of them, but for the time of the clock's views."""
    assert {key for key, value in values(ask(lab)).items() if value != gold[key]} <= {"mlx5_errors"}
