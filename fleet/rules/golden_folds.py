"""Folds the drift of many nodes: those that differ alike stand in one row, worst first. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fleet.rules.golden import FAIL, UNKNOWN, Difference

# Diagnosis D20: another identity, topology or count keeps a node from work; software and rates are looked at.
GRAVE = frozenset({"cards", "errors", "paths", "network"})
GROUPS: dict[str, tuple[str, ...]] = {
    "cards": (
        "gpu_count", "gpu_name", "vbios", "inforom", "gsp_firmware", "ecc_mode", "mig_mode",
        "persistence_mode", "power_limit_w", "pcie_width",
    ),
    "errors": ("remap_pending", "remap_failure", "remapped_uncorrectable", "retired_pages", "recovery_action"),
    "paths": (
        "topo", "nvlink_matrix", "nic_matrix", "gpu_numa", "gpu_cpus", "numa_nodes", "fabric_state",
        "fabric_manager",
    ),
    "network": ("rdma_ports", "link_mtu", "links_down", "gids"),
    "software": ("driver_version", "cuda_version", "kernel", "os", "docker_version"),
    "host": (
        "cpu_count", "memlock_kb", "shm_total", "memory_total", "memory_total_gib",
        "model_disk_total", "disk_model_total_gib",
    ),
    "clock": ("clock_is_synchronised", "clock_offset", "clock_offset_ms"),
    "measured": ("allreduce_busbw_gbs", "disk_read_gbs"),
}  # fmt: skip
OTHER = "other"
_GROUP_OF = {key: group for group, keys in GROUPS.items() for key in keys}


@dataclass(frozen=True)
class Drifted:
    """Nodes that differ from gold in the same way; no differences means that they agree."""

    nodes: tuple[str, ...]
    differences: tuple[Difference, ...]

    @property
    def verdict(self) -> str:
        """fail when something differs, unknown when something was not read, else nothing."""
        return worst(self.differences)


def group_of(key: str) -> str:
    """Return the group of checks that a key belongs to."""
    return _GROUP_OF.get(key, OTHER)


def is_grave(difference: Difference) -> bool:
    """Tell whether a difference is of a kind that keeps a node from work."""
    return difference.verdict == FAIL and group_of(difference.key) in GRAVE


def worst(differences: Iterable[Difference]) -> str:
    """Return the worst verdict of some differences, empty without any."""
    verdicts = {difference.verdict for difference in differences}
    return next((word for word in (FAIL, UNKNOWN) if word in verdicts), "")


def fold_drift(drift: Mapping[str, Iterable[Difference]]) -> list[Drifted]:
    """Fold the drift by node name: alike nodes together, worst first, those that agree last."""
    alike: dict[tuple[Any, ...], list[str]] = defaultdict(list)
    shown: dict[tuple[Any, ...], tuple[Difference, ...]] = {}
    for name, differences in drift.items():
        told = tuple(differences)
        sign = tuple(_sign(difference) for difference in told)
        alike[sign].append(name)
        shown.setdefault(sign, told)
    folded = [Drifted(tuple(sorted(names)), shown[sign]) for sign, names in alike.items()]
    return sorted(folded, key=_worst_first)


def place_words(value: Any, path: str) -> str:
    """Name a place by the heads of a matrix ("GPU3 GPU5" for "3.5") or the device of an entry; else by its path."""
    row, dot, column = path.partition(".")
    if isinstance(value, list) and row.isdigit() and int(row) < len(value):
        entry = value[int(row)]
        device = entry.get("device") if isinstance(entry, dict) else None
        return f"{device} {column}".rstrip() if device else path
    if not isinstance(value, dict) or not dot or not row.isdigit():
        return path
    rows, columns = _heads(value)
    if int(row) >= len(rows):
        return path
    if not column.isdigit():
        return f"{rows[int(row)]} {column}"
    if int(column) >= len(columns):
        return path
    return f"{rows[int(row)]} {columns[int(column)]}"


def _heads(value: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    if isinstance(value.get("rows"), list):
        names = [
            row.get("name", at) for at, row in enumerate(value["rows"]) if isinstance(row, dict)
        ]
        return names, _list(value.get("columns"))
    devices = _list(value.get("devices"))
    return _list(value.get("gpus")) or devices, _list(value.get("nics")) or devices


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _sign(difference: Difference) -> tuple[Any, ...]:
    """What makes two differences alike: of a reading that has expired only that there was one."""
    is_unknown = difference.verdict == UNKNOWN
    found = str(difference.found is None) if is_unknown else repr(difference.found)
    return difference.key, difference.path, difference.verdict, found


def _worst_first(row: Drifted) -> tuple[Any, ...]:
    grave = sum(map(is_grave, row.differences))
    fails = sum(difference.verdict == FAIL for difference in row.differences)
    return (not row.differences, -grave, -fails, -len(row.differences), row.nodes)
