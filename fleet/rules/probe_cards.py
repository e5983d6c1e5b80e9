"""The cards of a node as one probe found them: readings and health of each, also of the one that is missing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fleet.readings.nvidia_smi.cells import Cell
from fleet.readings.nvidia_smi.dump import Dump
from fleet.readings.nvidia_smi.query import QueryRow, QueryTable
from fleet.readings.nvidia_smi.throttle import is_throttled, read_reasons
from fleet.readings.topo import Topology
from fleet.rules.message import say
from fleet.rules.probe_reading import ProbeReading

OK, ATTENTION, FAILED, UNKNOWN = "ok", "attention", "failed", "unknown"

# column of nvidia-smi -> field of the stored card
_NUMBERS = {
    "memory.total": "memory_total_mib",
    "memory.used": "memory_used_mib",
    "clocks.sm": "sm_clock_mhz",
    "temperature.gpu": "temperature_c",
    "power.draw": "power_w",
    "utilization.gpu": "utilization_pct",
    "ecc.errors.uncorrected.volatile.total": "ecc_uncorrected",
}
_WORDS = {
    "uuid": "uuid",
    "name": "name",
    "pci.bus_id": "bus",
    "serial": "serial",
    "pstate": "pstate",
}
# without these nothing can be said about a card
_NEEDED = ("uuid", "memory.total", "temperature.gpu")
_ECC = "ecc.errors.uncorrected.volatile.total"


@dataclass(frozen=True)
class CardSeen:
    """One card: stored fields (None for no reading) and its health with the reason."""

    index: int
    health: str
    explanation: str = ""
    fields: dict[str, Any] = field(default_factory=dict)


def read_cards(reading: ProbeReading, expected: int) -> list[CardSeen]:
    """Return one card for each index of the class and each that answered; a missing one is failed.

    When the tool itself could not be asked every card is unknown, not failed.
    """
    table = reading.table
    rows = {row.index: row for row in table.rows if row.index is not None} if table else {}
    indexes = sorted({*range(expected), *rows})
    return [_card(index, rows.get(index), reading) for index in indexes]


def _card(index: int, row: QueryRow | None, reading: ProbeReading) -> CardSeen:
    table = reading.table
    if table is None or (row is None and not _was_asked(reading)):
        return CardSeen(index, UNKNOWN, reading.problems.get("gpu-query", ""))
    if row is None:
        return CardSeen(index, FAILED, _missing(index, reading))
    fields = _fields(table, row) | _places(index, reading.topology)
    health, explanation = _judge(table, row)
    if health == OK and (why := _rows_of_memory(reading.report, str(fields["bus"]))):
        health, explanation = ATTENTION, why
    return CardSeen(index, health, explanation, fields)


def _was_asked(reading: ProbeReading) -> bool:
    """Tell whether the tool listed cards or named one it could not reach, so that a gap means a lost card."""
    table = reading.table
    return bool(table and (table.rows or any(s.kind == "lost_gpu" for s in table.sentences)))


def _missing(index: int, reading: ProbeReading) -> str:
    sentences = reading.table.sentences if reading.table else ()
    for sentence in sentences:
        if sentence.index == index:
            return say("nvidia-smi says: %(text)s", text=sentence.text[:160])
    return say("nvidia-smi does not list GPU %(index)s.", index=index)


def _fields(table: QueryTable, row: QueryRow) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for column, name in _NUMBERS.items():
        cell = table.cell(row, column)
        fields[name] = cell.number if cell is not None and cell.state == "ok" else None
    for column, name in _WORDS.items():
        cell = table.cell(row, column)
        fields[name] = cell.text[:64] if cell is not None and cell.state == "ok" else ""
    cell = table.cell(row, "clocks_event_reasons.active")
    fields["throttle_reasons"] = cell.text[:24] if cell is not None and cell.state == "ok" else ""
    return fields


def _places(index: int, topology: Topology | None) -> dict[str, Any]:
    name = f"GPU{index}"
    row = topology.row(name) if topology else None
    if topology is None or row is None:
        return {"numa": None, "nic": ""}
    near = topology.nearest_nics(name)
    nic = topology.nic_name(near[1][0])[:16] if near and near[0] == "PIX" else ""
    numa = row.numa_affinity if isinstance(row.numa_affinity, int) else None
    return {"numa": numa, "nic": nic}


def _rows_of_memory(report: Dump | None, bus: str) -> str:
    """Return why the card's memory wants attention, by its report; empty when it does not."""
    gpu = next((g for g in report.gpus if g.bus.lower() == bus.lower()), None) if report else None
    values = gpu.values if gpu is not None else {}
    if values.get("Remapped Rows/Remapping Failure Occurred") == "Yes":
        return say("No spare row is left for a bad one in its memory: replace the card.")
    if values.get("Remapped Rows/Pending") == "Yes":
        return say("A row of its memory waits to be replaced: reset it when it is idle.")
    return ""


def _judge(table: QueryTable, row: QueryRow) -> tuple[str, str]:
    if dead := [cell for cell in row.cells if cell.has_failed]:
        return FAILED, say("nvidia-smi answers %(text)s for it.", text=dead[0].text[:60])
    needed: list[Cell | None] = [table.cell(row, column) for column in _NEEDED]
    if any(cell is None or cell.state != "ok" for cell in needed):
        return UNKNOWN, say("nvidia-smi left out its identity, memory or temperature.")
    errors = table.cell(row, _ECC)
    if errors is not None and errors.number:
        count = int(errors.number)
        return ATTENTION, say("%(n)s uncorrected ECC errors since its last reset.", n=count)
    reasons = read_reasons(table, row)
    if reasons and is_throttled(reasons):
        return ATTENTION, say("It is throttled: %(reasons)s.", reasons=", ".join(reasons))
    return OK, ""
