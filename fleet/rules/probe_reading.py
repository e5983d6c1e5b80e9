"""Turns the sections of a probe into facts, cards and what could not be read. Pure: bytes in, plain values out.

A fact without a value carries the reason. Not in charge of the verdict.
"""

from __future__ import annotations

from collections.abc import Mapping

from fleet.readings.host.clock import parse_chronyc_tracking, parse_uptime_since
from fleet.readings.host.disks import parse_df
from fleet.readings.host.docker import parse_docker_ps, parse_docker_versions
from fleet.readings.host.memory import parse_free, parse_limits_memlock
from fleet.readings.host.processors import parse_nproc, parse_numactl_hardware, parse_uname
from fleet.readings.host.ready_marks import parse_ready_marks
from fleet.readings.host.system import parse_hostname, parse_is_active, parse_os_release
from fleet.readings.nvidia_smi.listing import parse_listing
from fleet.readings.nvidia_smi.query import parse_query
from fleet.readings.text import decode
from fleet.rules import probe_gpus, probe_host, probe_rdma
from fleet.rules.bundles import open_bundles, place_facts
from fleet.rules.gather import GPU_FIELDS
from fleet.rules.message import say
from fleet.rules.probe_facts import (
    DAY_S,
    HOUR_S,
    MINUTES_10_S,
    FactSeen,
    ProbeReading,
    Reader,
    SectionSeen,
    add,
    as_rows,
    counts_cards,
    first_line,
    of,
    simple,
    unreadable,
)

__all__ = ["FactSeen", "ProbeReading", "SectionSeen", "read_probe"]

# nvidia-smi tells of a lost card on stdout and exits with its code.
_CARDS = frozenset({"gpu-list", "gpu-query", "topo", "gpu-report"})
# grep says 1 for "nothing found", systemctl 3 or 4 for what is not active.
_ALLOWED = {"models": {0, 1}, "fabric-manager": {0, 3, 4}}


def read_probe(
    sections: Mapping[str, SectionSeen], commands: Mapping[str, str], boot_id: str = ""
) -> ProbeReading:
    """Read every section that `commands` asked for; a missing one is a problem like any other."""
    reading = ProbeReading()
    answers = open_bundles(sections)
    for name, command in commands.items():
        section = answers.get(name)
        problem = "" if _may_be_read(name, section) else _why_not(command, section)
        text = decode(section.body) if section is not None else ""
        _READERS[name](reading, name, text, problem, command)
    probe_rdma.join_ports(reading)
    probe_host.name_model_root(reading, commands.get("model-disk", ""))
    place_facts(reading)
    if boot_id:
        reading.facts.append(FactSeen("boot_id", boot_id, "", ttl_s=DAY_S))
    return reading


def _may_be_read(name: str, section: SectionSeen | None) -> bool:
    if section is None or section.rc is None or section.truncated or section.error:
        return False
    is_card = name in _CARDS and section.rc not in {124, 126, 127}
    return section.rc in _ALLOWED.get(name, {0}) or is_card


def _why_not(command: str, section: SectionSeen | None) -> str:
    if section is None:
        return say("%(command)s: the node sent no answer.", command=command)
    if section.rc == 127:
        return say("%(command)s: the command was not found on the node.", command=command)
    if section.rc == 124:
        return say("%(command)s: no answer before its deadline.", command=command)
    if section.truncated:
        return say("%(command)s: the answer was longer than is kept.", command=command)
    said = section.error or first_line(decode(section.body)) or "-"
    return say("%(command)s: exit code %(rc)s: %(said)s", command=command, rc=section.rc, said=said)


def _listing(reading: ProbeReading, name: str, text: str, problem: str, command: str) -> None:
    found = None if problem else parse_listing(text)
    if found is not None and not (found.gpus or found.sentences):
        problem, found = unreadable(command, text), None
    reading.listing = found
    if found is not None and not counts_cards(found):
        # The tool could not ask the driver: that is not the same as a node without cards.
        why = say("%(command)s: %(said)s", command=command, said=found.sentences[0].text[:160])
        for key in ("gpu_count", "gpu_name"):
            reading.facts.append(FactSeen(key, None, name, "", why))
        return
    count = len(found.gpus) if found else None
    names = sorted({gpu.name for gpu in found.gpus}) if found else []
    add(reading, name, problem, {"gpu_count": count, "gpu_name": ", ".join(names) or None})


def _query(reading: ProbeReading, name: str, text: str, problem: str, command: str) -> None:
    found = None if problem else parse_query(text, GPU_FIELDS)
    if found is not None and not (found.rows or found.sentences):
        problem, found = unreadable(command, text), None
    reading.table = found
    cells = found.column("driver_version") if found else []
    versions = sorted({str(cell.value) for cell in cells if cell.value is not None})
    add(reading, name, problem, {"driver_version": ", ".join(versions) or None})


def _docker_daemon(text: str) -> str | None:
    """Return the version of the daemon; None when only the client answered."""
    found = parse_docker_versions(text)
    return found.server if found else None


_READERS: dict[str, Reader] = {
    "gpu-list": _listing,
    "gpu-query": _query,
    "topo": probe_gpus.read_topology,
    "shm": simple(
        parse_df,
        lambda disk: {"shm_total": of(disk, "total_bytes"), "shm_used": of(disk, "used_bytes")},
        {"shm_total": "B", "shm_used": "B"},
        MINUTES_10_S,
    ),
    "model-disk": simple(
        parse_df,
        lambda disk: {
            "model_disk_total": of(disk, "total_bytes"),
            "model_disk_free": of(disk, "free_bytes"),
        },
        {"model_disk_total": "B", "model_disk_free": "B"},
        MINUTES_10_S,
    ),
    "memory": simple(
        parse_free,
        lambda memory: {
            "memory_total": of(memory, "total_bytes"),
            "memory_available": of(memory, "available_bytes"),
        },
        {"memory_total": "B", "memory_available": "B"},
        MINUTES_10_S,
    ),
    "kernel": simple(parse_uname, lambda word: {"kernel": word}),
    "cpus": simple(parse_nproc, lambda count: {"cpu_count": count}),
    "boot": simple(parse_uptime_since, lambda word: {"booted_at": word}),
    "clock": simple(
        parse_chronyc_tracking,
        lambda clock: {
            "clock_offset": of(clock, "offset_s"),
            "clock_is_synchronised": of(clock, "is_synchronised"),
            "clock_stratum": of(clock, "stratum"),
        },
        {"clock_offset": "s"},
        MINUTES_10_S,
    ),
    "docker": simple(_docker_daemon, lambda word: {"docker_version": word}),
    "containers": simple(
        parse_docker_ps, lambda rows: {"containers": as_rows(rows)}, ttl_s=MINUTES_10_S
    ),
    "models": simple(parse_ready_marks, lambda rows: {"models": as_rows(rows)}),
    "gpu-report": probe_gpus.read_report,
    "fabric-manager": simple(parse_is_active, lambda word: {"fabric_manager": word}, ttl_s=HOUR_S),
    "rdma-ports": probe_rdma.read_ports,
    "rdma-netdevs": probe_rdma.read_netdevs,
    "rdma-mtu": probe_rdma.read_devinfo,
    "gids": probe_rdma.read_gids,
    "links": probe_rdma.read_links,
    "rdma-counters": probe_rdma.read_counters,
    "ethtool": probe_rdma.read_ethtool,
    "disks": probe_host.read_disks,
    "numa": simple(
        parse_numactl_hardware, lambda nodes: {"numa_nodes": probe_host.numa_rows(nodes)}
    ),
    "memlock": simple(
        parse_limits_memlock, lambda limit: {"memlock_kb": probe_host.memlock_kb(limit)}
    ),
    "os": simple(parse_os_release, lambda word: {"os": word}),
    "hostname": simple(parse_hostname, lambda word: {"hostname": word}),
    "kernel-log": probe_host.read_kernel_log,
}
