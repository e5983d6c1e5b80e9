"""Facts of the cards of a node: firmware, modes, limits, remapped rows, and how they hang together. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fleet.readings.nvidia_smi.cells import Cell
from fleet.readings.nvidia_smi.dump import Dump, DumpGpu, parse_dump
from fleet.readings.topo import Topology, parse_topo
from fleet.rules.message import say
from fleet.rules.probe_facts import DAY_S, HOUR_S, FactSeen, ProbeReading, add, unreadable

_POWER = ("GPU Power Readings", "Module Power Readings", "Power Readings")
# fact -> where `nvidia-smi -q` prints it, in the drivers of the last years
_PATHS: dict[str, tuple[str, ...]] = {
    "vbios": ("VBIOS Version",),
    "inforom": ("Inforom Version/Image Version",),
    "gsp_firmware": ("GSP Firmware Version",),
    "ecc_mode": ("ECC Mode/Current", "Ecc Mode/Current"),
    "mig_mode": ("MIG Mode/Current",),
    "persistence_mode": ("Persistence Mode",),
    "power_limit_w": tuple(
        f"{head}/{name}" for head in _POWER for name in ("Current Power Limit", "Power Limit")
    ),
    "remap_pending": ("Remapped Rows/Pending",),
    "remap_failure": ("Remapped Rows/Remapping Failure Occurred",),
    "remapped_uncorrectable": ("Remapped Rows/Uncorrectable Error",),
    "retired_pages": ("Retired Pages/Double Bit ECC",),
    "memory_temperature": ("Temperature/Memory Current Temp",),
    "pcie_width": ("PCI/GPU Link Info/Link Width/Current",),
    "fabric_state": ("Fabric/State",),
    "recovery_action": ("GPU Recovery Action",),
}
_UNITS = {"power_limit_w": "W", "memory_temperature": "°C"}
# What a card can change by itself between two probes.
_MOVES = {
    "remap_pending",
    "remap_failure",
    "remapped_uncorrectable",
    "retired_pages",
    "memory_temperature",
    "recovery_action",
    "fabric_state",
}


def read_report(reading: ProbeReading, name: str, text: str, problem: str, command: str) -> None:
    """Read `nvidia-smi -q`: one value when all cards agree, else one for each index."""
    found = None if problem else parse_dump(text)
    if found is not None and not found.gpus:
        problem, found = unreadable(command, text), None
    if found is not None and found.is_mixed:
        problem, found = say("%(command)s: it names a card twice.", command=command), None
    reading.report = found
    version = found.cuda if found is not None else None
    add(reading, name, problem, {"cuda_version": version})
    for key, paths in _PATHS.items():
        ttl_s = HOUR_S if key in _MOVES else DAY_S
        value, why = (None, problem) if found is None else _of_cards(found, paths, command)
        reading.facts.append(FactSeen(key, value, name, _UNITS.get(key, ""), why, ttl_s))


def _of_cards(found: Dump, paths: tuple[str, ...], command: str) -> tuple[Any, str]:
    """Return a value, or None with the reason why the report does not give one."""
    cells = {str(place): _cell(gpu, paths) for place, gpu in enumerate(found.gpus)}
    if found.attached != len(found.gpus):
        lost = say("%(command)s: it prints %(n)s of %(all)s cards.", command=command,
                   n=len(found.gpus), all=found.attached or "?")  # fmt: skip
        return None, lost
    silent = [place for place, cell in cells.items() if cell is None or cell.has_failed]
    if silent:
        return None, say(
            "%(command)s: it does not print %(field)s of GPU %(gpus)s.",
            command=command,
            field=paths[0],
            gpus=", ".join(silent),
        )
    values = {place: _value(cell) for place, cell in cells.items() if cell is not None}
    told = list(values.values())
    return (told[0] if all(value == told[0] for value in told) else values), ""


def _cell(gpu: DumpGpu, paths: tuple[str, ...]) -> Cell | None:
    cells = [cell for path in paths if (cell := gpu.cell(path)) is not None and cell.text]
    return cells[0] if cells else None


def _value(cell: Cell) -> int | float | str:
    """A card that says N/A has answered: its class has no such thing."""
    return cell.text if cell.value is None else cell.value


def read_topology(reading: ProbeReading, name: str, text: str, problem: str, command: str) -> None:
    """Read `nvidia-smi topo -m`: the matrix as printed, and its parts for comparing."""
    found = None if problem else parse_topo(text)
    if found is not None and not found.columns and not found.sentences:
        problem, found = unreadable(command, text), None
    reading.topology = found
    matrix = found if found is not None and found.columns else None
    if matrix is None and not problem:
        # A lost card: the tool prints a sentence and no matrix. The verdict tells of it.
        said = found.sentences[0].text[:160] if found is not None and found.sentences else "-"
        why = say("%(command)s: no matrix: %(said)s", command=command, said=said)
        for key in _MATRIX:
            reading.facts.append(FactSeen(key, None, name, "", why))
        return
    parts = {key: None if matrix is None else part(matrix) for key, part in _MATRIX.items()}
    add(reading, name, problem, parts)


def _whole(found: Topology) -> dict[str, Any]:
    return {
        "columns": list(found.columns),
        "nics": dict(found.nic_legend),
        "rows": [
            {
                "name": row.name,
                "links": list(row.links),
                "cpus": row.cpu_affinity,
                "numa": row.numa_affinity,
            }
            for row in found.rows
        ],
    }


def _cells(found: Topology, columns: tuple[str, ...]) -> list[list[str | None]]:
    return [[found.link(gpu, column) for column in columns] for gpu in found.gpus]


def _cards_matrix(found: Topology) -> dict[str, Any]:
    cells = _cells(found, found.gpus)
    for place, row in enumerate(cells):
        row[place] = "X"
    return {"devices": list(found.gpus), "cells": cells}


def _nic_matrix(found: Topology) -> dict[str, Any]:
    names = [found.nic_name(column) for column in found.nics]
    return {"gpus": list(found.gpus), "nics": names, "cells": _cells(found, found.nics)}


def _rows_of(found: Topology, attribute: str) -> list[Any]:
    rows = [found.row(gpu) for gpu in found.gpus]
    return [None if row is None else getattr(row, attribute) for row in rows]


_MATRIX: Mapping[str, Callable[[Topology], Any]] = {
    "topo": _whole,
    "nvlink_matrix": _cards_matrix,
    "nic_matrix": _nic_matrix,
    "gpu_numa": lambda found: _rows_of(found, "numa_affinity"),
    "gpu_cpus": lambda found: _rows_of(found, "cpu_affinity"),
}
