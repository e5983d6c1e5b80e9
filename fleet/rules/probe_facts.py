"""The facts of a probe while they are read: what a reader gets, and how it files what it found. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from fleet.readings.fabric.links import NetLinks
from fleet.readings.fabric.netdevs import NetDev
from fleet.readings.fabric.ports import IbPorts
from fleet.readings.nvidia_smi.dump import Dump
from fleet.readings.nvidia_smi.listing import Listing
from fleet.readings.nvidia_smi.query import QueryTable
from fleet.readings.text import number_lines
from fleet.readings.topo import Topology
from fleet.rules.message import say

# What only a person changes, what a cable or a card can change, what changes all the time.
DAY_S, HOUR_S, MINUTES_10_S = 86400.0, 3600.0, 600.0
_TEXT_SHOWN = 160


class SectionSeen(Protocol):
    """One section as the kernel stored it."""

    @property
    def rc(self) -> int | None: ...
    @property
    def truncated(self) -> bool: ...
    @property
    def error(self) -> str: ...
    @property
    def body(self) -> bytes: ...


@dataclass(frozen=True)
class FactSeen:
    """One parsed fact; `value` None with a `problem` when it could not be read."""

    key: str
    value: Any
    section: str
    unit: str = ""
    problem: str = ""
    ttl_s: float = DAY_S


@dataclass
class ProbeReading:
    """All that one probe told. `problems`: section to why it could not be read."""

    listing: Listing | None = None
    table: QueryTable | None = None
    topology: Topology | None = None
    report: Dump | None = None
    ports: IbPorts | None = None
    netdevs: tuple[NetDev, ...] | None = None
    links: NetLinks | None = None
    active_mtu: Mapping[str, int | None] | None = None
    facts: list[FactSeen] = field(default_factory=list)
    problems: dict[str, str] = field(default_factory=dict)


def counts_cards(listing: Listing) -> bool:
    """Whether a list tells how many cards there are: it has some, or says that there is none."""
    return bool(listing.gpus) or any(
        s.kind in ("no_devices", "lost_gpu") for s in listing.sentences
    )


def unreadable(command: str, text: str) -> str:
    """Say that an answer was not understood, with its first line."""
    line = first_line(text) or "-"
    return say("%(command)s: the answer was not understood: %(line)s", command=command, line=line)


def first_line(text: str) -> str:
    """Return the first line that says anything."""
    for line in number_lines(text[:4000]):
        if line.text.strip():
            return line.text.strip()[:_TEXT_SHOWN]
    return ""


def add(
    reading: ProbeReading,
    section: str,
    problem: str,
    values: Mapping[str, Any],
    units: Mapping[str, str] | None = None,
    ttl_s: float = DAY_S,
) -> None:
    """File the facts of one section; with a `problem` they have no value and the section is unread."""
    if problem:
        reading.problems[section] = problem
    for key, value in values.items():
        unit = (units or {}).get(key, "")
        reading.facts.append(FactSeen(key, value, section, unit, problem, ttl_s))


Reader = Callable[[ProbeReading, str, str, str, str], None]


def simple(
    parse: Callable[[str], Any],
    keys: Callable[[Any], Mapping[str, Any]],
    units: Mapping[str, str] | None = None,
    ttl_s: float = DAY_S,
) -> Reader:
    """Build a reader from a parser that returns None for what it does not understand."""

    def read(reading: ProbeReading, name: str, text: str, problem: str, command: str) -> None:
        found = None if problem else parse(text)
        if found is None and not problem:
            problem = unreadable(command, text)
        add(reading, name, problem, keys(found), units, ttl_s)

    return read


def of(found: Any, attribute: str) -> Any:
    """Return an attribute of what was read, None when nothing was."""
    return None if found is None else getattr(found, attribute)


def as_rows(found: Any) -> list[dict[str, Any]] | None:
    """Return dataclasses as plain objects."""
    return None if found is None else [asdict(row) for row in found]
