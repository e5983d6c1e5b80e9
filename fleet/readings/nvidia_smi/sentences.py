"""Sentences that nvidia-smi prints in place of an answer, or in the middle of one.

The tool prints them on stdout, so they stand among rows and before tables.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from fleet.readings.text import Line

SentenceKind = Literal[
    "lost_gpu",
    "no_devices",
    "invalid_field",
    "driver_mismatch",
    "driver_not_loaded",
    "library_missing",
    "tool_missing",
    "no_permission",
    "usage",
    "nvlink_mig",
    "nvlink_inactive",
    "inforom",
    "nvml",
]

# What says that hardware or its driver is broken, against what says only that we asked wrongly.
HARDWARE_KINDS = frozenset({"lost_gpu", "no_devices", "driver_mismatch", "driver_not_loaded"})
ASKED_WRONGLY_KINDS = frozenset({"invalid_field", "usage", "no_permission"})


@dataclass(frozen=True)
class Sentence:
    """One sentence; `index` and `pci` name the card when the sentence does."""

    kind: SentenceKind
    text: str
    line: int
    index: int | None = None
    pci: str | None = None
    field: str | None = None


_HANDLE = re.compile(
    r"Unable to determine the device handle for (?:GPU|gpu) ?(?P<index>\d{1,3}(?=:))?:? ?"
    r"(?P<pci>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}(?:\.[0-9A-Fa-f])?)?"
)
_FIELD = re.compile(r'Field "(?P<field>[^"]{1,200})" is not a valid field to query')
_BUS = re.compile(r"\b[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]\b")
_LOST = re.compile(r"\bGPU is lost\b|\bGPU has fallen off the bus\b")

_NEEDLES: tuple[tuple[str, SentenceKind], ...] = (
    ("No devices were found", "no_devices"),
    ("Driver/library version mismatch", "driver_mismatch"),
    ("couldn't communicate with the NVIDIA driver", "driver_not_loaded"),
    ("Driver Not Loaded", "driver_not_loaded"),
    ("couldn't find libnvidia-ml", "library_missing"),
    ("NVML Shared Library Not Found", "library_missing"),
    ("Insufficient Permissions", "no_permission"),
    ("Nvlink queries are not supported for Devices in MIG mode", "nvlink_mig"),
    ("as all links are inActive", "nvlink_inactive"),
    ("command line argument must be used in conjunction", "usage"),
    ("Invalid combination of input arguments", "usage"),
    ("is not recognized", "usage"),
    # Printed behind the table, whose cells may all look well.
    ("infoROM is corrupted", "inforom"),
    ("Failed to initialize NVML", "nvml"),
    ("NVML:", "nvml"),
)
_TOOL_MISSING = re.compile(r"nvidia-smi: (?:command )?not found|nvidia-smi: No such file")


def read_sentence(line: Line) -> Sentence | None:
    """Return what one line says when it is a sentence of nvidia-smi, else None."""
    text = line.text.strip()
    if handle := _HANDLE.search(text):
        index = handle["index"]
        return Sentence(
            "lost_gpu", text, line.number, None if index is None else int(index), handle["pci"]
        )
    if bad := _FIELD.search(text):
        return Sentence("invalid_field", text, line.number, field=bad["field"])
    # A table cell or a CSV cell may say the same; those are read where they stand.
    if _LOST.search(text) and "," not in text and "|" not in text:
        bus = _BUS.search(text)
        return Sentence("lost_gpu", text, line.number, pci=bus[0] if bus else None)
    if _TOOL_MISSING.search(text):
        return Sentence("tool_missing", text, line.number)
    for needle, kind in _NEEDLES:
        if needle in text:
            return Sentence(kind, text, line.number)
    return None


def read_sentences(lines: Iterable[Line]) -> tuple[Sentence, ...]:
    """Return all sentences of a capture in their order."""
    return tuple(s for line in lines if (s := read_sentence(line)) is not None)
