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
    13: tell("graphics engine exception"),
    31: tell("GPU page fault"),
    43: tell("channel reset after a fault of the program"),
    45: tell("clean-up before the program ends"),
    48: tell("double-bit ECC error"),
    63: tell("row remap recorded; reset at the next drain"),
    64: tell("row remap failed; all reserved rows may be used"),
    74: tell("NVLink error"),
    79: tell("GPU fell off the bus"),
    92: tell("many single-bit errors"),
    94: tell("contained memory error"),
    95: tell("uncontained memory error"),
    119: tell("GSP did not answer"),
    120: tell("GSP error"),
    140: tell("uncorrectable ECC error"),
    144: tell("NVLink error (SAW)"),
    145: tell("NVLink error (RLW)"),
    146: tell("NVLink error (TLW)"),
    147: tell("NVLink error (TREX)"),
    148: tell("NVLink error (NVLPW_CTRL)"),
    149: tell("NVLink error (NETIR)"),
    150: tell("NVLink error (MSE)"),
    154: tell("recovery action changed"),
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


def xid_words(code: int) -> str:
    """Return what a code says, or its number alone; a sentence that can be told in another language."""
    return _NAMES.get(code) or tell("Xid %(code)s", code=code)
