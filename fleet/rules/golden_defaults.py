"""How each fact of a node is compared when a golden profile is taken; a person may change it in the next version.

One table with its sources. A key that is not in it is taken as ignored: it is shown, and it fails nobody unmeant.
"""

from __future__ import annotations

from dataclasses import dataclass

from fleet.rules.golden import EQUAL, IGNORE, RANGE, RATIO

# Design, diagnosis D19 and D20: a measured rate below 0.9 of gold is a finding.
LEAST_RATIO = 0.9


@dataclass(frozen=True)
class Tolerance:
    """How a key is compared. `why`: where the choice comes from."""

    tolerance: str
    why: str
    ratio: float | None = None
    low: float | None = None
    high: float | None = None


_A43 = "384-card manual, section 4.3"
_CARDS = Tolerance(EQUAL, f"{_A43}: eight cards of one model, memory and firmware")
_TOPOLOGY = Tolerance(EQUAL, f"{_A43}: NVLink, NUMA and PCIe paths as the golden node")
_SOFTWARE = Tolerance(EQUAL, "diagnosis D20: driver, firmware and host software drift")
_PORTS = Tolerance(EQUAL, f"{_A43} and 4.4: NIC state, rate and MTU")
_CLEAN = Tolerance(EQUAL, f"{_A43}: no uncorrected ECC, no row that waits or failed")
_RATE = Tolerance(RATIO, f"{_A43} and 4.4, diagnosis D20: ratio to gold", ratio=LEAST_RATIO)
_SIZE = Tolerance(RATIO, f"{_A43}: capacity of the golden node", ratio=LEAST_RATIO)
_MOVES = Tolerance(IGNORE, "changes by itself: a counter, a reading of the moment or free space")
_OWN = Tolerance(IGNORE, "belongs to one node: a name, an address, a boot")
# 384-card manual 4.3 wants clocks that let logs be put in order; the design's bar is 1 ms (design, page of gold).
CLOCK_MS = 1.0

DEFAULTS: dict[str, Tolerance] = {
    # cards
    **dict.fromkeys(("gpu_count", "gpu_name", "vbios", "inforom", "gsp_firmware"), _CARDS),
    **dict.fromkeys(("ecc_mode", "mig_mode", "persistence_mode", "power_limit_w"), _CARDS),
    **dict.fromkeys(("remap_pending", "remap_failure", "remapped_uncorrectable"), _CLEAN),
    "retired_pages": _CLEAN,
    **dict.fromkeys(("fabric_state", "fabric_manager"), _TOPOLOGY),
    "pcie_width": _TOPOLOGY,
    "recovery_action": _CLEAN,
    # paths
    **dict.fromkeys(("nvlink_matrix", "nic_matrix", "gpu_numa", "gpu_cpus"), _TOPOLOGY),
    "topo": Tolerance(
        IGNORE, "the whole matrix as it is drawn; its parts are compared by their own keys"
    ),
    "numa_nodes": _TOPOLOGY,
    # network
    **dict.fromkeys(("rdma_ports", "link_mtu", "links_down"), _PORTS),
    **dict.fromkeys(("gids", "containers", "models"), _OWN),
    **dict.fromkeys(("rdma_counters", "ethtool_counters"), _MOVES),
    # software
    **dict.fromkeys(
        ("driver_version", "cuda_version", "kernel", "os", "docker_version"), _SOFTWARE
    ),
    # host
    "cpu_count": Tolerance(EQUAL, "a node class has one processor layout"),
    "memlock_kb": Tolerance(EQUAL, f"{_A43}: RDMA needs locked memory"),
    **dict.fromkeys(("shm_total", "memory_total", "memory_total_gib"), _SIZE),
    **dict.fromkeys(("model_disk_total", "disk_model_total_gib"), _SIZE),
    "clock_is_synchronised": Tolerance(EQUAL, f"{_A43}: clocks that put logs in order"),
    "clock_offset": Tolerance(RANGE, f"{_A43}, in s", low=-CLOCK_MS / 1000, high=CLOCK_MS / 1000),
    "clock_offset_ms": Tolerance(RANGE, f"{_A43}, in ms", low=-CLOCK_MS, high=CLOCK_MS),
    # measured by acceptance
    **dict.fromkeys(("allreduce_busbw_gbs", "disk_read_gbs"), _RATE),
    "disk_read_tool": Tolerance(IGNORE, "says how the disk was read; no property of the node"),
    # of the moment
    **dict.fromkeys(("shm_used", "memory_available", "memory_available_gib"), _MOVES),
    **dict.fromkeys(("model_disk_free", "disk_model_free_gib", "block_devices"), _MOVES),
    **dict.fromkeys(("clock_stratum", "xids", "sxids", "oom_kills"), _MOVES),
    **dict.fromkeys(("edac_errors", "mlx5_errors"), _MOVES),
    **dict.fromkeys(("memory_temperature", "kernel_log_from"), _MOVES),
    **dict.fromkeys(("boot_id", "booted_at", "hostname"), _OWN),
}
# One word for all cards of a good node; a table by card means that they disagree.
ONE_WORD = frozenset({"vbios", "inforom", "gsp_firmware"})
UNLISTED = Tolerance(IGNORE, "not known to the table of tolerances; choose one in the next version")


def tolerance_of(key: str) -> Tolerance:
    """Return how a key is compared when a profile is taken."""
    return DEFAULTS.get(key, UNLISTED)
