"""Reads the metrics of GPU exporters: nvidia_gpu_exporter and DCGM.

Under MIG one card appears once an instance; a field that could not be read is a sentinel.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fleet.readings.metrics.exposition import Exposition, read_value

_SMI = "nvidia_smi_"
_SMI_FIELDS = {
    "temperature_gpu": "temperature_c",
    "power_draw_watts": "power_w",
    "utilization_gpu_ratio": "utilization",
    "memory_used_bytes": "memory_used_bytes",
    "memory_total_bytes": "memory_total_bytes",
    "mig_mode_current": "mig",
    "ecc_errors_uncorrected_volatile_total": "ecc_uncorrected_volatile",
    "compute_apps": "compute_apps",
    "clocks_current_sm_clock_hz": "sm_clock_hz",
    "clocks_event_reasons_active": "reasons",
}
_SMI_INFO = {
    "name": "name",
    "driver_version": "driver",
    "driver_model_current": "driver_model",
    "index": "index",
    "pci_bus_id": "bus",
}
_DCGM_FIELDS = {
    "DCGM_FI_DEV_GPU_TEMP": "temperature_c",
    "DCGM_FI_DEV_POWER_USAGE": "power_w",
    "DCGM_FI_DEV_GPU_UTIL": "utilization_percent",
    "DCGM_FI_DEV_SM_CLOCK": "sm_clock_mhz",
    "DCGM_FI_DEV_FB_USED": "fb_used",
    "DCGM_FI_DEV_FB_FREE": "fb_free",
    "DCGM_FI_DEV_XID_ERRORS": "xid",
    "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": "ecc_uncorrected_volatile",
    "DCGM_FI_DEV_ROW_REMAP_FAILURE": "row_remap_failure",
    "DCGM_FI_DEV_ROW_REMAP_PENDING": "row_remap_pending",
    "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": "uncorrectable_remapped_rows",
}


@dataclass(frozen=True)
class CardMetrics:
    """One card, or one MIG instance of it."""

    uuid: str
    instance: str | None
    words: Mapping[str, str]
    numbers: Mapping[str, float | None]


def read_cards(exposition: Exposition) -> tuple[CardMetrics, ...]:
    """Return cards and MIG instances in the order of the text."""
    words: dict[tuple[str, str | None], dict[str, str]] = {}
    numbers: dict[tuple[str, str | None], dict[str, float | None]] = {}
    for sample in exposition.samples:
        name, labels = sample.series.name, sample.series.labels
        key: tuple[str, str | None]
        if name.startswith(_SMI) and "uuid" in labels:
            key = (labels["uuid"], None)
            field = _SMI_FIELDS.get(name.removeprefix(_SMI))
            if name == "nvidia_smi_gpu_info":
                told = {ours: labels[n] for n, ours in _SMI_INFO.items() if n in labels}
                words.setdefault(key, {}).update(told)
            elif field is not None:
                numbers.setdefault(key, {})[field] = read_value(sample.value)
        elif (dcgm := _DCGM_FIELDS.get(name)) is not None and "UUID" in labels:
            key = (labels["UUID"], labels.get("GPU_I_ID"))
            numbers.setdefault(key, {})[dcgm] = read_value(sample.value)
            words.setdefault(key, {}).update(_dcgm_words(labels))
    keys = dict.fromkeys([*numbers, *words])
    return tuple(
        CardMetrics(
            uuid, instance, words.get((uuid, instance), {}), numbers.get((uuid, instance), {})
        )
        for uuid, instance in keys
    )


def _dcgm_words(labels: Mapping[str, str]) -> dict[str, str]:
    host = labels.get("Hostname") or labels.get("hostname")
    told = {"index": labels.get("gpu"), "name": labels.get("modelName"), "host": host}
    return {name: word for name, word in told.items() if word}
