"""What `nvidia-smi -q` says about its cards: memory errors, remapped rows, resets, throttling.

Names of sections as in drivers 470 to 580; a section that was not printed is unknown, not good.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from fleet.readings.nvidia_smi.dump import Dump, DumpGpu
from fleet.readings.nvidia_smi.throttle import is_throttled, read_reason_words
from fleet.readings.report import Finding, Severity
from fleet.readings.told import tell

# A counted error of a card's memory; single-bit errors are corrected and no fault.
_UNCORRECTED = ("Uncorrectable", "Double Bit/Total")
_MUST_BE_NO = {
    "remapped_rows_pending": "Remapped Rows/Pending",
    "remapped_rows_failure": "Remapped Rows/Remapping Failure Occurred",
    "retired_pages_pending": "Retired Pages/Pending Page Blacklist",
    "reset_required": "GPU Reset Status/Reset Required",
    # NVIDIA's measure for an exchange of the card, and repairs that wait for a reset (drivers since 545 and 570).
    "sram_threshold_exceeded": "ECC Errors/Aggregate/SRAM Threshold Exceeded",
    "channel_repair_pending": "ECC Errors/Channel Repair Pending",
    "tpc_repair_pending": "ECC Errors/TPC Repair Pending",
    "unrepairable_memory": "ECC Errors/Unrepairable Memory",
}
_IDS = {
    "reset_required": "reset_required",
    "sram_threshold_exceeded": "ecc",
    "unrepairable_memory": "ecc",
}
_RECOVERY = "GPU Recovery Action"
_UNTOLD = ("", "N/A", "None", "Not Supported", "[N/A]")
# What the NVSwitch fabric says of a card that may use it.
_FABRIC_GOOD = {
    "Fabric/State": ("Completed", "Not Supported"),
    "Fabric/Status": ("Success",),
    "Fabric/Health/Summary": ("Healthy",),
    "Fabric/Health/Bandwidth": ("Full",),
    "Fabric/Health/Route Unhealthy": ("False",),
}
_REASONS = ("Clocks Event Reasons/", "Clocks Throttle Reasons/")


def dump_findings(dump: Dump) -> Iterator[Finding]:
    """Tell what is wrong with each card, and what of the report is missing."""
    if dump.attached is not None and len(dump.gpus) != dump.attached:
        text = tell(
            "%(attached)s GPUs attached, %(printed)s printed",
            attached=dump.attached,
            printed=len(dump.gpus),
        )
        yield Finding("incomplete", "warn", text)
    elif dump.is_last_cut:
        text = tell("the last card is not printed to its end")
        yield Finding("incomplete", "warn", text)
    if dump.is_mixed:
        text = tell("a card is printed twice: more than one report in this text")
        yield Finding("mixed", "warn", text)
    for gpu in dump.gpus:
        yield from _card_findings(gpu)


def _card_findings(gpu: DumpGpu) -> Iterator[Finding]:
    for name in ("volatile", "aggregate"):
        if count := uncorrected(gpu, name):
            text = tell(
                "%(bus)s: %(count)s uncorrected ECC errors (%(which)s)",
                bus=gpu.bus,
                count=count,
                which=name,
            )
            yield Finding("ecc", "error", text, (gpu.line,))
    for key, path in _MUST_BE_NO.items():
        if gpu.values.get(path) == "Yes":
            id_ = _IDS.get(key, "remap")
            text = tell("%(bus)s: %(path)s is Yes", bus=gpu.bus, path=path)
            yield Finding(id_, "error", text, (gpu.line,))
    action = gpu.values.get(_RECOVERY, "")
    if action not in _UNTOLD and not is_failed(action):
        text = tell("%(bus)s: the driver asks for %(action)s", bus=gpu.bus, action=action)
        yield Finding("reset_required", "error", text, (gpu.line,))
    yield from _fabric_findings(gpu)
    failed = [path for path, text in gpu.values.items() if is_failed(text)]
    if failed:
        text = tell(
            "%(bus)s did not answer: %(words)s in %(places)s places",
            bus=gpu.bus,
            words=gpu.values[failed[0]],
            places=len(failed),
        )
        yield Finding("unknown_error", "error", text, (gpu.line,))
    reasons = active_reasons(gpu)
    if reasons and is_throttled(reasons):
        severity: Severity = "error" if {*reasons} - {"sw_power_cap", "sync_boost"} else "warn"
        text = tell("%(who)s is held back: %(reasons)s", who=gpu.bus, reasons=", ".join(reasons))
        yield Finding("throttled", severity, text, (gpu.line,))


def _fabric_findings(gpu: DumpGpu) -> Iterator[Finding]:
    """Tell a card that is not ready for NVLink over the switches: CUDA does not start on it."""
    odd = [
        f"{path} {word}"
        for path, good in _FABRIC_GOOD.items()
        if (word := gpu.values.get(path, "")) not in (*_UNTOLD, *good)
    ]
    if odd:
        text = tell("%(bus)s: its NVLink fabric says %(words)s", bus=gpu.bus, words=", ".join(odd))
        yield Finding("fabric_not_ready", "error", text, (gpu.line,))


def is_failed(text: str) -> bool:
    """Tell a value in whose place the card gave an error."""
    return text in ("ERR!", "Unknown Error", "[Unknown Error]") or any(
        words in text for words in ("GPU is lost", "GPU requires reset", "fallen off the bus")
    )


def uncorrected(gpu: DumpGpu, which: str) -> int | None:
    """Sum the uncorrected ECC errors of a card, `volatile` since boot or `aggregate`; None when not told."""
    begin = f"ECC Errors/{which.capitalize()}/"
    counts = [
        cell.number
        for path in gpu.values
        if path.startswith(begin) and any(word in path for word in _UNCORRECTED)
        if (cell := gpu.cell(path)) is not None and cell.number is not None
    ]
    return int(sum(counts)) if counts else None


def active_reasons(gpu: DumpGpu) -> tuple[str, ...] | None:
    """Name why a card is held back; None when the section was not printed."""
    words = {
        path.partition("/")[2]: text
        for path, text in gpu.values.items()
        if path.startswith(_REASONS) and text in ("Active", "Not Active")
    }
    return read_reason_words(words) if words else None


def dump_values(dump: Dump) -> dict[str, Any]:
    """Give the quantities of all cards; one value where all say the same."""
    cards = dump.gpus
    reasons = [r for g in cards if (r := active_reasons(g)) is not None]
    values: dict[str, Any] = {
        "gpu_count": None if dump.is_mixed else len(cards),
        "attached": dump.attached,
        "driver": dump.driver,
        "cuda": dump.cuda,
        "names": [g.values.get("Product Name") for g in cards],
        "memory_total_mib": _each(cards, lambda g: _number(g, "FB Memory Usage/Total")),
        "memory_used_mib": _each(cards, lambda g: _number(g, "FB Memory Usage/Used")),
        "ecc_uncorrected_volatile": _each(cards, lambda g: uncorrected(g, "volatile")),
        "ecc_uncorrected_aggregate": _each(cards, lambda g: uncorrected(g, "aggregate")),
        "recovery_action": _each(cards, lambda g: g.values.get(_RECOVERY)),
        "fabric_state": _each(cards, lambda g: g.values.get("Fabric/State")),
        "reasons_active": sorted({word for row in reasons for word in row}) if reasons else None,
        "throttled": any(is_throttled(r) for r in reasons) if reasons else None,
    }
    for key, path in _MUST_BE_NO.items():
        values[key] = _each(cards, lambda g, path=path: _yes(g.values.get(path)))  # type: ignore[misc]
    return values


def _number(gpu: DumpGpu, path: str) -> int | float | str | None:
    cell = gpu.cell(path)
    return cell.value if cell is not None and cell.number is not None else None


def _yes(word: str | None) -> bool | None:
    return {"Yes": True, "No": False}.get(word or "")


def _each(cards: tuple[DumpGpu, ...], take: Callable[[DumpGpu], Any]) -> Any:
    """Give one value where all cards say the same, else a list in their order."""
    told = [take(card) for card in cards]
    return told[0] if told and all(value == told[0] for value in told) else (told or None)
