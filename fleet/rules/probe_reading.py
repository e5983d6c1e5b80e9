"""Turns the sections of a probe into facts, cards and what could not be read. Pure: bytes in, plain values out.

A fact without a value carries the reason. Not in charge of the verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from fleet.readings.host.clock import parse_chronyc_tracking, parse_uptime_since
from fleet.readings.host.disks import parse_df
from fleet.readings.host.docker import parse_docker_ps, parse_docker_versions
from fleet.readings.host.memory import parse_free
from fleet.readings.host.processors import parse_nproc, parse_uname
from fleet.readings.host.ready_marks import parse_ready_marks
from fleet.readings.nvidia_smi.listing import Listing, parse_listing
from fleet.readings.nvidia_smi.query import QueryTable, parse_query
from fleet.readings.text import decode, number_lines
from fleet.readings.topo import Topology, parse_topo
from fleet.rules.gather import GPU_FIELDS
from fleet.rules.message import say

DAY_S, MINUTES_10_S = 86400.0, 600.0
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
    facts: list[FactSeen] = field(default_factory=list)
    problems: dict[str, str] = field(default_factory=dict)


def read_probe(
    sections: Mapping[str, SectionSeen], commands: Mapping[str, str], boot_id: str = ""
) -> ProbeReading:
    """Read every section that `commands` asked for; a missing one is a problem like any other."""
    reading = ProbeReading()
    for name, command in commands.items():
        section = sections.get(name)
        problem = "" if _may_be_read(name, section) else _why_not(command, section)
        text = decode(section.body) if section is not None else ""
        _READERS[name](reading, name, text, problem, command)
    if boot_id:
        reading.facts.append(FactSeen("boot_id", boot_id, "", ttl_s=DAY_S))
    return reading


def _may_be_read(name: str, section: SectionSeen | None) -> bool:
    if section is None or section.rc is None or section.truncated or section.error:
        return False
    # grep says 1 for "nothing found"; nvidia-smi tells of a lost card on stdout and exits with its code
    allowed = {"models": {0, 1}}.get(name, {0})
    is_card = name in {"gpu-list", "gpu-query", "topo"} and section.rc not in {124, 126, 127}
    return section.rc in allowed or is_card


def _why_not(command: str, section: SectionSeen | None) -> str:
    if section is None:
        return say("%(command)s: the node sent no answer.", command=command)
    if section.rc == 127:
        return say("%(command)s: the command was not found on the node.", command=command)
    if section.rc == 124:
        return say("%(command)s: no answer before its deadline.", command=command)
    if section.truncated:
        return say("%(command)s: the answer was longer than is kept.", command=command)
    said = section.error or _first_line(decode(section.body)) or "-"
    return say("%(command)s: exit code %(rc)s: %(said)s", command=command, rc=section.rc, said=said)


def _unreadable(command: str, text: str) -> str:
    line = _first_line(text) or "-"
    return say("%(command)s: the answer was not understood: %(line)s", command=command, line=line)


def _first_line(text: str) -> str:
    for line in number_lines(text[:4000]):
        if line.text.strip():
            return line.text.strip()[:_TEXT_SHOWN]
    return ""


def _listing(reading: ProbeReading, name: str, text: str, problem: str, command: str) -> None:
    found = None if problem else parse_listing(text)
    if found is not None and not (found.gpus or found.sentences):
        problem, found = _unreadable(command, text), None
    reading.listing = found
    count = len(found.gpus) if found else None
    names = sorted({gpu.name for gpu in found.gpus}) if found else []
    _add(reading, name, problem, {"gpu_count": count, "gpu_name": ", ".join(names) or None})


def _query(reading: ProbeReading, name: str, text: str, problem: str, command: str) -> None:
    found = None if problem else parse_query(text, GPU_FIELDS)
    if found is not None and not (found.rows or found.sentences):
        problem, found = _unreadable(command, text), None
    reading.table = found
    cells = found.column("driver_version") if found else []
    versions = sorted({str(cell.value) for cell in cells if cell.value is not None})
    _add(reading, name, problem, {"driver_version": ", ".join(versions) or None})


def _topo(reading: ProbeReading, name: str, text: str, problem: str, command: str) -> None:
    found = None if problem else parse_topo(text)
    if found is not None and not found.columns and not found.sentences:
        problem, found = _unreadable(command, text), None
    reading.topology = found
    value = None
    if found is not None and found.columns:
        value = {
            "columns": list(found.columns),
            "nics": dict(found.nic_legend),
            "rows": [
                {
                    "name": row.name,
                    "links": list(row.links),
                    "cpus": row.cpu_affinity,
                    "numa": row.numa_affinity,
                }
                for row in found.rows
            ],
        }
    _add(reading, name, problem, {"topo": value})


def _add(
    reading: ProbeReading,
    section: str,
    problem: str,
    values: Mapping[str, Any],
    units: Mapping[str, str] | None = None,
    ttl_s: float = DAY_S,
) -> None:
    if problem:
        reading.problems[section] = problem
    for key, value in values.items():
        unit = (units or {}).get(key, "")
        reading.facts.append(FactSeen(key, value, section, unit, problem, ttl_s))


Reader = Callable[[ProbeReading, str, str, str, str], None]


def _simple(
    parse: Callable[[str], Any],
    keys: Callable[[Any], Mapping[str, Any]],
    units: Mapping[str, str] | None = None,
    ttl_s: float = DAY_S,
) -> Reader:
    """Build a reader from a parser that returns None for what it does not understand."""

    def read(reading: ProbeReading, name: str, text: str, problem: str, command: str) -> None:
        found = None if problem else parse(text)
        if found is None and not problem:
            problem = _unreadable(command, text)
        _add(reading, name, problem, keys(found), units, ttl_s)

    return read


def _of(found: Any, attribute: str) -> Any:
    return None if found is None else getattr(found, attribute)


def _docker_daemon(text: str) -> str | None:
    """Return the version of the daemon; None when only the client answered."""
    found = parse_docker_versions(text)
    return found.server if found else None


def _rows(found: Any) -> list[dict[str, Any]] | None:
    return None if found is None else [asdict(row) for row in found]


_READERS: dict[str, Reader] = {
    "gpu-list": _listing,
    "gpu-query": _query,
    "topo": _topo,
    "shm": _simple(
        parse_df,
        lambda disk: {"shm_total": _of(disk, "total_bytes"), "shm_used": _of(disk, "used_bytes")},
        {"shm_total": "B", "shm_used": "B"},
        MINUTES_10_S,
    ),
    "model-disk": _simple(
        parse_df,
        lambda disk: {
            "model_disk_total": _of(disk, "total_bytes"),
            "model_disk_free": _of(disk, "free_bytes"),
        },
        {"model_disk_total": "B", "model_disk_free": "B"},
        MINUTES_10_S,
    ),
    "memory": _simple(
        parse_free,
        lambda memory: {
            "memory_total": _of(memory, "total_bytes"),
            "memory_available": _of(memory, "available_bytes"),
        },
        {"memory_total": "B", "memory_available": "B"},
        MINUTES_10_S,
    ),
    "kernel": _simple(parse_uname, lambda word: {"kernel": word}),
    "cpus": _simple(parse_nproc, lambda count: {"cpu_count": count}),
    "boot": _simple(parse_uptime_since, lambda word: {"booted_at": word}),
    "clock": _simple(
        parse_chronyc_tracking,
        lambda clock: {
            "clock_offset": _of(clock, "offset_s"),
            "clock_is_synchronised": _of(clock, "is_synchronised"),
        },
        {"clock_offset": "s"},
        MINUTES_10_S,
    ),
    "docker": _simple(_docker_daemon, lambda word: {"docker_version": word}),
    "containers": _simple(
        parse_docker_ps, lambda rows: {"containers": _rows(rows)}, ttl_s=MINUTES_10_S
    ),
    "models": _simple(parse_ready_marks, lambda rows: {"models": _rows(rows)}),
}
