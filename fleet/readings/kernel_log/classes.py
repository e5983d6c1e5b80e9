"""What an Xid asks for: NVIDIA's public catalogue of Xid errors, put into six classes.

app: restart the program. reset: reset the card or reboot. hardware: quarantine. ask: a person
decides. info: note it. follow: another event tells what it means.
"""

from __future__ import annotations

from typing import Literal

from fleet.readings.told import tell

XidClass = Literal["app", "reset", "hardware", "ask", "info", "follow"]
# The day of the public catalogue that this table follows: its version.
CATALOGUE = "2025-10-29"

_CODES: dict[XidClass, tuple[int | range, ...]] = {
    "app": (
        8, 11, 13, 25, 31, 32, range(39, 42), 43, 69, range(70, 73), range(75, 78), 80, 85, 94,
        range(126, 136),
    ),
    "info": (
        14, 37, 38, 44, 60, 63, 66, 67, 68, range(82, 85), 86, 88, 89, 92, 93, range(96, 107),
        107, 121, 139, 141, 152, 153, 160, 161,
    ),
    "follow": (45, 48, 108, 137, range(144, 151), 154),
    "reset": (46, 62, 74, 95, 109, 110, 119, 120, 136, 140, 143, 155, 156, 158),
    "hardware": (54, 64, 79),
}  # fmt: skip
_NAMES = {
    13: "graphics engine exception",
    31: "GPU page fault",
    43: "channel reset after a fault of the program",
    45: "clean-up before the program ends",
    48: "double-bit ECC error",
    63: "row remap recorded; reset at the next drain",
    64: "row remap failed; all reserved rows may be used",
    74: "NVLink error",
    79: "GPU fell off the bus",
    92: "many single-bit errors",
    94: "contained memory error",
    95: "uncontained memory error",
    119: "GSP did not answer",
    120: "GSP error",
    140: "uncorrectable ECC error",
    144: "NVLink error (SAW)",
    145: "NVLink error (RLW)",
    146: "NVLink error (TLW)",
    147: "NVLink error (TREX)",
    148: "NVLink error (NVLPW_CTRL)",
    149: "NVLink error (NETIR)",
    150: "NVLink error (MSE)",
    154: "recovery action changed",
}


def _table() -> dict[int, XidClass]:
    table: dict[int, XidClass] = {}
    for name, codes in _CODES.items():
        for code in codes:
            for number in code if isinstance(code, range) else (code,):
                table[number] = name
    return table


_TABLE = _table()


def xid_class(code: int) -> XidClass:
    """Return the class of a code; one that nobody knows means neither healthy nor broken: ask."""
    return _TABLE.get(code, "ask")


def xid_name(code: int) -> str:
    """Return what a code says, or its number alone."""
    return _NAMES.get(code, f"Xid {code}")


def xid_words(code: int) -> str:
    """Return the same as a sentence that can be told in another language."""
    return tell(_NAMES[code]) if code in _NAMES else tell("Xid %(code)s", code=code)
