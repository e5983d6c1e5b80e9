"""What a pasted kernel log says of its host: cards, switches, memory, NICs, crashes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain
from typing import Any, cast

from fleet.readings.by_node import Nodes, Share, report_nodes
from fleet.readings.kernel_log import KernelReader
from fleet.readings.kernel_log.classes import xid_class, xid_words
from fleet.readings.kernel_log.host import HostLog
from fleet.readings.kernel_log.nodes import NodeLogs, nodes_form
from fleet.readings.kernel_log.xid import SxidLine, XidGroup
from fleet.readings.report import Finding, Report, Severity, lead, verdict_of
from fleet.readings.told import tell

_NIC_SEVERITY: dict[str, Severity] = {
    "probe failed": "error",
    "insufficient PCIe slot power": "warn",
    "module high temperature": "warn",
    "ACCESS_REG failed": "info",
}
_EVENTS = {
    "probe failed": tell("probe failed"),
    "insufficient PCIe slot power": tell("insufficient PCIe slot power"),
    "module high temperature": tell("module high temperature"),
    "ACCESS_REG failed": tell("ACCESS_REG failed"),
    "Cable unplugged": tell("Cable unplugged"),
    "Cable plugged": tell("Cable plugged"),
    "Link up": tell("Link up"),
    "Link down": tell("Link down"),
}
# No failure by themselves, but the card wants a reset at the next drain or a closer look.
_WATCHED = frozenset({63, 92})
_ASKS = {
    "app": tell("look at the program first"),
    "reset": tell("reset the card or reboot the node"),
    "hardware": tell("take the card out of service"),
}
_HARMLESS_ACTIONS = ("None", "none")


def report_kernel_log(batches: Iterable[list[bytes]], *, cut: bool = False) -> Report:
    """Judge the lines of one host, or of each host where lines or blocks name theirs."""
    reader = KernelReader()
    whole = iter(batches)
    for batch in whole:
        form = nodes_form(batch) if not reader.lines else ""
        if form:
            return _report_nodes(chain([batch], whole), form, cut=cut)
        reader.feed(batch)
    return report_read(reader, cut=cut)


def report_read(reader: KernelReader, *, cut: bool = False) -> Report:
    """Judge what a reader has collected; the code of an Xid decides, never the text behind it."""
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


def _report_nodes(batches: Iterable[list[bytes]], form: str, *, cut: bool) -> Report:
    """Judge each node by its own lines; the text passes only when every node does."""
    logs = NodeLogs(form)
    for batch in batches:
        logs.feed(batch)
    reports = {name: report_read(reader, cut=cut) for name, reader in logs.by_node().items()}
    # Lines already carry their numbers in the whole text.
    numbers = cast("tuple[int, ...]", range(1, logs.lines + 1))
    shares = {name: Share(name, numbers) for name in reports}
    found = report_nodes(Nodes(shares, logs.failures, False), "kernel-log", reports.__getitem__)
    doubts = tuple(_node_doubts(logs))
    if not doubts:
        return found
    return replace(
        found,
        complete=False,
        verdict="unknown" if found.verdict == "pass" else found.verdict,
        findings=(*found.findings, *doubts),
        unread=tuple(sorted({*found.unread, *logs.strays})),
    )


def _node_doubts(logs: NodeLogs) -> Iterator[Finding]:
    if logs.stray_count:
        text = tell("%(count)s lines name no node", count=logs.stray_count)
        yield Finding("no_node", "warn", text, tuple(logs.strays))
    if logs.left_out:
        text = tell("%(count)s more nodes stand in this text than are told", count=logs.left_out)
        yield Finding("nodes_left_out", "warn", text)


def _findings(reader: KernelReader) -> Iterator[Finding]:
    codes = {(g.code, g.bus) for g in reader.xids.groups.values()}
    for group in reader.xids.by_code():
        alone = not any(bus == group.bus and code != group.code for code, bus in codes)
        yield _xid_finding(group, alone)
    if torn := reader.xids.torn:
        text = tell(
            "%(count)s lines of an Xid or SXid are torn: their codes are unknown", count=len(torn)
        )
        yield Finding("xid_torn", "warn", text, tuple(torn))
    yield from _sxid_findings(reader.xids.switches)
    yield from _card_findings(reader.host)
    yield from _host_findings(reader.host)
    yield from _nic_findings(reader.host)
    for name, trouble in reader.trouble.seen.items():
        text = tell("%(what)s (%(lines)s)", what=trouble.text, lines=_count_lines(trouble.count))
        yield Finding(name, trouble.severity, text, tuple(trouble.lines))


def _count_lines(count: int) -> str:
    return tell("1 line") if count == 1 else tell("%(count)s lines", count=count)


def _sxid_findings(switches: list[SxidLine]) -> Iterator[Finding]:
    """Tell each code of each switch once: one fault prints several lines, not all of them with a severity."""
    groups: dict[tuple[str, int], list[SxidLine]] = {}
    for line in switches:
        groups.setdefault((line.switch, line.code), []).append(line)
    for (switch, code), lines in groups.items():
        words = {line.severity for line in lines if line.severity}
        severity: Severity = "error" if "Fatal" in words else "warn"
        word = "Fatal" if "Fatal" in words else next(iter(words), tell("no severity"))
        text = tell(
            "%(switch)s: SXid %(code)s, %(severity)s; the whole node is concerned",
            switch=switch, code=code, severity=word,
        )  # fmt: skip
        yield Finding("sxid", severity, text, tuple(line.line for line in lines[:64]))


def _xid_finding(group: XidGroup, alone: bool) -> Finding:
    name = xid_class(group.code)
    severity: Severity = {"app": "warn", "info": "info"}.get(name, "error")  # type: ignore[assignment]
    if group.code in _WATCHED:
        severity = "warn"
    if name == "follow":
        severity = _follow_severity(group, alone)
    text = tell(
        "Xid %(code)s on %(bus)s: %(name)s",
        code=group.code,
        bus=group.bus,
        name=xid_words(group.code),
    )
    if group.action:
        text = tell("%(what)s to %(action)s", what=text, action=group.action)
    if group.lines > 1:
        text = tell("%(what)s (%(lines)s)", what=text, lines=_count_lines(group.lines))
    if name in _ASKS:
        text = tell("%(what)s; %(advice)s", what=text, advice=_ASKS[name])
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
        text = (
            tell("GPU %(bus)s has fallen off the bus", bus=bus)
            if bus
            else tell("a GPU has fallen off the bus")
        )
        yield Finding("off_the_bus", "error", text, (line,))
    if host.init_failures:
        text = tell("the driver could not initialise a card (RmInitAdapter failed)")
        yield Finding("init_failed", "error", text, tuple(host.init_failures))
    if host.nvlink_failures:
        text = tell(
            "NVLink discovery failed %(count)s times; no Xid is printed for it",
            count=host.nvlink_failures,
        )
        yield Finding("nvlink_discovery", "error", text, tuple(host.nvlink_lines))
    if host.mismatch:
        text = tell("driver library and kernel module differ; reboot or reload the module")
        yield Finding("driver_mismatch", "error", text, tuple(host.mismatch_lines))


def _host_findings(host: HostLog) -> Iterator[Finding]:
    if host.oom_events:
        text = tell(
            "host out of memory: %(count)s processes were killed", count=len(host.oom_killed)
        )
        yield Finding("oom", "warn", text, tuple(host.oom_lines))
    for (process, pid, library), lines in host.segfaults.items():
        text = tell(
            "%(process)s (pid %(pid)s) crashed in %(library)s; no fault of a GPU",
            process=process, pid=pid, library=library,
        )  # fmt: skip
        yield Finding("segfault", "warn", text, tuple(lines))
    if host.file_max:
        text = tell("the limit of %(limit)s open files was reached", limit=host.file_max[0])
        yield Finding("file_max", "warn", text, tuple(host.file_max[1]))
    for row, line in zip(host.edac, host.edac_lines, strict=True):
        is_lost = row["type"] == "UE"
        told = {
            "count": row["count"],
            "module": row["dimm"] or tell("a memory module without a name"),
        }
        text = (
            tell("%(count)s uncorrected memory errors on %(module)s", **told)
            if is_lost
            else tell("%(count)s corrected memory errors on %(module)s", **told)
        )
        yield Finding("edac", "error" if is_lost else "warn", text, (line,))
    if host.crash or host.is_sysrq:
        where = tuple(host.crash_lines[:64])
        if host.is_sysrq:
            text = tell(
                "an operator crashed the kernel on purpose (SysRq); this is no bug of the kernel"
            )
            yield Finding("crash_on_purpose", "warn", text, where)
        else:
            yield Finding("crash", "error", tell("the kernel crashed"), where)


def _nic_findings(host: HostLog) -> Iterator[Finding]:
    for key, row in host.nics.items():
        severity = _NIC_SEVERITY.get(row["event"], "info")
        text = tell(
            "NIC %(bdf)s: %(event)s", bdf=row["bdf"], event=_EVENTS.get(row["event"], row["event"])
        )
        yield Finding("nic", severity, text, tuple(host.nic_lines[key]))
    for bdf, line in host.fallen_links()[:64]:
        text = tell("NIC %(bdf)s: the link went down and did not come back", bdf=bdf)
        yield Finding("nic_link_down", "warn", text, (line,))
    for row, line in zip(host.pcie, host.pcie_lines, strict=True):
        text = tell(
            "%(bdf)s runs at %(width)s of %(capable)s PCIe lanes",
            bdf=row["bdf"], width=row["width"], capable=row["capable"],
        )  # fmt: skip
        yield Finding("pcie_width", "error", text, (line,))


def _summary(reader: KernelReader, findings: tuple[Finding, ...], is_log: bool) -> str:
    if not is_log:
        return tell("No line of a kernel log in this text.")
    worst = next((f.text for f in findings if f.severity == "warn"), None)
    if worst is None and reader.unread_count:
        return tell(
            "Nothing wrong in the kernel's lines; %(count)s lines are not the kernel's.",
            count=reader.unread_count,
        )
    return worst or tell("Nothing wrong in %(count)s lines.", count=reader.lines)


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
