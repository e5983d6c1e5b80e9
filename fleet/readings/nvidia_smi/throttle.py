"""Why a card does not run at its full clock: the words and the mask of `clocks_event_reasons`.

Bits as in NVIDIA's NVML reference (nvmlClocksEventReasons).
"""

from __future__ import annotations

from collections.abc import Mapping

from fleet.readings.nvidia_smi.query import QueryRow, QueryTable

REASON_BITS = {
    "gpu_idle": 0x1,
    "applications_clocks_setting": 0x2,
    "sw_power_cap": 0x4,
    "hw_slowdown": 0x8,
    "sync_boost": 0x10,
    "sw_thermal_slowdown": 0x20,
    "hw_thermal_slowdown": 0x40,
    "hw_power_brake_slowdown": 0x80,
    "display_clocks_setting": 0x100,
}
# An idle card and a clock that somebody set are no trouble.
HARMLESS = frozenset({"gpu_idle", "applications_clocks_setting", "display_clocks_setting"})
_PREFIX = "clocks_event_reasons."
# `nvidia-smi -q` writes them as words of prose, some in another form.
_PROSE = {"idle": "gpu_idle", "display_clock_setting": "display_clocks_setting"}


def read_reasons(table: QueryTable, row: QueryRow) -> tuple[str, ...] | None:
    """Return the active reasons of one card, from words and mask; None when neither was asked."""
    told = False
    active: set[str] = set()
    for field in table.fields:
        cell = table.cell(row, field) if field.startswith(_PREFIX) else None
        if cell is None or cell.state != "ok":
            continue
        name = field.removeprefix(_PREFIX)
        if name == "active":
            bits = cell.bits
            told = told or bits is not None
            active |= {reason for reason, bit in REASON_BITS.items() if (bits or 0) & bit}
        elif cell.text in ("Active", "Not Active"):
            told = True
            # "Not Active" contains "Active": only the whole word counts.
            if cell.text == "Active":
                active.add(name)
    return tuple(r for r in REASON_BITS if r in active) if told else None


def read_reason_words(words: Mapping[str, str]) -> tuple[str, ...]:
    """Return the active reasons of `nvidia-smi -q`, whose keys are such as `HW Thermal Slowdown`."""
    active = set()
    for title, word in words.items():
        name = title.rpartition("/")[2].lower().replace(" ", "_")
        if word == "Active":
            active.add(_PROSE.get(name, name))
    return tuple(r for r in REASON_BITS if r in active)


def is_throttled(reasons: tuple[str, ...]) -> bool:
    """Return whether anything but idleness or a chosen clock holds the card back."""
    return bool(set(reasons) - HARMLESS)
