"""What pasted outputs of NIC and disk tools say about their node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fleet.readings.fabric.blocks import parse_storage
from fleet.readings.fabric.links import NetLinks, is_links_json, parse_links
from fleet.readings.fabric.netdevs import (
    GidTable,
    NetDev,
    is_beheaded,
    natural_order,
    parse_gids,
    parse_netdevs,
)
from fleet.readings.fabric.ports import IbPorts, is_ports, parse_ports
from fleet.readings.fabric.ports import is_whole_line as is_port_line
from fleet.readings.fabric.sentences import read_tool_sentence, read_tool_sentences
from fleet.readings.open_end import end_of
from fleet.readings.report import (
    Finding,
    Report,
    Severity,
    lead,
    open_end,
    verdict_of,
    with_others,
)
from fleet.readings.text import Line, number_lines
from fleet.readings.told import Told, tell
from fleet.readings.verdicts.fabric_storage import report_storage

_KIND = "fabric"
_RAIL_GBS = 400
# Two faults that are not the same: nobody at the other end, and switched off at this one.
_DOWN = {
    "polling": tell(" (no cable, or nobody answers at its other end)"),
    "disabled": tell(" (switched off at this end)"),
}


def report_fabric(text: str) -> Report:
    """Judge one capture by the tool that printed it."""
    end = end_of(text, _is_whole_line, pads_end=True)
    text, torn, cut = end.text, end.torn, end.cut
    lines = number_lines(text)
    said = tuple(_sentence_findings(lines))
    main, *others = _forms(text, torn, cut, said) or [
        _report_nothing(said, (*parse_links(text).unread, *([torn] if torn else [])))
    ]
    return with_others(main, others)


def _forms(text: str, torn: int | None, cut: int | None, said: tuple[Finding, ...]) -> list[Report]:
    """Read the text as each tool whose output it holds."""
    found: list[Report] = []
    if is_ports(text):
        found.append(_report_ports(parse_ports(text), text, cut, said))
    devices, unread = parse_netdevs(text)
    if is_beheaded(devices):
        devices, unread = devices[1:], (devices[0].line, *unread)
    if devices:
        found.append(_report_netdevs(devices, unread, cut, said))
    gids = parse_gids(text)
    if gids.gids or (gids.is_table and not found):
        found.append(_report_gids(gids, torn, said))
    if is_links_json(text):
        return [*found, _report_links(parse_links(text), torn, said)]
    storage = parse_storage(text)
    if storage.devices or storage.file_systems or (storage.is_broken and not found):
        is_closed = text.rstrip().endswith("}")
        found.append(report_storage(storage, torn if is_closed else cut, said))
    links = parse_links(text)
    if links.links:
        found.append(_report_links(links, cut, said))
    return found


def _report_nothing(said: tuple[Finding, ...], unread: tuple[int, ...]) -> Report:
    summary = tell("No output of a NIC or disk tool that is known here.")
    return Report(
        _KIND,
        "sentence" if said else "none",
        False,
        verdict_of(said, known_good=False),
        said[0].text if said else summary,
        said,
        unread=unread,
    )


def _is_whole_line(text: str) -> bool:
    """Tell a last line of any form that nothing can be missing from."""
    is_json = text.rstrip().endswith(("]", "}"))
    said = read_tool_sentence(Line(1, text)) is not None
    return is_json or said or is_port_line(text) or bool(parse_netdevs(text)[0])


def _sentence_findings(lines: list[Line]) -> Iterator[Finding]:
    for sentence in read_tool_sentences(lines):
        severity: Severity = "error" if sentence.kind == "dead_mount" else "warn"
        yield Finding(sentence.kind, severity, sentence.text[:300], (sentence.line,))


def _mixed(is_mixed: bool, what: Told) -> Iterator[Finding]:
    if is_mixed:
        text = tell(
            "%(what)s stands twice: the answers of more than one node in this text", what=what
        )
        yield Finding("mixed", "warn", text)


def _report_ports(found: IbPorts, text: str, cut: int | None, said: tuple[Finding, ...]) -> Report:
    form = "ibstatus" if "Infiniband device" in text else "ibstat"
    # ibstat says how many ports each card has, but neither tool how many cards there are.
    whole = found.complete and cut is None and not said
    findings = (*open_end(cut), *said, *_port_findings(found, whole))
    active = [p for p in found.ports if p.is_active]
    rails = [p.device for p in active if p.rate_gbs is not None and p.rate_gbs >= _RAIL_GBS]
    widths = {p.width for p in found.ports if p.width}
    return Report(
        _KIND,
        form,
        whole,
        verdict_of(findings, known_good=whole and len(active) == len(found.ports)),
        lead(
            findings,
            tell(
                "%(active)s of %(all)s ports are active.", active=len(active), all=len(found.ports)
            ),
        ),
        findings,
        {
            "ca_count": None if found.is_mixed else len(found.devices),
            "device_count": None if found.is_mixed else len(found.devices),
            "active_ports": None if found.is_mixed else len(active),
            "ports": {
                p.key: _trimmed([p.state, p.physical, p.rate_gbs, p.link_layer])
                for p in found.ports
            },
            "rails_400g": sorted(rails, key=natural_order),
            "width": next(iter(widths)) if len(widths) == 1 else None,
            "widths": {p.key: p.width for p in found.ports if p.width},
            "firmware": {p.device: p.firmware for p in found.ports if p.firmware},
        },
        found.unread,
    )


def _trimmed(cells: list[Any]) -> list[Any]:
    """A block that is cut ends with what it printed."""
    while cells and cells[-1] is None:
        cells.pop()
    return [int(c) if isinstance(c, float) and c.is_integer() else c for c in cells]


def _port_findings(found: IbPorts, whole: bool) -> Iterator[Finding]:
    yield from _mixed(found.is_mixed, tell("a port"))
    if cut := tuple(p.line for p in found.ports if not p.is_whole):
        yield Finding("incomplete", "warn", tell("a port's block is cut"), cut)
    if found.missing:
        text = tell(
            "fewer ports are printed than they have: %(names)s", names=", ".join(found.missing[:16])
        )
        yield Finding("incomplete", "warn", text)
    if found.is_headless:
        text = tell("the beginning is cut: a block without its device")
        yield Finding("incomplete", "warn", text)
    down = [p for p in found.ports if p.state is not None and not p.is_active]
    # Of a text that is cut the active ports may be missing, not of the node.
    if whole and len(down) == len(found.ports):
        text = tell("no port is active")
        yield Finding("no_active_port", "error", text, tuple(p.line for p in down))
        return
    for port in down:
        why = _DOWN.get((port.physical or "").lower(), "")
        text = tell(
            "%(port)s is %(state)s, physically %(physical)s%(why)s; its rate does not count",
            port=port.key,
            state=port.state,
            physical=port.physical,
            why=why,
        )
        yield Finding("port_down", "warn", text, (port.line,))


def _report_netdevs(
    devices: tuple[NetDev, ...],
    unread: tuple[int, ...],
    cut: int | None,
    said: tuple[Finding, ...],
) -> Report:
    ordered = sorted(devices, key=lambda d: natural_order(d.device))
    down = [d.device for d in ordered if not d.is_up]
    is_mixed = len({(d.device, d.port) for d in devices}) != len(devices)
    whole = cut is None and not (unread or is_mixed or said)
    findings = (
        *open_end(cut),
        *said,
        *_mixed(is_mixed, tell("a port")),
        *(
            Finding(
                "netdev_down",
                "warn",
                tell("%(device)s (%(netdev)s) is down", device=d.device, netdev=d.netdev),
                (d.line,),
            )
            for d in devices
            if not d.is_up
        ),
    )
    return Report(
        _KIND,
        "ibdev2netdev",
        whole,
        verdict_of(findings, known_good=whole and not down),
        tell("%(all)s RDMA devices, %(down)s down.", all=len(devices), down=len(down)),
        findings,
        {
            "device_count": None if is_mixed else len({d.device for d in devices}),
            "up": [d.device for d in ordered if d.is_up],
            "down": down,
            "bond_members": [d.device for d in ordered if d.is_bond],
            "data_rails": [d.device for d in ordered if d.is_up and not d.is_bond],
            "netdevs": {d.device: d.netdev for d in ordered},
        },
        unread,
    )


def _report_gids(table: GidTable, cut: int | None, said: tuple[Finding, ...]) -> Report:
    indexes = {} if table.is_mixed else table.rocev2_ipv4_index()
    whole = table.complete and cut is None and not said
    findings = (*open_end(cut), *said, *_gid_findings(table, indexes))
    return Report(
        _KIND,
        "show_gids",
        whole,
        verdict_of(findings, known_good=whole and not findings),
        tell(
            "%(gids)s GIDs on %(devices)s devices.",
            gids=len(table.gids),
            devices=len({g.device for g in table.gids}),
        ),
        findings,
        {
            "gids": None if table.is_mixed else len(table.gids),
            "gids_found": table.found,
            "rocev2_ipv4_index": indexes,
            "netdevs": {g.device: g.netdev for g in table.gids if g.netdev},
        },
        table.unread,
    )


def _gid_findings(table: GidTable, indexes: dict[str, int]) -> Iterator[Finding]:
    if table.is_mixed:
        yield from _mixed(True, tell("an index of a port"))
        return
    if not table.complete:
        count = tell("no count")
        if table.found is not None:
            count = tell("a count of %(count)s", count=table.found)
        text = tell(
            "%(gids)s GIDs and %(count)s at the end: the table is cut or damaged",
            gids=len(table.gids),
            count=count,
        )
        yield Finding("incomplete", "warn", text)
    elif not table.gids:
        text = tell("no GID at all: no RDMA device here, or a container without its network")
        yield Finding("no_gids", "warn", text)
    without = sorted({g.device for g in table.gids} - set(indexes), key=natural_order)
    if without:
        text = tell("no RoCEv2 IPv4 GID on %(names)s", names=", ".join(without[:16]))
        yield Finding("no_rocev2_gid", "warn", text)
    if len(set(indexes.values())) > 1:
        text = tell("the RoCEv2 IPv4 index differs between devices; one fixed index fits only some")
        yield Finding("gid_index_differs", "warn", text)


def _report_links(found: NetLinks, cut: int | None, said: tuple[Finding, ...]) -> Report:
    links = found.links
    down = [n.name for n in links if n.state in ("DOWN", "LOWERLAYERDOWN", "NOTPRESENT")]
    bare = [n.name for n in links if n.state == "UP" and not n.addresses]
    deaf = [n.name for n in links if n.has_no_carrier]
    mtus = sorted({n.mtu for n in links if n.mtu is not None})
    whole = found.complete and cut is None and not said
    findings = (*open_end(cut), *said, *_link_findings(found, down, deaf))
    return Report(
        _KIND,
        found.form,
        whole,
        verdict_of(findings, known_good=whole and not findings),
        tell("%(all)s interfaces, %(down)s down.", all=len(links), down=len(down)),
        findings,
        {
            "interfaces": None if found.is_mixed or not links else len(links),
            "names": [n.name for n in links],
            "down": down,
            "no_carrier": deaf,
            "up_without_address": bare if found.shows_addresses else None,
            "addr": {n.name: n.addresses[0] for n in links if n.addresses},
            "mac": {n.name: n.mac for n in links if n.mac},
            "all_up": all(n.state == "UP" for n in links) if whole else None,
            "mtu": mtus[0] if len(mtus) == 1 else (mtus or None),
        },
        found.unread,
    )


def _link_findings(found: NetLinks, down: list[str], deaf: list[str]) -> Iterator[Finding]:
    yield from _mixed(found.is_mixed, tell("an interface"))
    if not found.links:
        yield Finding("incomplete", "warn", tell("the JSON is cut or not ip's"), found.unread)
    elif found.is_partial:
        text = tell("the list does not begin with lo: it is filtered, or its beginning is cut")
        yield Finding("incomplete", "warn", text)
    if down:
        yield Finding("link_down", "warn", tell("down: %(names)s", names=", ".join(down[:16])))
    if deaf:
        text = tell("no carrier, so cable or other end: %(names)s", names=", ".join(deaf[:16]))
        yield Finding("no_carrier", "warn", text)
