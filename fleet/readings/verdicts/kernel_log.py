"""What a pasted kernel log says of its host: cards, switches, memory, NICs, crashes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from fleet.readings.kernel_log import KernelReader
from fleet.readings.kernel_log.classes import xid_class, xid_name
from fleet.readings.kernel_log.host import HostLog
from fleet.readings.kernel_log.xid import XidGroup
from fleet.readings.report import Finding, Report, Severity, lead, verdict_of

_NIC_SEVERITY: dict[str, Severity] = {
    "probe failed": "error",
    "insufficient PCIe slot power": "warn",
    "module high temperature": "warn",
    "ACCESS_REG failed": "info",
}
# No failure by themselves, but the card wants a reset at the next drain or a closer look.
_WATCHED = frozenset({63, 92})
_ASKS = {
    "app": "look at the program first",
    "reset": "reset the card or reboot the node",
    "hardware": "take the card out of service",
}
_HARMLESS_ACTIONS = ("None", "none")


def report_kernel_log(batches: Iterable[list[bytes]], *, cut: bool = False) -> Report:
    """Judge the lines of one host; the code of an Xid decides, never the text behind it."""
    reader = KernelReader()
    for batch in batches:
        reader.feed(batch)
    findings = tuple(_findings(reader))
    is_log = reader.formed > 0 or bool(findings)
    # A line that is no kernel's may be the sentence of a tool that failed, or another output.
    is_pure = is_log and not reader.unread_count
    worrying = any(f.severity == "warn" for f in findings)
    return Report(
        kind="kernel-log",
        form=reader.form,
        complete=is_log and not cut,
        verdict=verdict_of(findings, known_good=is_pure and not worrying and not cut),
        summary=lead(findings, _summary(reader, findings, is_log)),
        findings=findings,
        values=_values(reader),
        unread=tuple(reader.unread),
    )


def _findings(reader: KernelReader) -> Iterator[Finding]:
    codes = {(g.code, g.bus) for g in reader.xids.groups.values()}
    for group in reader.xids.by_code():
        alone = not any(bus == group.bus and code != group.code for code, bus in codes)
        yield _xid_finding(group, alone)
    for line in reader.xids.switches:
        severity: Severity = "error" if line.severity == "Fatal" else "warn"
        text = f"{line.switch}: SXid {line.code}, {line.severity or 'no severity'}"
        yield Finding("sxid", severity, f"{text}; the whole node is concerned", (line.line,))
    yield from _card_findings(reader.host)
    yield from _host_findings(reader.host)
    yield from _nic_findings(reader.host)
    for name, trouble in reader.trouble.seen.items():
        lines = "1 line" if trouble.count == 1 else f"{trouble.count} lines"
        yield Finding(name, trouble.severity, f"{trouble.text} ({lines})", tuple(trouble.lines))


def _xid_finding(group: XidGroup, alone: bool) -> Finding:
    name = xid_class(group.code)
    severity: Severity = {"app": "warn", "info": "info"}.get(name, "error")  # type: ignore[assignment]
    if group.code in _WATCHED:
        severity = "warn"
    if name == "follow":
        severity = _follow_severity(group, alone)
    text = f"Xid {group.code} on {group.bus}: {xid_name(group.code)}"
    if group.action:
        text += f" to {group.action}"
    if group.lines > 1:
        text += f" ({group.lines} lines)"
    if name in _ASKS:
        text += f"; {_ASKS[name]}"
    return Finding(f"xid_{group.code}", severity, text, (group.first_line,))


def _follow_severity(group: XidGroup, alone: bool) -> Severity:
    """Judge a code that means what another event says."""
    if group.code == 154:
        return "info" if group.action in _HARMLESS_ACTIONS else "error"
    if group.code == 48:
        return "error"
    if group.code in range(144, 151):
        return "info" if (group.severity or "").lower().startswith("non") else "error"
    return "warn" if alone else "info"


def _card_findings(host: HostLog) -> Iterator[Finding]:
    for bus, line in host.lost[:64]:
        yield Finding(
            "off_the_bus",
            "error",
            f"{f'GPU {bus}' if bus else 'a GPU'} has fallen off the bus",
            (line,),
        )
    if host.init_failures:
        text = "the driver could not initialise a card (RmInitAdapter failed)"
        yield Finding("init_failed", "error", text, tuple(host.init_failures))
    if host.nvlink_failures:
        text = f"NVLink discovery failed {host.nvlink_failures} times; no Xid is printed for it"
        yield Finding("nvlink_discovery", "error", text, tuple(host.nvlink_lines))
    if host.mismatch:
        text = "driver library and kernel module differ; reboot or reload the module"
        yield Finding("driver_mismatch", "error", text, tuple(host.mismatch_lines))


def _host_findings(host: HostLog) -> Iterator[Finding]:
    if host.oom_events:
        text = f"host out of memory: {len(host.oom_killed)} processes were killed"
        yield Finding("oom", "warn", text, tuple(host.oom_lines))
    for (process, pid, library), lines in host.segfaults.items():
        text = f"{process} (pid {pid}) crashed in {library}; no fault of a GPU"
        yield Finding("segfault", "warn", text, tuple(lines))
    if host.file_max:
        text = f"the limit of {host.file_max[0]} open files was reached"
        yield Finding("file_max", "warn", text, tuple(host.file_max[1]))
    for row, line in zip(host.edac, host.edac_lines, strict=True):
        severity: Severity = "error" if row["type"] == "UE" else "warn"
        kind = "uncorrected" if row["type"] == "UE" else "corrected"
        text = f"{row['count']} {kind} memory errors on {row['dimm']}"
        yield Finding("edac", severity, text, (line,))
    if host.crash or host.is_sysrq:
        where = tuple(host.crash_lines[:64])
        if host.is_sysrq:
            text = "an operator crashed the kernel on purpose (SysRq); this is no bug of the kernel"
            yield Finding("crash_on_purpose", "warn", text, where)
        else:
            yield Finding("crash", "error", "the kernel crashed", where)


def _nic_findings(host: HostLog) -> Iterator[Finding]:
    for key, row in host.nics.items():
        severity = _NIC_SEVERITY.get(row["event"], "info")
        text = f"NIC {row['bdf']}: {row['event']}"
        yield Finding("nic", severity, text, tuple(host.nic_lines[key]))
    for row, line in zip(host.pcie, host.pcie_lines, strict=True):
        text = f"{row['bdf']} runs at {row['width']} of {row['capable']} PCIe lanes"
        yield Finding("pcie_width", "error", text, (line,))


def _summary(reader: KernelReader, findings: tuple[Finding, ...], is_log: bool) -> str:
    if not is_log:
        return "No line of a kernel log in this text."
    worst = next((f.text for f in findings if f.severity == "warn"), None)
    if worst is None and reader.unread_count:
        return f"Nothing wrong in the kernel's lines; {reader.unread_count} lines are not the kernel's."
    return worst or f"Nothing wrong in {reader.lines} lines."


def _values(reader: KernelReader) -> dict[str, Any]:
    host, xids = reader.host, reader.xids
    values: dict[str, Any] = {
        "lines": reader.lines,
        "unread_count": reader.unread_count,
        "host": reader.host_name,
        "first_seq": reader.first_seq,
        "xids": [_xid_value(g) for g in xids.by_code()],
        "gpus": len({g.bus for g in xids.groups.values()}),
        "sxids": [
            {
                "code": s.code,
                "switch": s.switch,
                "bus": s.bus,
                "severity": s.severity,
                "link": s.link,
            }
            for s in xids.switches
        ],
        "oom": {
            "events": host.oom_events,
            "killed": host.oom_killed,
            "reaped": host.oom_reaped,
        },
        "segfaults": [
            {"process": process, "pid": pid, "library": library, "lines": len(lines)}
            for (process, pid, library), lines in host.segfaults.items()
        ],
        "edac": host.edac,
        "edac_errors": sum(row["count"] for row in host.edac),
        "pcie_degraded": host.pcie,
        "mlx5": list(host.nics.values()),
        "lost_gpus": [bus for bus, _ in host.lost],
        "trouble": {name: trouble.count for name, trouble in reader.trouble.seen.items()},
        "driver": host.driver,
        "nvlink_discovery_failures": host.nvlink_failures,
        "peer": host.nvlink_peer,
    }
    return values | _event_values(reader)


def _event_values(reader: KernelReader) -> dict[str, Any]:
    host = reader.host
    if host.file_max:
        limit, lines = host.file_max
        return {"event": "file-max limit reached", "limit": limit, "lines": len(lines)}
    if host.mismatch:
        return {"event": "driver/library version mismatch", **host.mismatch}
    if host.crash or host.is_sysrq:
        told = {k: host.crash.get(k) for k in ("process", "pid", "kernel", "cause")}
        kind = "panic record from pstore" if reader.is_pstore else "crash"
        return {"kind": kind, "is_deliberate": host.is_sysrq, **told}
    return {"event": None}


def _xid_value(group: XidGroup) -> dict[str, Any]:
    told: dict[str, Any] = {
        "code": group.code,
        "bus": group.bus,
        "lines": group.lines,
        "class": xid_class(group.code),
        "pid": group.pid,
        "process": group.process,
        "channel": group.channel,
        "severity": group.severity,
        "action": group.action,
        "because": group.because,
        "links": group.links,
        **group.counters,
    }
    told |= {f"registers_link_{n}": words for n, words in group.registers.items()}
    return {k: v for k, v in told.items() if v not in (None, [])}
