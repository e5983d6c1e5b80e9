"""The facts of a node as its page shows them: grouped, in words, each with its source, time and age.

A fact that has a drawing of its own (matrix, ports) is left out of the groups unless it could not be read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy
from django.utils.translation import ngettext

from fleet.models import Fact
from fleet.rules.message import said

LONGEST_VALUE = 60
_ROWS_NAMED = 4
# group -> fact -> its words, in the order of the page
GROUPS: tuple[tuple[Any, dict[str, Any]], ...] = (
    (
        _lazy("System"),
        {
            "hostname": _lazy("Host name"),
            "os": _lazy("System release"),
            "kernel": _lazy("Kernel"),
            "booted_at": _lazy("Booted at"),
            "boot_id": _lazy("Boot"),
            "cpu_count": _lazy("CPUs"),
            "numa_nodes": _lazy("Memory nodes"),
            "memory_total": _lazy("Memory"),
            "memory_available": _lazy("Memory available"),
            "memlock_kb": _lazy("Locked memory"),
            "clock_offset": _lazy("Clock offset"),
            "clock_is_synchronised": _lazy("Clock synchronised"),
            "clock_stratum": _lazy("Clock stratum"),
        },
    ),
    (
        _lazy("Cards"),
        {
            "gpu_count": _lazy("GPUs"),
            "gpu_name": _lazy("GPU model"),
            "driver_version": _lazy("GPU driver"),
            "cuda_version": _lazy("CUDA of the driver"),
            "vbios": _lazy("VBIOS"),
            "inforom": _lazy("InfoROM"),
            "gsp_firmware": _lazy("GSP firmware"),
            "ecc_mode": _lazy("ECC mode"),
            "mig_mode": _lazy("MIG mode"),
            "persistence_mode": _lazy("Persistence mode"),
            "power_limit_w": _lazy("Power limit"),
            "pcie_width": _lazy("PCIe lanes"),
            "memory_temperature": _lazy("HBM temperature"),
            "remap_pending": _lazy("Row remap pending"),
            "remap_failure": _lazy("Row remap failed"),
            "remapped_uncorrectable": _lazy("Rows remapped"),
            "retired_pages": _lazy("Retired pages"),
            "recovery_action": _lazy("Recovery action"),
            "fabric_state": _lazy("NVLink fabric"),
            "fabric_manager": _lazy("Fabric manager"),
            "topo": _lazy("Topology"),
            "nvlink_matrix": _lazy("Paths between cards"),
            "nic_matrix": _lazy("Paths to NICs"),
            "gpu_numa": _lazy("Memory node of each card"),
            "gpu_cpus": _lazy("CPUs near each card"),
        },
    ),
    (
        _lazy("Network"),
        {
            "rdma_ports": _lazy("RDMA ports"),
            "gids": _lazy("GIDs"),
            "link_mtu": _lazy("MTU"),
            "links_down": _lazy("Interfaces down"),
            "rdma_counters": _lazy("RDMA counters"),
            "ethtool_counters": _lazy("Interface counters"),
        },
    ),
    (
        _lazy("Storage and software"),
        {
            "shm_total": _lazy("Shared memory"),
            "shm_used": _lazy("Shared memory used"),
            "model_disk_total": _lazy("Model disk"),
            "model_disk_free": _lazy("Model disk free"),
            "block_devices": _lazy("Disks"),
            "models": _lazy("Models on disk"),
            "docker_version": _lazy("Docker"),
            "containers": _lazy("Containers"),
        },
    ),
    (
        _lazy("Kernel log"),
        {
            "kernel_log_from": _lazy("Read from"),
            "xids": _lazy("Xid"),
            "sxids": _lazy("NVSwitch SXid"),
            "mlx5_errors": _lazy("NIC errors"),
            "edac_errors": _lazy("Memory errors"),
            "oom_kills": _lazy("Killed for memory"),
        },
    ),
    (
        _lazy("Measured rates"),
        {
            "allreduce_busbw_gbs": _lazy("all_reduce bus bandwidth"),
            "disk_read_gbs": _lazy("Disk read"),
            "disk_read_tool": _lazy("Disk read by"),
        },
    ),
)
FACT_WORDS: dict[str, Any] = {key: word for _name, group in GROUPS for key, word in group.items()}
DRAWN = frozenset(
    ("topo", "nvlink_matrix", "nic_matrix", "gpu_numa", "gpu_cpus", "rdma_ports", "gids")
)
# What is no trouble only when it is empty, zero or this.
_GOOD: dict[str, Any] = {
    "xids": [],
    "sxids": [],
    "mlx5_errors": [],
    "oom_kills": 0,
    "remap_pending": "No",
    "remap_failure": "No",
    "fabric_state": "Completed",
    "recovery_action": "None",
    "clock_is_synchronised": True,
}


def fact_rows(facts: Sequence[Fact], now: datetime) -> list[dict[str, Any]]:
    """Return every fact that has no drawing, or whose drawing could not be read."""
    return [_fact(fact, now) for fact in facts if fact.key not in DRAWN or fact.value is None]


def fact_groups(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows by group, in the order of the page; unknown keys come last."""
    by_key = {row["fact"].key: row for row in rows}
    groups = [
        {"name": name, "rows": [by_key[key] for key in keys if key in by_key]}
        for name, keys in GROUPS
    ]
    groups.append(
        {"name": _("Other"), "rows": [r for r in rows if r["fact"].key not in FACT_WORDS]}
    )
    return [group for group in groups if group["rows"]]


def known(facts: Sequence[Fact], key: str, now: datetime) -> Any:
    """Return a fact's value; None when it is missing, expired or could not be read."""
    fact = next((fact for fact in facts if fact.key == key), None)
    return fact.value if fact is not None and fact.expires_at > now else None


def of_card(value: Any, index: int) -> Any:
    """Return one card's part of a fact that is one value for all cards, or one for each index."""
    return value.get(str(index)) if isinstance(value, dict) else value


def _fact(fact: Fact, now: datetime) -> dict[str, Any]:
    return {
        "fact": fact,
        "word": FACT_WORDS.get(fact.key, fact.key),
        "text": "" if fact.value is None else value_text(fact.key, fact.value, fact.unit),
        "problem": said(fact.problem, _),
        "is_expired": fact.expires_at <= now,
        "is_bad": fact.value is not None and fact.key in _GOOD and fact.value != _GOOD[fact.key],
    }


def value_text(key: str, value: Any, unit: str = "") -> str:
    """Say a value in a few words; long ones are cut, the raw output has the rest."""
    if special := _SPECIAL.get(key):
        return _cut(special(value))
    if isinstance(value, dict) and value and all(str(name).isdigit() for name in value):
        return _cut(_by_card(value, unit))
    if isinstance(value, list) and not value:
        return _("none")
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return _cut(", ".join(value))
    if isinstance(value, dict | list):
        return ngettext("%(n)d value", "%(n)d values", len(value)) % {"n": len(value)}
    return _cut(_plain(value, unit))


def _plain(value: Any, unit: str) -> str:
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    if unit == "B" and isinstance(value, int | float):
        return f"{value / 2**30:,.1f} GiB"
    if unit == "s" and isinstance(value, int | float):
        return _span(value)
    return f"{value} {unit}".strip()


def _by_card(value: dict[str, Any], unit: str) -> str:
    """The word of most cards, then the cards that have another one; a range when all are numbers."""
    told = list(value.values())
    if unit and all(isinstance(one, int | float) for one in told):
        low, high = min(told), max(told)
        return f"{low:g} {unit}" if low == high else f"{low:g}–{high:g} {unit}"
    usual, _count = Counter(str(one) for one in told).most_common(1)[0]
    odd = [f"GPU {index}: {one}" for index, one in value.items() if str(one) != usual]
    return "; ".join([f"{usual} {unit}".strip(), *odd])


def _mtus(value: Any) -> str:
    counts = Counter(value.values()) if isinstance(value, dict) else Counter()
    return ", ".join(f"{'–' if mtu is None else mtu} × {n}" for mtu, n in counts.most_common())


def _events(*names: str):
    def text(value: Any) -> str:
        if not isinstance(value, list) or not value:
            return _("none")
        told = [" ".join(str(row.get(n) or "–") for n in names) for row in value[:_ROWS_NAMED]]
        more = [f"+{len(value) - _ROWS_NAMED}"] if len(value) > _ROWS_NAMED else []
        return ", ".join([*told, *more])

    return text


def _locked(value: Any) -> str:
    return str(value) if isinstance(value, str) else f"{value:,} KiB"


def _disks(value: Any) -> str:
    sizes = [row.get("size_bytes") for row in value if row.get("kind") == "disk"]
    counts = Counter("–" if size is None else f"{size / 1e12:.1f} TB" for size in sizes)
    return ", ".join(f"{n} × {size}" for size, n in counts.most_common()) or _("none")


def _stamp(value: Any) -> str:
    """A stamp of the kernel without its fractions; any other is shown as the node printed it."""
    return str(value).replace(",000000+00:00", " UTC").replace("T", " ", 1)


_SPECIAL = {
    "kernel_log_from": _stamp,
    "link_mtu": _mtus,
    "xids": _events("code", "bus"),
    "sxids": _events("code", "switch"),
    "mlx5_errors": _events("event", "bdf"),
    "edac_errors": _events("type", "dimm"),
    "numa_nodes": _events("cpus"),
    "memlock_kb": _locked,
    "block_devices": _disks,
}


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}…"


def _span(seconds: float) -> str:
    """A small span with its sign: s above 1 s, else ms (UI.md section 11)."""
    size, unit = (abs(seconds), "s") if abs(seconds) >= 1 else (abs(seconds) * 1000, "ms")
    return f"{'−' if seconds < 0 else ''}{size:.3g} {unit}"
