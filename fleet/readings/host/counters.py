"""Reads the counters of network ports, and what changed in them between two readings.

A counter is a count since its last reset. Missing on one side or gone backwards it says nothing
about the time between: its change is unknown, never zero. Not in charge of what a change means.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from fleet.readings.host.whole import count, whole_lines

_HEAD = re.compile(
    r"^\s*(?:NIC|PHY|Standard) statistics(?: for [\w.@-]{1,40})?:\s*$", re.IGNORECASE
)
_STATISTIC = re.compile(r"\s*(\S.{0,159}?)\s*:\s*(\d{1,20})\s*", re.ASCII)
# The last colon: the path of a PCI device holds colons itself.
_PATH = re.compile(r"(?!grep: )(\S{1,400}):([^:]{0,60})")
_PORT = re.compile(
    r"(?:^|/)infiniband/([\w.-]{1,64})/ports/(\d{1,3})/((?:hw_)?counters)/([\w.-]{1,100})$",
    re.ASCII,
)
_RELATIVE = re.compile(
    r"(?:\./)*((?:[\w.-]{1,64}/){0,6}?(?:(?:hw_)?counters/)?[\w.-]{1,100})", re.ASCII
)
# A setting among the counters: how many milliseconds the kernel keeps a value.
_SETTINGS = frozenset(("lifespan",))


@dataclass(frozen=True)
class Counters:
    """Counts by name. `unknown`: names that stand here without one clear count."""

    values: Mapping[str, int] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()
    unread: tuple[int, ...] = ()
    ends: bool = True


@dataclass(frozen=True)
class Changes:
    """What changed between two readings, by name; None is unknown.

    `missing` stood on one side only, `went_back` shows a reset between the two: what else was
    reset with it may have passed its old value again, which no reading can see.
    """

    by_name: Mapping[str, int | None]
    missing: tuple[str, ...]
    went_back: tuple[str, ...]

    @property
    def is_known(self) -> bool:
        """Whether every counter of either side has a change."""
        return bool(self.by_name) and None not in self.by_name.values()


def parse_ethtool_stats(text: str) -> Counters | None:
    """Read `ethtool -S DEV`; None for anything but one such output. Source: ethtool(8).

    Units are those of the driver: bytes, packets or events.
    """
    lines, ends = whole_lines(text)
    if sum(bool(_HEAD.match(line.text)) for line in lines) != 1:
        return None
    told: list[tuple[str, int | None]] = []
    unread: list[int] = []
    has_begun = False
    for line in lines:
        if _HEAD.match(line.text):
            has_begun = True
        elif (found := _STATISTIC.fullmatch(line.text)) and has_begun:
            told.append((found[1], count(found[2], 2**64)))
        elif line.text.strip():
            unread.append(line.number)
    return _counters(told, unread, ends) if told else None


def parse_port_counters(text: str) -> Counters | None:
    """Read `grep -rH . .../infiniband/DEV/ports/PORT/counters .../hw_counters`: `path:value` lines.

    Names are `DEV/PORT/counters/NAME`, or the path as given when it is relative. Units as in the
    kernel's Documentation/ABI/stable/sysfs-class-infiniband: port_rcv_data and port_xmit_data
    count four bytes, all others events or packets.
    """
    lines, ends = whole_lines(text)
    told: list[tuple[str, int | None]] = []
    unread: list[int] = []
    foreign = False
    for line in lines:
        found = _PATH.fullmatch(line.text)
        name = _counter_name(found[1]) if found else None
        if found is None or name is None:
            if line.text.strip():
                unread.append(line.number)
                foreign = foreign or not line.text.startswith("grep: ")
        elif name.rpartition("/")[2] not in _SETTINGS:
            told.append((name, count(found[2].strip(), 2**64)))
    if foreign:
        # Among other output a bare `name:1` may be anything.
        told = [(name, value) for name, value in told if "/" in name]
    return _counters(told, unread, ends) if any(v is not None for _, v in told) else None


def _counter_name(path: str) -> str | None:
    if found := _PORT.search(path):
        return f"{found[1]}/{found[2]}/{found[3]}/{found[4]}"
    if path.startswith("/"):
        return None
    found = _RELATIVE.fullmatch(path)
    return found[1] if found else None


def _counters(told: Iterable[tuple[str, int | None]], unread: list[int], ends: bool) -> Counters:
    """A name that stands twice belongs to two outputs: it has no one count."""
    values: dict[str, int] = {}
    unknown: dict[str, None] = {}
    for name, value in told:
        if name in values or name in unknown or value is None:
            values.pop(name, None)
            unknown[name] = None
        else:
            values[name] = value
    return Counters(values, tuple(unknown), tuple(unread), ends)


def split_readings(
    text: str, parse: Callable[[str], Counters | None]
) -> tuple[Counters, Counters] | None:
    """Return the two readings of a text that holds the same counters twice, one behind the other; else None."""
    rows = text.splitlines(keepends=True)
    first = next((row.strip().rpartition(":")[0] for row in rows if _is_count_row(row)), "")
    starts = [n for n, row in enumerate(rows) if first and row.strip().rpartition(":")[0] == first]
    if len(starts) != 2:
        return None
    # The title of the second reading stands above its first counter.
    middle = starts[1]
    while middle > starts[0] + 1 and not _is_count_row(rows[middle - 1]):
        middle -= 1
    before, after = parse("".join(rows[:middle])), parse("".join(rows[middle:]))
    if before is None or after is None or before.unknown or after.unknown:
        return None
    return (before, after) if set(before.values) == set(after.values) else None


def _is_count_row(row: str) -> bool:
    return re.search(r":\s*[0-9]{1,20}\s*$", row) is not None


def counter_changes(before: Counters, after: Counters) -> Changes:
    """Return what each counter grew by between two readings of the same port."""
    names = dict.fromkeys([*before.values, *before.unknown, *after.values, *after.unknown])
    by_name: dict[str, int | None] = {}
    missing: list[str] = []
    went_back: list[str] = []
    for name in names:
        old, new = before.values.get(name), after.values.get(name)
        by_name[name] = None
        if old is None or new is None:
            missing.append(name)
        elif new < old:
            went_back.append(name)
        else:
            by_name[name] = new - old
    return Changes(by_name, tuple(missing), tuple(went_back))
