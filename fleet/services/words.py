"""How long the words of a posted form may be: one table for every field, and a limit for those not named.

A browser keeps to the same limits by `maxlength`; this is for what is no browser.
"""

from __future__ import annotations

from collections.abc import Iterable

from django.utils.translation import gettext as _

from fleet.rules.inventory_file import BYTES_MAX as INVENTORY_MAX
from fleet.rules.nodeset import TEXT_MAX as SELECTION_MAX
from fleet.rules.refusals import Refused

REASON_MAX = 500
GOLDEN_MAX = 60_000
_FIELD_MAX = 200
CHECKSUMS_MAX = 400_000  # 2,000 files of 200 characters each
_MAXIMA = {
    "reason": REASON_MAX,
    "nodes": SELECTION_MAX,
    "next": 2000,
    "password": 4096,
    "note": 2000,
    "cause": 2000,
    "words": REASON_MAX,
    "inventory": INVENTORY_MAX,
    "host_key": 2000,
    # the form of a draft
    "args": 8000,
    "env": 8000,
    "golden": GOLDEN_MAX,
    # the form of a weights artefact; an index names every tensor
    "checksums": CHECKSUMS_MAX,
    "index": CHECKSUMS_MAX * 20,
}


class TooLong(Refused):
    """A field with more characters than it may have."""


def fields_demand(fields: Iterable[tuple[str, list[str]]]) -> None:
    """Raise TooLong, naming the field, for the first value or field name that is longer than its maximum."""
    for name, values in fields:
        most = _MAXIMA.get(name, _FIELD_MAX)
        # a browser counts a line break as one character and sends two
        found = max((len(value.replace("\r\n", "\n")) for value in values), default=0)
        if len(name) > _FIELD_MAX:
            name, most, found = f"{name[:20]}…", _FIELD_MAX, len(name)
        if found > most:
            raise TooLong(
                _(
                    "%(field)s: expected at most %(max)d characters, found %(found)d. Shorten it, then send again."
                )
                % {"field": name, "max": most, "found": found}
            )
