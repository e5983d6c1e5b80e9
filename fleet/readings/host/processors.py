"""Reads a host's kernel and processors, and how these and the memory nodes lie: uname, nproc, lscpu, numactl -H."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fleet.readings.host.whole import count, only, whole_lines

_KERNEL = re.compile(r"\d{1,3}\.\d{1,4}[A-Za-z0-9._+-]{0,80}", re.ASCII)
_FIELD = re.compile(r"\s*([^:]{1,60}?)\s*:\s*(.*?)\s*")
_NODE_CPUS = re.compile(r"NUMA node(\d{1,4}) CPU\(s\)", re.ASCII)
_RANGE = re.compile(r"(\d{1,5})(?:-(\d{1,5}))?", re.ASCII)
_AVAILABLE = re.compile(r"available:\s+(\d{1,4}) nodes? \(([\d,-]{1,200})\)", re.ASCII)
_NODE = re.compile(r"node (\d{1,4}) (cpus|size|free):(.*)", re.ASCII)
_DISTANCE = re.compile(r"\s*(\d{1,4}):((?:\s+\d{1,4}){1,1024})\s*", re.ASCII)
_SIZE = re.compile(r"\s*(\d{1,12}) MB\s*", re.ASCII)
_MIB = 1024 * 1024
_CPUS_CAP = 16_384
_DEPTH_CAP = 8
LOCAL_DISTANCE = 10


@dataclass(frozen=True)
class Processors:
    """The processors of a host; a number that the text does not tell once is None."""

    cpus: int | None
    online: tuple[int, ...] | None
    model: str | None
    sockets: int | None
    cores_per_socket: int | None
    threads_per_core: int | None
    numa_nodes: int | None
    cpus_of_node: Mapping[int, tuple[int, ...]]

    @property
    def is_consistent(self) -> bool:
        """Whether the nodes hold each online processor exactly once."""
        held = [cpu for cpus in self.cpus_of_node.values() for cpu in cpus]
        return (
            self.online is not None
            and len(self.cpus_of_node) == self.numa_nodes
            and sorted(held) == sorted(self.online)
        )


@dataclass(frozen=True)
class MemoryNode:
    """One memory node: its processors, which may be none, and its memory in bytes."""

    index: int
    cpus: tuple[int, ...]
    size_bytes: int
    free_bytes: int
    distances: tuple[int, ...]


def parse_uname(text: str) -> str | None:
    """Read `uname -r`: the kernel's release."""
    word = text.strip()
    return word if _KERNEL.fullmatch(word) else None


def parse_nproc(text: str) -> int | None:
    """Read `nproc`."""
    word = text.strip()
    return int(word) if word.isascii() and word.isdigit() and len(word) <= 6 else None


def parse_cpu_list(text: str) -> tuple[int, ...] | None:
    """Read a list such as `0-3,8`; an empty one is a node without processors."""
    cpus: list[int] = []
    for part in text.strip().split(",") if text.strip() else []:
        found = _RANGE.fullmatch(part.strip())
        if found is None:
            return None
        first, last = int(found[1]), int(found[2] or found[1])
        if last < first or last >= _CPUS_CAP or len(cpus) > _CPUS_CAP:
            return None
        cpus.extend(range(first, last + 1))
    return tuple(cpus) if len(set(cpus)) == len(cpus) else None


def parse_lscpu(text: str) -> Processors | None:
    """Read `lscpu` or `lscpu -J`; None for a text that is not its answer. Source: lscpu(1)."""
    told: dict[str, list[str]] = {}
    for name, word in _json_fields(text) if text.lstrip().startswith("{") else _text_fields(text):
        told.setdefault(name, []).append(word)

    def number(name: str) -> int | None:
        return count(only(told.get(name, ())))

    if number("CPU(s)") is None or "Architecture" not in told:
        return None
    online = only(told.get("On-line CPU(s) list", ()))
    nodes: dict[int, tuple[int, ...]] = {}
    for name, words in told.items():
        node, listed = _NODE_CPUS.fullmatch(name), only(words)
        cpus = parse_cpu_list(listed) if node and listed is not None else None
        if node and cpus is not None:
            nodes[int(node[1])] = cpus
    model = only(told.get("Model name", ()))
    return Processors(
        number("CPU(s)"),
        parse_cpu_list(online) if online else None,
        model[:200] if model else None,
        number("Socket(s)"),
        number("Core(s) per socket"),
        number("Thread(s) per core"),
        number("NUMA node(s)"),
        nodes,
    )


def _text_fields(text: str) -> Iterator[tuple[str, str]]:
    for line in whole_lines(text)[0]:
        if found := _FIELD.fullmatch(line.text[:4096]):
            yield found[1], found[2]


def _json_fields(text: str) -> Iterator[tuple[str, str]]:
    try:
        top = json.loads(text)
    except (ValueError, RecursionError):
        return
    rows = top.get("lscpu") if isinstance(top, dict) else None
    yield from _rows(rows, 0)


def _rows(rows: Any, depth: int) -> Iterator[tuple[str, str]]:
    if not isinstance(rows, list) or depth > _DEPTH_CAP:
        return
    for row in rows:
        if isinstance(row, dict) and isinstance(row.get("field"), str):
            yield row["field"].removesuffix(":"), str(row.get("data") or "")
            yield from _rows(row.get("children"), depth + 1)


def parse_numactl_hardware(text: str) -> tuple[MemoryNode, ...] | None:
    """Read `numactl -H`: every node with processors, sizes and distances, or None.

    Sizes in bytes; the tool's MB are 2^20 bytes. Distances are those of the ACPI SLIT, 10 is
    local. Source: numactl(8), its hardware() in numactl.c.
    """
    lines, ends = whole_lines(text)
    indexes: tuple[int, ...] | None = None
    told: dict[tuple[int, str], str] = {}
    distances: dict[int, tuple[int, ...]] = {}
    for line in lines:
        if found := _AVAILABLE.fullmatch(line.text.strip()):
            nodes = parse_cpu_list(found[2])
            if indexes is not None or nodes is None or len(nodes) != int(found[1]):
                return None
            indexes = nodes
        elif found := _NODE.fullmatch(line.text.strip()):
            key = (int(found[1]), found[2])
            if key in told:
                return None
            told[key] = found[3]
        elif found := _DISTANCE.fullmatch(line.text):
            distances[int(found[1])] = tuple(int(word) for word in found[2].split())
    if not indexes or not ends:
        return None
    found_nodes = [_memory_node(place, indexes, told, distances) for place in range(len(indexes))]
    return None if None in found_nodes else tuple(node for node in found_nodes if node)


def _memory_node(
    place: int,
    indexes: tuple[int, ...],
    told: Mapping[tuple[int, str], str],
    distances: Mapping[int, tuple[int, ...]],
) -> MemoryNode | None:
    index = indexes[place]
    row = distances.get(index, ())
    size, free = (_SIZE.fullmatch(told.get((index, word), "")) for word in ("size", "free"))
    cpus = (
        parse_cpu_list(",".join(told[index, "cpus"].split())) if (index, "cpus") in told else None
    )
    if size is None or free is None or cpus is None or len(row) != len(indexes):
        return None
    if row[place] != LOCAL_DISTANCE:
        return None
    return MemoryNode(index, cpus, int(size[1]) * _MIB, int(free[1]) * _MIB, row)
