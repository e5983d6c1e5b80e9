"""Facts of a node's disks, memory nodes, limits and kernel log. Pure."""

from __future__ import annotations

from typing import Any

from fleet.readings.fabric.blocks import Storage, parse_storage
from fleet.readings.host.memory import LockLimit
from fleet.readings.host.processors import MemoryNode
from fleet.readings.kernel_log import KernelReader
from fleet.readings.kernel_log.stamps import read_stamp
from fleet.rules.probe_facts import HOUR_S, ProbeReading, add, unreadable

_GIB = 1 << 30
_KIB = 1024
MODEL_ROOT = "MODEL_ROOT"
# States of a port that are its way back to health.
_WELL = ("Link up", "Cable plugged")
_SHOWN = 200


def read_disks(reading: ProbeReading, name: str, text: str, problem: str, command: str) -> None:
    """Read `lsblk -J -b`: disks and what lies on them, each once; images such as snaps are left out."""
    found = None if problem else parse_storage(text)
    if found is not None and not found.complete:
        problem, found = unreadable(command, text), None
    value = None if found is None else _devices(found)
    add(reading, name, problem, {"block_devices": value})


def _devices(found: Storage) -> list[dict[str, Any]]:
    rows = {
        device.name: {
            "name": device.name,
            "kind": device.kind,
            "size_bytes": device.size_bytes,
            "mount": device.mountpoint,
            "fstype": device.fstype,
        }
        for device in found.devices
        if device.kind not in ("loop", "rom")
    }
    return [rows[key] for key in sorted(rows)]


def name_model_root(reading: ProbeReading, command: str) -> None:
    """Call the model root by its name where a disk is mounted on it, so that nodes can be compared."""
    root = command.rpartition(" ")[2]
    for fact in reading.facts:
        for row in fact.value or () if fact.key == "block_devices" else ():
            if root and row["mount"] == root:
                row["mount"] = MODEL_ROOT


def numa_rows(nodes: tuple[MemoryNode, ...] | None) -> list[dict[str, Any]] | None:
    """Return the memory nodes with their processors as ranges; sizes in GiB."""
    if nodes is None:
        return None
    return [
        {"index": node.index, "cpus": fold_cpus(node.cpus), "size_gib": node.size_bytes // _GIB}
        for node in nodes
    ]


def fold_cpus(cpus: tuple[int, ...]) -> str:
    """Write processors as the kernel does: `0-3,8`."""
    runs: list[list[int]] = []
    for cpu in cpus:
        if runs and cpu == runs[-1][1] + 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def memlock_kb(limit: LockLimit | None) -> int | str | None:
    """Return the limit in units of 1024 bytes, or the word `unlimited`."""
    if limit is None or limit.is_unlimited:
        return None if limit is None else "unlimited"
    return (limit.limit_bytes or 0) // _KIB


def read_kernel_log(
    reading: ProbeReading, name: str, text: str, problem: str, command: str
) -> None:
    """Read the kernel's newest lines. `kernel_log_from`: a quiet log says nothing of the time before."""
    log = KernelReader()
    lines = text.split("\n") if not problem else []
    log.feed([line.encode() for line in lines])
    if not problem and not log.formed:
        problem = unreadable(command, text)
    values: dict[str, Any] = dict.fromkeys(_KEYS)
    if not problem:
        values = _events(log, lines)
    add(reading, name, problem, values, ttl_s=HOUR_S)


_KEYS = ("xids", "sxids", "oom_kills", "edac_errors", "mlx5_errors", "kernel_log_from")


def _events(log: KernelReader, lines: list[str]) -> dict[str, Any]:
    def at(number: int) -> str | None:
        return read_stamp(lines[number - 1][:400]).said_at if 0 < number <= len(lines) else None

    nics = [
        {**row, "count": len(log.host.nic_lines[key]), "at": at(log.host.nic_lines[key][0])}
        for key, row in log.host.nics.items()
        if row["event"] not in _WELL
    ]
    return {
        "xids": [
            {
                "code": group.code,
                "bus": group.bus,
                "text": group.text,
                "count": group.lines,
                "at": at(group.first_line),
                "last_at": at(group.last_line),
                **({"action": group.action} if group.action else {}),
            }
            for group in log.xids.by_code()
        ],
        "sxids": [
            {"code": s.code, "switch": s.switch, "severity": s.severity, "at": at(s.line)}
            for s in log.xids.switches[:_SHOWN]
        ],
        "oom_kills": len(log.host.oom_killed),
        "edac_errors": log.host.edac[:_SHOWN],
        "mlx5_errors": nics[:_SHOWN],
        "kernel_log_from": next((found for n in range(1, 20) if (found := at(n))), None),
    }
