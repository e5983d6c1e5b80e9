"""What pasted outputs of NIC and disk tools say about their node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fleet.readings.fabric.blocks import Storage, parse_storage
from fleet.readings.fabric.links import NetLink, parse_links
from fleet.readings.fabric.netdevs import (
    GidTable,
    NetDev,
    natural_order,
    parse_gids,
    parse_netdevs,
)
from fleet.readings.fabric.ports import IbPorts, is_ports, parse_ports
from fleet.readings.report import Finding, Report, lead, verdict_of

_KIND = "fabric"
_RAIL_GBS = 400


def report_fabric(text: str) -> Report:
    """Judge one capture by the tool that printed it."""
    if is_ports(text):
        return _report_ports(parse_ports(text), "ibstatus" if "Infiniband d" in text else "ibstat")
    devices, unread = parse_netdevs(text)
    if devices:
        return _report_netdevs(devices, unread)
    gids = parse_gids(text)
    if gids.gids:
        return _report_gids(gids)
    storage = parse_storage(text)
    if storage.devices or storage.file_systems or storage.is_broken:
        return _report_storage(storage)
    links, left = parse_links(text)
    if links or text.lstrip().startswith("["):
        return _report_links(links, left)
    summary = "No output of a NIC or disk tool that is known here."
    return Report(_KIND, "none", False, "unknown", summary, unread=left)


def _report_ports(found: IbPorts, form: str) -> Report:
    findings = tuple(_port_findings(found))
    active = [p for p in found.ports if p.is_active]
    rails = [p.device for p in active if p.rate_gbs is not None and p.rate_gbs >= _RAIL_GBS]
    widths = {p.width for p in found.ports if p.width}
    return Report(
        _KIND,
        form,
        found.complete,
        verdict_of(findings, known_good=found.complete and len(active) == len(found.ports)),
        lead(findings, f"{len(active)} of {len(found.ports)} ports are active."),
        findings,
        {
            "ca_count": len(found.devices),
            "device_count": len(found.devices),
            "active_ports": len(active),
            "ports": {
                p.key: _trimmed([p.state, p.physical, p.rate_gbs, p.link_layer])
                for p in found.ports
            },
            "rails_400g": sorted(rails, key=natural_order),
            "width": next(iter(widths)) if len(widths) == 1 else None,
            "firmware": {p.device: p.firmware for p in found.ports if p.firmware},
        },
        found.unread,
    )


def _trimmed(cells: list[Any]) -> list[Any]:
    """A block that is cut ends with what it printed."""
    while cells and cells[-1] is None:
        cells.pop()
    return [int(c) if isinstance(c, float) and c.is_integer() else c for c in cells]


def _port_findings(found: IbPorts) -> Iterator[Finding]:
    down = [p for p in found.ports if p.state is not None and not p.is_active]
    if found.ports and len(down) == len(found.ports):
        yield Finding("no_active_port", "error", "no port is active", tuple(p.line for p in down))
        return
    for port in down:
        text = f"{port.key} is {port.state}, physically {port.physical}; its rate does not count"
        yield Finding("port_down", "warn", text, (port.line,))
    cut = tuple(p.line for p in found.ports if not p.is_whole)
    if cut:
        yield Finding("incomplete", "warn", "a port's block is cut", cut)


def _report_netdevs(devices: tuple[NetDev, ...], unread: tuple[int, ...]) -> Report:
    ordered = sorted(devices, key=lambda d: natural_order(d.device))
    down = [d.device for d in ordered if not d.is_up]
    findings = tuple(
        Finding("netdev_down", "warn", f"{d.device} ({d.netdev}) is down", (d.line,))
        for d in devices
        if not d.is_up
    )
    rails = [d.device for d in ordered if d.is_up and not d.is_bond]
    return Report(
        _KIND,
        "ibdev2netdev",
        not unread,
        verdict_of(findings, known_good=not down and not unread),
        f"{len(devices)} RDMA devices, {len(down)} down.",
        findings,
        {
            "device_count": len(devices),
            "up": [d.device for d in ordered if d.is_up],
            "down": down,
            "bond_members": [d.device for d in ordered if d.is_bond],
            "data_rails": rails,
            "netdevs": {d.device: d.netdev for d in ordered},
        },
        unread,
    )


def _report_gids(table: GidTable) -> Report:
    indexes = table.rocev2_ipv4_index()
    without = sorted({g.device for g in table.gids} - set(indexes), key=natural_order)
    findings = []
    if without:
        text = f"no RoCEv2 IPv4 GID on {', '.join(without[:16])}"
        findings.append(Finding("no_rocev2_gid", "warn", text))
    if len(set(indexes.values())) > 1:
        text = "the RoCEv2 IPv4 index differs between devices; one fixed index fits only some"
        findings.append(Finding("gid_index_differs", "warn", text))
    return Report(
        _KIND,
        "show_gids",
        table.complete,
        verdict_of(findings, known_good=table.complete and not findings),
        f"{len(table.gids)} GIDs on {len({g.device for g in table.gids})} devices.",
        tuple(findings),
        {"gids": len(table.gids), "gids_found": table.found, "rocev2_ipv4_index": indexes},
        table.unread,
    )


def _report_links(links: tuple[NetLink, ...], unread: tuple[int, ...]) -> Report:
    down = [n.name for n in links if n.state in ("DOWN", "LOWERLAYERDOWN", "NOTPRESENT")]
    bare = [n.name for n in links if n.state == "UP" and not n.addresses and n.mtu is None]
    mtus = sorted({n.mtu for n in links if n.mtu is not None})
    findings = []
    if down:
        findings.append(Finding("link_down", "warn", f"down: {', '.join(down[:16])}"))
    whole = bool(links) and not unread
    return Report(
        _KIND,
        "ip",
        whole,
        verdict_of(findings, known_good=whole and not down),
        f"{len(links)} interfaces, {len(down)} down.",
        tuple(findings),
        {
            "interfaces": len(links),
            "names": [n.name for n in links],
            "down": down,
            "up_without_address": bare,
            "addr": {n.name: n.addresses[0] for n in links if n.addresses},
            "all_up": bool(links) and all(n.state == "UP" for n in links),
            "mtu": mtus[0] if len(mtus) == 1 else (mtus or None),
        },
        unread,
    )


def _report_storage(storage: Storage) -> Report:
    shm = next((f for f in storage.file_systems if f.mountpoint == "/dev/shm"), None)
    disks = [d for d in storage.disks if d.size not in (None, "0")]
    nvme = [d for d in disks if d.is_nvme]
    findings = []
    if storage.is_broken:
        findings.append(Finding("incomplete", "warn", "the JSON is cut or not lsblk's"))
    elif storage.devices and not nvme:
        findings.append(Finding("no_nvme", "error", "no local NVMe disk among the block devices"))
    return Report(
        _KIND,
        "storage",
        not storage.is_broken,
        verdict_of(findings, known_good=bool(nvme)),
        lead(findings, f"{len(disks)} disks, {len(nvme)} of them NVMe."),
        tuple(findings),
        {
            "disks": len(disks) if storage.devices else None,
            "nvme_disks": len(nvme) if storage.devices else None,
            "disk_names": [d.name for d in disks],
            "types": list(dict.fromkeys(d.kind for d in storage.devices)),
            "dev_shm_size": shm.size if shm else None,
            "dev_shm_used_pct": shm.used_percent if shm else None,
        },
        storage.unread,
    )
