"""What pasted outputs of a host's small tools say: clock, counters, processors, memory, docker, disk speed, ping.

A value is good or bad here only where no golden node is needed to tell. Limits: 384-card manual 4.3 and 4.4, and the
design's diagnosis D16 for the clock.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

from fleet.readings.disk_read import parse_disk_read, parse_fio_text
from fleet.readings.host.clock import parse_chronyc_tracking
from fleet.readings.host.counters import (
    Counters,
    counter_changes,
    parse_ethtool_stats,
    parse_port_counters,
    split_readings,
)
from fleet.readings.host.docker import parse_docker_versions
from fleet.readings.host.memory import parse_limits_memlock, parse_meminfo, parse_memlock
from fleet.readings.host.processors import parse_lscpu, parse_numactl_hardware
from fleet.readings.open_end import end_of
from fleet.readings.reach import parse_ping
from fleet.readings.report import (
    Finding,
    Report,
    Severity,
    lead,
    open_end,
    verdict_of,
    with_others,
)
from fleet.readings.text import number_lines
from fleet.readings.told import tell

_KIND = "host"
# Beyond the one a node is not accepted (D16); the other is what the golden page holds clocks to.
_CLOCK_FAILED_S, _CLOCK_GOOD_S = 0.050, 0.001
_NAMES_SHOWN = 8
# Events that no good link has, packets sent again among them. Pauses and congestion marks are how RoCE works.
_TROUBLE = re.compile(
    r"discard|drop|crc|_err|symbol_error|out_of_buffer|link_down|integrity|overrun|out_of_sequence|retrans"
)
_CLOCK_ROW = re.compile(r"[A-Z][\w ()]{2,24}\s*: ")
_NO_DAEMON = re.compile(r"^(?:chronyc: )?506 Cannot talk to daemon", re.M)
_NO_NUMA = re.compile(r"^No NUMA (?:support )?available on this system", re.M)
_SMALL_TOOLS = re.compile(
    r"\b(?:chronyc|ethtool|lscpu|numactl|docker|fio|dd|ping)\b.{0,80}(?:not found|No such file)"
)
# A rate of what could be read stands behind the errors of what could not.
_READ_ERROR = re.compile(r"^(?:dd|fio): .{0,300}error", re.I)
_ETHTOOL_HEAD = re.compile(r"^[ \t]*(?:NIC|PHY|Standard) statistics", re.M | re.I)


def report_host(text: str) -> Report:
    """Judge one capture by the tool that printed it; of others in the same text the faults count."""
    cut = end_of(text, _ends_whole).cut
    found = [report for read in _READERS if (report := read(text, cut)) is not None]
    return with_others(found[0], found[1:]) if found else _report_nothing(text)


def _ends_whole(line: str) -> bool:
    row = line.strip()
    return row.endswith(("}", " kB/s", " MB/s", " GB/s")) or row == "unlimited"


# A line that stands once in an answer.
_ONCE = {
    "lscpu": re.compile(r"^Architecture:|\{ ?\"lscpu\"", re.M),
    "meminfo": re.compile(r"^MemTotal:", re.M),
    "docker": re.compile(r"^Client:|\"Client\" ?:", re.M),
    "ping": re.compile(r"packets transmitted, "),
    "memlock": re.compile(r"[Mm]ax locked memory"),
}


def _twice(form: str, text: str) -> Iterator[Finding]:
    if form in _ONCE and len(_ONCE[form].findall(text)) > 1:
        why = tell("more than one answer of this tool in this text")
        yield Finding("mixed", "warn", why)


def _report(
    form: str,
    text: str,
    *,
    whole: bool,
    cut: int | None,
    findings: Iterator[Finding] | tuple[Finding, ...] = (),
    summary: str,
    values: Mapping[str, Any],
    unread: tuple[int, ...] = (),
) -> Report:
    """A text passes when it is whole and nothing in it warns."""
    told = (*open_end(cut), *findings, *_twice(form, text), *_missing(text))
    complete = whole and cut is None and not unread
    good = complete and all(f.severity == "info" for f in told)
    return Report(
        _KIND, form, complete, verdict_of(told, known_good=good), lead(told, summary), told,
        values, unread,
    )  # fmt: skip


def _missing(text: str) -> Iterator[Finding]:
    """Tell what a shell says of a tool that is not there, in its own words."""
    for line in number_lines(text):
        if _SMALL_TOOLS.search(line.text[:400]):
            yield Finding("tool_missing", "warn", line.text.strip()[:300], (line.number,))


def _report_nothing(text: str) -> Report:
    findings = tuple(_missing(text))
    told = {line for finding in findings for line in finding.lines}
    unread = tuple(
        line.number for line in number_lines(text) if line.text.strip() and line.number not in told
    )
    summary = tell("No output of a small tool of a host that is known here.")
    return Report(
        _KIND,
        "sentence" if findings else "none",
        False,
        "unknown",
        findings[0].text if findings else summary,
        findings,
        unread=unread,
    )


def _clock(text: str, cut: int | None) -> Report | None:
    if _NO_DAEMON.search(text):
        why = tell("chronyd does not answer: the clock is not held by it")
        found = Finding("clock_unknown", "warn", why, (_line_of(text, _NO_DAEMON),))
        return _report(
            "chronyc", text, whole=False, cut=cut, findings=(found,), summary=why, values={}
        )
    if "Leap status" not in text and "of NTP time" not in text:
        return None
    clock = parse_chronyc_tracking(text)
    if clock is None:
        summary = tell("The answer of chronyc is not whole, or stands twice.")
        return _report("chronyc", text, whole=False, cut=cut, summary=summary, values={})
    unread = tuple(
        line.number
        for line in number_lines(text)
        if line.text.strip() and not (_CLOCK_ROW.match(line.text.strip()) or "chronyc" in line.text)
    )
    values = {
        "clock_offset_s": clock.offset_s,
        "stratum": clock.stratum,
        "is_synchronised": clock.is_synchronised,
        "clock_error_bound_s": clock.error_bound_s,
    }
    ms = f"{clock.offset_s * 1000:g}"
    return _report(
        "chronyc",
        text,
        whole=clock.stratum is not None,
        cut=cut,
        findings=_clock_findings(clock.is_synchronised, clock.offset_s, ms),
        summary=tell("The clock is synchronised, %(ms)s ms from NTP time.", ms=ms),
        values=values,
        unread=unread,
    )


def _clock_findings(is_synchronised: bool, offset_s: float, ms: str) -> Iterator[Finding]:
    if not is_synchronised:
        text = tell("the clock is not synchronised: its offset means nothing")
        yield Finding("clock_unsynchronised", "error", text)
    elif abs(offset_s) > _CLOCK_FAILED_S:
        text = tell("the clock is %(ms)s ms from NTP time, at most 50 are allowed", ms=ms)
        yield Finding("clock_off", "error", text)
    elif abs(offset_s) > _CLOCK_GOOD_S:
        text = tell("the clock is %(ms)s ms from NTP time, a golden node holds 1", ms=ms)
        yield Finding("clock_off", "warn", text)


def _counters(text: str, cut: int | None) -> Report | None:
    """One reading counts since a reset; two of the same ports tell what grew between them."""
    is_ethtool = _ETHTOOL_HEAD.search(text) is not None
    parse = parse_ethtool_stats if is_ethtool else parse_port_counters
    form = "ethtool-counters" if is_ethtool else "rdma-counters"
    found = parse(text)
    if (
        not is_ethtool
        and found is not None
        and not any("/" in name for name in (*found.values, *found.unknown))
    ):
        return None  # `name: 1` may be anything
    halves = split_readings(text, parse)
    if halves is not None:
        return _grown(form, text, *halves, cut)
    if found is None:
        return None if not is_ethtool else _report(
            form, text, whole=False, cut=cut, values={},
            summary=tell("The counters are not whole, or those of several devices."),
        )  # fmt: skip
    counted = {n: v for n, v in found.values.items() if v and _TROUBLE.search(n)}
    findings: list[Finding] = []
    if counted:
        why = tell(
            "counted since the last reset: %(counters)s; read them again to see what grows",
            counters=_shown(counted),
        )
        findings.append(Finding("counted_before", "warn", why))
    if repeated := _repeated(text):
        why = tell(
            "counters of more than one device or moment: %(names)s",
            names=", ".join(repeated[:_NAMES_SHOWN]),
        )
        findings.append(Finding("mixed", "warn", why))
    if found.unknown:
        why = tell("no one count for %(names)s", names=", ".join(found.unknown[:_NAMES_SHOWN]))
        findings.append(Finding("unknown_counters", "info", why))
    summary = tell(
        "%(all)s counters, %(counted)s of them count errors or losses.",
        all=len(found.values),
        counted=len(counted),
    )
    values = {"counters": len(found.values), "counted": counted, "unknown": list(found.unknown)}
    return _report(
        form, text, whole=found.ends, cut=cut, findings=tuple(findings), summary=summary, values=values,
        unread=found.unread,
    )  # fmt: skip


def _repeated(text: str) -> list[str]:
    rows = (line.text.strip().rpartition(":") for line in number_lines(text))
    counts = Counter(name for name, colon, value in rows if colon and value.strip().isdigit())
    return [name for name, count in counts.items() if count > 1]


def _grown(form: str, text: str, before: Counters, after: Counters, cut: int | None) -> Report:
    changes = counter_changes(before, after)
    grew = {name: by for name, by in changes.by_name.items() if by}
    bad = {n: by for n, by in grew.items() if _TROUBLE.search(n)}
    findings: list[Finding] = []
    if bad:
        text = tell("grew between the two readings: %(counters)s", counters=_shown(bad))
        findings.append(Finding("counters_grew", "error", text))
    lost = (*changes.missing, *changes.went_back)
    if lost:
        names = ", ".join(lost[:_NAMES_SHOWN])
        text = tell("reset between the readings, or only in one of them: %(names)s", names=names)
        findings.append(Finding("counters_reset", "warn", text))
    return _report(
        f"{form}, before and after",
        text,
        whole=before.ends and after.ends and not (before.unread or after.unread),
        cut=cut,
        findings=tuple(findings),
        summary=tell(
            "%(all)s counters read twice, no error or loss among what grew.",
            all=len(changes.by_name),
        ),
        values={"counters": len(changes.by_name), "grew": grew, "unknown": list(lost)},
    )


def _shown(counts: Mapping[str, int]) -> str:
    ranked = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    return ", ".join(f"{name} {count}" for name, count in ranked[:_NAMES_SHOWN])


def _lscpu(text: str, cut: int | None) -> Report | None:
    found = parse_lscpu(text)
    if found is None:
        return None
    findings: list[Finding] = []
    if found.online is not None and found.cpus is not None and len(found.online) != found.cpus:
        why = tell(
            "%(online)s of %(all)s processors are online", online=len(found.online), all=found.cpus
        )
        findings.append(Finding("cpus_offline", "warn", why))
    elif not found.is_consistent:
        why = tell("the memory nodes do not hold each processor once: lines are missing")
        findings.append(Finding("incomplete", "warn", why))
    values = {
        "cpus": found.cpus, "online": None if found.online is None else len(found.online), "model": found.model,
        "sockets": found.sockets, "cores_per_socket": found.cores_per_socket,
        "threads_per_core": found.threads_per_core, "numa_nodes": found.numa_nodes,
    }  # fmt: skip
    summary = tell(
        "%(cpus)s processors in %(nodes)s memory nodes.", cpus=found.cpus, nodes=found.numa_nodes
    )
    return _report(
        "lscpu", text, whole=found.is_consistent, cut=cut, findings=tuple(findings), summary=summary,
        values=values,
    )  # fmt: skip


def _numactl(text: str, cut: int | None) -> Report | None:
    if _NO_NUMA.search(text):
        why = tell("this kernel or container shows no memory nodes")
        found = Finding("no_numa", "warn", why, (_line_of(text, _NO_NUMA),))
        return _report(
            "numactl", text, whole=False, cut=cut, findings=(found,), summary=why, values={}
        )
    if not re.search(r"^available: +\d+ nodes? \(", text, re.M):
        return None
    nodes = parse_numactl_hardware(text)
    if nodes is None:
        summary = tell("The answer of numactl is not whole, or stands twice.")
        return _report("numactl", text, whole=False, cut=cut, summary=summary, values={})
    bare = [str(node.index) for node in nodes if node.cpus and not node.size_bytes]
    findings: tuple[Finding, ...] = ()
    if bare:
        why = tell(
            "memory nodes with processors and without memory: %(names)s", names=", ".join(bare)
        )
        findings = (Finding("node_without_memory", "warn", why),)
    values = {
        "numa_nodes": len(nodes),
        "cpus_of_node": {str(node.index): len(node.cpus) for node in nodes},
        "size_bytes": {str(node.index): node.size_bytes for node in nodes},
        "free_bytes": {str(node.index): node.free_bytes for node in nodes},
        "distances": {str(node.index): list(node.distances) for node in nodes},
    }
    summary = tell("%(nodes)s memory nodes.", nodes=len(nodes))
    return _report(
        "numactl", text, whole=True, cut=cut, findings=findings, summary=summary, values=values
    )


def _meminfo(text: str, cut: int | None) -> Report | None:
    if not re.search(r"^MemTotal:", text, re.M):
        return None
    found = parse_meminfo(text)
    if found is None:
        summary = tell(
            "Not the whole of /proc/meminfo: its total or what is available is not told once."
        )
        return _report("meminfo", text, whole=False, cut=cut, summary=summary, values={})
    summary = tell(
        "%(available)s of %(total)s GiB of memory are available.",
        available=f"{found.available_bytes / 2**30:.1f}",
        total=f"{found.total_bytes / 2**30:.1f}",
    )
    whole = found.huge_page_bytes is not None and found.swap_total_bytes is not None
    return _report("meminfo", text, whole=whole, cut=cut, summary=summary, values=asdict(found))


def _docker(text: str, cut: int | None) -> Report | None:
    if not re.search(r'^Client:|"Client" ?:|[Dd]ocker daemon', text, re.M):
        return None
    found = parse_docker_versions(text)
    if found is None:
        return None
    findings: tuple[Finding, ...] = ()
    if found.refusal is not None:
        severity: Severity = "warn" if "permission denied" in found.refusal else "error"
        findings = (Finding("docker_refused", severity, found.refusal),)
    values = asdict(found)
    values.pop("refusal")
    summary = tell(
        "docker client %(client)s, server %(server)s.",
        client=found.client or tell("unknown"),
        server=found.server or tell("unknown"),
    )
    whole = None not in (found.client, found.server)
    return _report(
        "docker", text, whole=whole, cut=cut, findings=findings, summary=summary, values=values
    )


def _memlock(text: str, cut: int | None) -> Report | None:
    found = parse_limits_memlock(text) or parse_memlock(text)
    if found is None:
        return None
    findings: tuple[Finding, ...] = ()
    summary = tell("Memory may be locked without a limit.")
    if not found.is_unlimited:
        summary = tell(
            "only %(bytes)s bytes of memory may be locked: RDMA needs more", bytes=found.limit_bytes
        )
        findings = (Finding("memlock_limited", "warn", summary),)
    values = {"memlock_bytes": found.limit_bytes, "is_unlimited": found.is_unlimited}
    return _report(
        "memlock", text, whole=True, cut=cut, findings=findings, summary=summary, values=values
    )


def _disk_read(text: str, cut: int | None) -> Report | None:
    found, told = parse_disk_read(text), parse_fio_text(text)
    findings: list[Finding] = []
    if told is not None and told.error:
        why = tell("fio ended with error %(error)s", error=told.error)
        findings.append(Finding("fio_failed", "error", why, (told.line,)))
    bad = [line for line in number_lines(text) if _READ_ERROR.match(line.text[:400])]
    if bad:
        where = tuple(line.number for line in bad[:64])
        findings.append(Finding("read_failed", "error", bad[0].text.strip()[:300], where))
    if found is not None:
        if told is not None:
            why = tell("more than one answer of this tool in this text")
            findings.append(Finding("mixed", "warn", why))
        form, values, whole = found.tool, asdict(found), True
    elif told is not None:
        values = {"tool": "fio", "gbs": told.gbs, "seconds": told.seconds}
        form, whole = "fio", told.gbs is not None
    else:
        return None
    return _report(
        "disk-read", text, whole=whole, cut=cut, findings=tuple(findings),
        summary=_read_at(form, values["gbs"]), values=values,
    )  # fmt: skip


def _read_at(tool: str, gbs: float | None) -> str:
    if gbs is None:
        return tell("%(tool)s tells no rate of reading.", tool=tool)
    return tell("%(tool)s read %(gbs)s GB/s.", tool=tool, gbs=f"{gbs:.2f}")


def _ping(text: str, cut: int | None) -> Report | None:
    found = parse_ping(text)
    if found.sent is None and not found.too_long:
        return None
    findings: list[Finding] = []
    if found.too_long:
        findings.append(
            Finding("packet_too_long", "error", tell("the packet does not fit the way"))
        )
    if found.sent and found.received == 0:
        findings.append(Finding("no_answer", "error", tell("not one packet came back")))
    elif found.loss_pct:
        text_ = tell("%(loss)s %% of the packets were lost", loss=f"{found.loss_pct:g}")
        findings.append(Finding("packets_lost", "warn", text_))
    summary = tell(
        "%(received)s of %(sent)s packets came back.", received=found.received, sent=found.sent
    )
    return _report(
        "ping", text, whole=bool(found.sent), cut=cut, findings=tuple(findings), summary=summary,
        values=asdict(found),
    )  # fmt: skip


def _line_of(text: str, what: re.Pattern[str]) -> int:
    found = what.search(text)
    return text.count("\n", 0, found.start()) + 1 if found else 1


_READERS: tuple[Callable[[str, int | None], Report | None], ...] = (
    _clock, _counters, _lscpu, _numactl, _meminfo, _docker, _disk_read, _ping, _memlock,
)  # fmt: skip
